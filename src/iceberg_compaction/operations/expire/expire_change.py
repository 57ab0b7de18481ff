"""An expiry as a change without a snapshot of its own. Each attempt chooses again on the table as it is, and takes of
that only what the plan names, so that a snapshot which somebody has tagged meanwhile stays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotRefUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    ValidatableTableRequirement,
)

from iceberg_compaction import errors
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.expire import table_facts, unused_metadata
from iceberg_compaction.plan.expiry import choose_snapshots

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from iceberg_compaction.model.expire_plan import ExpirePlan
    from iceberg_compaction.record.runs import Run


class AssertSameRefs(ValidatableTableRequirement):
    """The table has just these branches and tags. Iceberg's protocol has no such requirement, so that only catalogs
    whose clients check requirements can be asked for it: a tag that somebody sets at the last moment would go with its
    snapshot."""

    type: Literal["assert-same-refs"] = "assert-same-refs"
    names: frozenset[str]

    def validate(self, base_metadata: TableMetadata | None) -> None:  # type: ignore[override]
        if base_metadata is None or base_metadata.refs.keys() != self.names:
            raise CommitFailedException("Requirement failed: a branch or tag was created or removed")


class _SnapshotIds(list[int]):
    """Ids that are found at once: PyIceberg asks for each snapshot of the table, several times, whether it is among
    them."""

    def __init__(self, ids: Iterable[int]) -> None:
        super().__init__(ids)
        self._different = frozenset(self)

    def __contains__(self, snapshot_id: object) -> bool:
        return snapshot_id in self._different


@dataclass(slots=True, kw_only=True)
class ExpireChange:
    """What the plan takes out of the metadata."""

    plan: ExpirePlan
    run: Run
    now_ms: int  # of the plan: what was too young then does not grow older between two attempts

    @property
    def label(self) -> str:
        return f"the expiry of {plurals.count(len(self.plan.snapshot_ids), 'snapshot')}"

    @property
    def written(self) -> tuple[str, ...]:
        return ()

    def stage(self, table: Table, now_ms: int) -> StagedExpiry:
        """Choose again. StalePlanError: nothing of the plan is left to do."""
        plan = self.plan
        choice = choose_snapshots.choose(
            table_facts.read(table.metadata, self.run), plan.goal, plan.retention, self.now_ms
        )
        refs = tuple(each for each in choice.removed_refs if each in plan.refs)
        # A ref that stays although the choice lets it go holds its snapshots: it is not in the plan.
        held = {table.metadata.refs[each].snapshot_id for each in choice.removed_refs if each not in refs}
        planned = set(plan.snapshot_ids) - held
        expired = tuple(each for each in choice.expired if each in planned)
        schema_ids, spec_ids = self._unused(table, set(expired))
        if not expired and not refs and not schema_ids and not spec_ids:
            raise errors.StalePlanError(f"Nothing of the plan for {plan.table} is left to do; others have done it.")
        return StagedExpiry(
            parent=table.metadata,
            expired=expired,
            refs=refs,
            schema_ids=schema_ids,
            spec_ids=spec_ids,
            on_server=isinstance(table.catalog, RestCatalog),
        )

    def _unused(self, table: Table, expired: set[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        if not self.plan.schema_ids and not self.plan.spec_ids:
            return (), ()
        kept = [each for each in table.metadata.snapshots if each.snapshot_id not in expired]
        unused = unused_metadata.find(table, kept)
        return (
            tuple(each for each in unused.schema_ids if each in self.plan.schema_ids),
            tuple(each for each in unused.spec_ids if each in self.plan.spec_ids),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedExpiry:
    """One attempt."""

    parent: TableMetadata
    expired: tuple[int, ...]
    refs: tuple[str, ...]
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    on_server: bool = False  # which checks the requirements
    files: frozenset[str] = field(default=frozenset(), init=False)
    snapshot: None = field(default=None, init=False)

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """No branch or tag has moved since the choice was made: one may have gone back to an old snapshot."""
        heads = (AssertRefSnapshotId(ref=name, snapshot_id=ref.snapshot_id) for name, ref in self.parent.refs.items())
        names = () if self.on_server else (AssertSameRefs(names=frozenset(self.parent.refs)),)
        return (AssertTableUUID(uuid=self.parent.table_uuid), *heads, *names)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        gone = set(self.expired)
        # Servers before Iceberg 1.10 take one snapshot in each update; in a client one update takes no longer for all.
        batches = [[each] for each in self.expired] if self.on_server else [_SnapshotIds(self.expired)] if gone else []
        return (
            *(RemoveSnapshotRefUpdate(ref_name=name) for name in self.refs),
            *(
                RemoveStatisticsUpdate(snapshot_id=each)
                for each in dict.fromkeys(file.snapshot_id for file in self.parent.statistics)
                if each in gone
            ),
            *(
                RemovePartitionStatisticsUpdate(snapshot_id=each)
                for each in dict.fromkeys(file.snapshot_id for file in self.parent.partition_statistics)
                if each in gone
            ),
            *(RemoveSnapshotsUpdate(snapshot_ids=[]).model_copy(update={"snapshot_ids": batch}) for batch in batches),
            *((RemovePartitionSpecsUpdate(spec_ids=list(self.spec_ids)),) if self.spec_ids else ()),
            *((RemoveSchemasUpdate(schema_ids=list(self.schema_ids)),) if self.schema_ids else ()),
        )

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether all that was to go is gone, whoever did it."""
        present = {each.snapshot_id for each in metadata.snapshots}
        return (
            present.isdisjoint(self.expired)
            and not any(name in metadata.refs for name in self.refs)
            and not any(each.schema_id in self.schema_ids for each in metadata.schemas)
            and not any(each.spec_id in self.spec_ids for each in metadata.partition_specs)
        )

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """The same as `landed`: attempts leave no trace of their own."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether a branch or tag has moved, so that the requirements of this attempt do not hold any more."""
        return any(
            name not in metadata.refs or metadata.refs[name].snapshot_id != ref.snapshot_id
            for name, ref in self.parent.refs.items()
        )
