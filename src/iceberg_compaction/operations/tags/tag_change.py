"""New tags as a change without a snapshot of its own. The catalog takes it only if no branch or tag has one of the
names by then, so that none is ever moved."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.update import AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

from iceberg_compaction import errors
from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from iceberg_compaction.model.tag_plan import NewTag, TagPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChange:
    """The tags of a plan."""

    plan: TagPlan

    @property
    def label(self) -> str:
        return plurals.count(len(self.plan.tags), "new tag")

    @property
    def written(self) -> tuple[str, ...]:
        return ()

    def stage(self, table: Table, now_ms: int) -> StagedTags:
        """Those that still lack and whose snapshot is still there. StalePlanError: there are none."""
        metadata = table.metadata
        present = {each.snapshot_id for each in metadata.snapshots}
        left = tuple(each for each in self.plan.tags if each.name not in metadata.refs and each.snapshot_id in present)
        if not left:
            raise errors.StalePlanError(f"No tag of the plan for {self.plan.table} is left to make; plan again.")
        return StagedTags(parent=metadata, tags=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedTags:
    """One attempt."""

    parent: TableMetadata
    tags: tuple[NewTag, ...]
    files: frozenset[str] = field(default=frozenset(), init=False)
    snapshot: None = field(default=None, init=False)

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        absent = (AssertRefSnapshotId(ref=each.name, snapshot_id=None) for each in self.tags)
        return (AssertTableUUID(uuid=self.parent.table_uuid), *absent)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        return tuple(
            SetSnapshotRefUpdate(
                ref_name=each.name,
                type=SnapshotRefType.TAG,
                snapshot_id=each.snapshot_id,
                max_ref_age_ms=each.max_ref_age_ms,
                max_snapshot_age_ms=None,
                min_snapshots_to_keep=None,
            )
            for each in self.tags
        )

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the table has all tags as they should be, whoever made them."""
        refs = metadata.refs
        return all(each.name in refs and refs[each.name].snapshot_id == each.snapshot_id for each in self.tags)

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """The same as `landed`: attempts do not differ."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether somebody else has taken one of the names."""
        return any(each.name in metadata.refs for each in self.tags)
