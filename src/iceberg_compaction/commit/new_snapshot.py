"""A change that adds a snapshot to a branch: its requirements and updates, and the test whether it landed after an
unknown commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    AssertDefaultSpecId,
    AssertRefSnapshotId,
    AssertTableUUID,
    SetSnapshotRefUpdate,
)

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class NewSnapshot:
    """A snapshot that is written and not published. All attempts of a change have the same snapshot id, and each has a
    manifest list of its own."""

    parent: TableMetadata  # the table that it is built on
    branch: str
    snapshot: Snapshot
    files: frozenset[str]  # those that the change wrote and the snapshot needs

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """The branch has not moved. A partition spec of new files cannot be removed while it is the default one."""
        return (
            AssertTableUUID(uuid=self.parent.table_uuid),
            AssertDefaultSpecId(default_spec_id=self.parent.default_spec_id),
            AssertRefSnapshotId(ref=self.branch, snapshot_id=self.snapshot.parent_snapshot_id),
        )

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """Add the snapshot and move the branch to it; the branch keeps its retention settings."""
        ref = self.parent.refs[self.branch]
        moved = SetSnapshotRefUpdate(
            ref_name=self.branch,
            type=SnapshotRefType.BRANCH,
            snapshot_id=self.snapshot.snapshot_id,
            max_ref_age_ms=ref.max_ref_age_ms,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
        )
        return AddSnapshotUpdate(snapshot=self.snapshot), moved

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the snapshot is in the table, or was when another was committed on top of it."""
        snapshot_id = self.snapshot.snapshot_id
        return any(snapshot_id in (each.snapshot_id, each.parent_snapshot_id) for each in metadata.snapshots)

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """Whether the snapshot in the table is of this attempt, and not of another one of the same change."""
        current = metadata.snapshot_by_id(self.snapshot.snapshot_id)
        return current is not None and current.manifest_list == self.snapshot.manifest_list

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether others committed instead: the branch has gone on from its parent, or its sequence number is taken. A
        head that does not descend from the parent proves nothing: the answer may be out of date, or the snapshot may be
        in the history that has expired."""
        head, parent = metadata.snapshot_by_name(self.branch), self.snapshot.parent_snapshot_id
        if head is None or parent is None or not descends(metadata, head, parent):
            return False
        return head.snapshot_id != parent or metadata.next_sequence_number() > (self.snapshot.sequence_number or 0)


def descends(metadata: TableMetadata, head: Snapshot, ancestor_id: int) -> bool:
    """Whether the history of a snapshot, as far as it has not expired, leads to another one; or it is that one."""
    snapshots = {snapshot.snapshot_id: snapshot for snapshot in metadata.snapshots}
    current: Snapshot | None = head
    while current is not None:
        if ancestor_id in (current.snapshot_id, current.parent_snapshot_id):
            return True
        current = snapshots.get(current.parent_snapshot_id) if current.parent_snapshot_id is not None else None
    return False
