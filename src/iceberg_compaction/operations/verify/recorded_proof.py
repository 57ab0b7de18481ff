"""The proof of a commit as its snapshot's summary has it, so that it is known without a run store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files.groups import prove_groups

if TYPE_CHECKING:
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.proof import Side


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedProof:
    """Rows and checksum that the run measured."""

    rows: int | None  # None: the summary has none
    checksum: str  # of the rows; empty: there is none, or it covers bytes of row groups that were copied
    copied: bool  # row groups were taken over as bytes

    def difference(self, stored: Side) -> str:
        """The reason why rows are not those of the record, in words; empty: they are."""
        if self.rows is not None and self.rows != stored.rows:
            return f"the run recorded {self.rows:,} rows, and its files hold {stored.rows:,}"
        if self.checksum and self.checksum != checksum_text(stored):
            return (
                f"the run recorded the checksum {self.checksum}, and the rows of its files have {checksum_text(stored)}"
            )
        return ""


def of_snapshot(snapshot: Snapshot) -> RecordedProof:
    """The proof in a snapshot's summary."""
    summary = run_commits.properties(snapshot)
    rows = summary.get(prove_groups.PROOF_ROWS, "")
    copied = "compaction.copied-row-groups" in summary
    whole = summary.get(prove_groups.PROOF_STORED_CHECKSUM, "")
    return RecordedProof(
        rows=int(rows) if rows.isascii() and rows.isdigit() else None,
        checksum=whole if copied else summary.get(prove_groups.PROOF_CHECKSUM, ""),
        copied=copied,
    )


def schema_of(table: Table, snapshot: Snapshot) -> Schema:
    """The schema that the run read and wrote with."""
    stated = run_commits.properties(snapshot).get(prove_groups.SCHEMA_ID, "")
    schemas = table.schemas()
    ids = (int(stated) if stated.isascii() and stated.isdigit() else None, snapshot.schema_id)
    return next((schemas[schema_id] for schema_id in ids if schema_id in schemas), table.schema())


def checksum_text(side: Side) -> str:
    """The checksum of rows as summaries have it."""
    return "" if side.row_checksum is None else f"{side.row_checksum:016x}"
