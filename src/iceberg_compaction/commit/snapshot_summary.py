"""The summary of a replace snapshot (R13): counts of added and removed files, and the table's totals after it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.snapshots import Operation, Summary

from iceberg_compaction import version
from iceberg_compaction.metadata.manifest.written_manifests import NONE

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.metadata.manifest.written_manifests import Counts


RUN_ID = "compaction.run-id"  # a property of every snapshot that a run commits
PARTITION_LIMIT = "write.summary.partition-limit"


def signature(run_id: str) -> dict[str, str]:
    """The properties that name the maker of a snapshot, for anyone who reads the table's history."""
    return {"engine-name": "iceberg-compaction", "engine-version": version.__version__, RUN_ID: run_id}


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChanges:
    """Counts of files that a snapshot adds and removes."""

    added: Counts = NONE  # data files
    removed: Counts = NONE
    position_deletes: Counts = NONE  # removed
    equality_deletes: Counts = NONE
    added_position_deletes: Counts = NONE
    added_equality_deletes: Counts = NONE

    def __add__(self, other: FileChanges) -> FileChanges:
        return FileChanges(
            added=self.added + other.added,
            removed=self.removed + other.removed,
            position_deletes=self.position_deletes + other.position_deletes,
            equality_deletes=self.equality_deletes + other.equality_deletes,
            added_position_deletes=self.added_position_deletes + other.added_position_deletes,
            added_equality_deletes=self.added_equality_deletes + other.added_equality_deletes,
        )

    @property
    def deletes(self) -> Counts:
        return self.position_deletes + self.equality_deletes

    @property
    def added_deletes(self) -> Counts:
        return self.added_position_deletes + self.added_equality_deletes

    def counts(self) -> dict[str, int]:
        """The counts by Iceberg's names, without zeros."""
        figures = {
            "added-data-files": self.added.files,
            "deleted-data-files": self.removed.files,
            "added-records": self.added.records,
            "deleted-records": self.removed.records,
            "added-files-size": self.added.bytes + self.added_deletes.bytes,
            "removed-files-size": self.removed.bytes + self.deletes.bytes,
            "removed-delete-files": self.deletes.files,
            "removed-position-delete-files": self.position_deletes.files,
            "removed-equality-delete-files": self.equality_deletes.files,
            "removed-position-deletes": self.position_deletes.records,
            "removed-equality-deletes": self.equality_deletes.records,
            "added-delete-files": self.added_deletes.files,
            "added-position-delete-files": self.added_position_deletes.files,
            "added-equality-delete-files": self.added_equality_deletes.files,
            "added-position-deletes": self.added_position_deletes.records,
            "added-equality-deletes": self.added_equality_deletes.records,
        }
        return {name: value for name, value in figures.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class SummaryFigures(FileChanges):
    """All figures of a summary."""

    changed_partitions: int
    manifests_created: int
    manifests_kept: int
    manifests_replaced: int
    partitions: Mapping[str, FileChanges] = field(
        default_factory=dict
    )  # by path; only if the table's properties ask for it


def summarize(
    figures: SummaryFigures,
    previous: Mapping[str, str] | None,
    properties: Mapping[str, str],
    operation: Operation = Operation.REPLACE,
) -> Summary:
    """Make the new snapshot's summary from its figures and the summary of the branch's head."""
    added, removed, deletes = figures.added, figures.removed, figures.deletes
    counts = figures.counts() | {
        "changed-partition-count": figures.changed_partitions,
        "manifests-created": figures.manifests_created,
        "manifests-kept": figures.manifests_kept,
        "manifests-replaced": figures.manifests_replaced,
    }
    totals = {
        "total-records": added.records - removed.records,
        "total-files-size": added.bytes + figures.added_deletes.bytes - removed.bytes - deletes.bytes,
        "total-data-files": added.files - removed.files,
        "total-delete-files": figures.added_deletes.files - deletes.files,
        "total-position-deletes": figures.added_position_deletes.records - figures.position_deletes.records,
        "total-equality-deletes": figures.added_equality_deletes.records - figures.equality_deletes.records,
    }
    # A total that the head's summary lacks, or has as nonsense, cannot be continued: it is left out.
    before = {key: _count(previous, key) for key in totals}
    after = {key: total + totals[key] for key, total in before.items() if total is not None}
    texts = {key: str(value) for key, value in (counts | {k: v for k, v in after.items() if v >= 0}).items()}
    return Summary(operation=operation, **(dict(properties) | texts | _partitions(figures.partitions)))


def _partitions(changes: Mapping[str, FileChanges]) -> dict[str, str]:
    summaries = {
        f"partitions.{path}": ",".join(f"{name}={value}" for name, value in change.counts().items())
        for path, change in changes.items()
    }
    return {"partition-summaries-included": "true", **summaries} if summaries else {}


def _count(previous: Mapping[str, str] | None, key: str) -> int | None:
    text = (previous or {}).get(key)
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
