"""The files of one commit that a check reads: those that it wrote, and those that it replaced with the deletes that
applied to them, as long as the parent snapshot is there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.manifest import changed_files, live_files, snapshot_manifests
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.past_runs import measured_files, run_commits
from iceberg_compaction.operations.verify import recorded_proof

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.model.partition_key import PartitionKey


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Data files that a commit wrote and replaced (model.table_view.FILES)."""

    snapshot: Snapshot
    written: pa.Table
    replaced: pa.Table
    written_deletes: pa.Table  # that apply to written files; a rewrite leaves none
    parent: pa.Table | None  # the live files of the parent snapshot; None: they are not known
    parent_gone: str  # the reason for that, in words
    parent_deletes: pa.Table  # of the parent snapshot, those that the run applied

    @property
    def moves(self) -> bool:
        """Whether rows may have gone from one partition to another."""
        replaced, written = keys(self.replaced), keys(self.written)
        return (
            not {spec_id for spec_id, _ in replaced} <= {spec_id for spec_id, _ in written} or not written <= replaced
        )

    def requests(self, table: Table) -> list[measured_files.FilesToMeasure]:
        """The files to read: those that the commit wrote, then those that it replaced."""
        schema = recorded_proof.schema_of(table, self.snapshot)
        sides = [(self.written, self.written_deletes)]
        if self.parent is not None:
            sides.append((self.replaced, self.parent_deletes))
        return [
            measured_files.FilesToMeasure(
                live=pa.concat_tables([files, deletes]).unify_dictionaries(),
                paths=files["file_path"].combine_chunks(),
                schema=schema,
                past_rows=run_commits.past_rows(self.snapshot),
            )
            for files, deletes in sides
        ]


def read(table: Table, snapshot: Snapshot) -> CommitFiles:
    """Reads metadata of the snapshot and of its parent."""
    changed = changed_files.read(table, snapshot)
    written, replaced = (_data(files) for files in (changed.added, changed.removed))
    parent, parent_gone = _parent(table, snapshot)
    none = table_view.FILES.empty_table()
    deletes = none if parent is None else _deletes(parent)
    written_deletes = none
    if run_commits.UNDOES in run_commits.properties(snapshot):  # the files that came back have deletes of their own
        written_deletes = _deletes(live(table, snapshot))
    elif written.num_rows:
        # Newer deletes came while the run was at work. They apply to the written files as well, and were not applied.
        deletes = deletes.filter(pc.less_equal(deletes["sequence_number"], pc.max(written["sequence_number"])))
    return CommitFiles(
        snapshot=snapshot,
        written=written,
        replaced=replaced,
        written_deletes=written_deletes,
        parent=parent,
        parent_gone=parent_gone,
        parent_deletes=deletes,
    )


def _parent(table: Table, snapshot: Snapshot) -> tuple[pa.Table | None, str]:
    """Damage in the metadata of the parent says nothing about the commit."""
    before = table.metadata.snapshot_by_id(snapshot.parent_snapshot_id or -1)
    if before is None:
        return None, "the snapshot before it has expired"
    try:
        return live(table, before), ""
    except errors.MetadataError as error:
        return None, f"the snapshot before it cannot be read ({str(error).rstrip('.')})"


def keys(files: pa.Table) -> set[PartitionKey]:
    """The partitions of files."""
    return set(zip(files["spec_id"].to_pylist(), files["partition"].cast(pa.string()).to_pylist(), strict=True))


def live(table: Table, snapshot: Snapshot) -> pa.Table:
    """The live files of a snapshot (model.table_view.FILES)."""
    manifests = snapshot_manifests.read(table.io, snapshot)
    files = live_files.live_files(table, manifests, cache=arrow_cache.NO_CACHE)
    return files.select(table_view.FILES.names)


def _data(files: pa.Table) -> pa.Table:
    return files.filter(pc.equal(files["content"], table_view.DATA))


def _deletes(files: pa.Table) -> pa.Table:
    return files.filter(pc.not_equal(files["content"], table_view.DATA))
