"""A rollback as a change without a snapshot of its own: the branch goes back to the snapshot before a run. The catalog
takes it only if the branch still ends with the run's last commit, and has the snapshot to go back to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from iceberg_compaction.commit import new_snapshot

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedRollback:
    """One attempt to roll a branch back."""

    parent: TableMetadata  # the table as it is
    branch: str
    head_id: int  # the run's last commit
    target_id: int  # the snapshot before the run

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        return (
            AssertTableUUID(uuid=self.parent.table_uuid),
            AssertRefSnapshotId(ref=self.branch, snapshot_id=self.head_id),
        )

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """Move the branch; it keeps its retention settings."""
        ref = self.parent.refs[self.branch]
        return (
            SetSnapshotRefUpdate(
                ref_name=self.branch,
                type=SnapshotRefType.BRANCH,
                snapshot_id=self.target_id,
                max_ref_age_ms=ref.max_ref_age_ms,
                max_snapshot_age_ms=ref.max_snapshot_age_ms,
                min_snapshots_to_keep=ref.min_snapshots_to_keep,
            ),
        )

    @property
    def files(self) -> frozenset[str]:
        return frozenset()

    @property
    def snapshot(self) -> None:
        return None

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the branch has gone back, whoever did it, and whatever was committed on top since."""
        head = metadata.snapshot_by_name(self.branch)
        if head is None or head.snapshot_id == self.head_id:
            return False
        return new_snapshot.descends(metadata, head, self.target_id) and not new_snapshot.descends(
            metadata, head, self.head_id
        )

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """The same as `landed`: attempts do not differ."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether the branch has gone on from the run's last commit."""
        head = metadata.snapshot_by_name(self.branch)
        if head is None or head.snapshot_id == self.head_id:
            return False
        return new_snapshot.descends(metadata, head, self.head_id)
