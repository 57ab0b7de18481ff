"""All upkeep of one table, as its policy asks for it, in the one safe order. A policy comes in, the outcome of each
step goes out. The table is loaded once, and again only after a step that changed it; a step that finds nothing to do
costs no request to the catalog."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.model import orphan_plan, outcome, snapshot_retention, tag_plan, ttl_plan
from iceberg_compaction.model.maintenance import MaintenanceStep, StepOutcome, TableMaintenance
from iceberg_compaction.operations.deletes.choose_deletes import DeleteGoal
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ManifestGoal, RewriteManifests
from iceberg_compaction.operations.tags.make_tags import MakeTags
from iceberg_compaction.operations.ttl.expire_rows import ExpireRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.operations.operation import Operation

    # Performs an operation on a table that may have been loaded just now.
    Perform: TypeAlias = Callable[[Operation[Any], Table | None], outcome.Outcome]

_DESTRUCTIVE = (MaintenanceStep.EXPIRE, MaintenanceStep.ORPHANS)  # files are deleted
_PERIODS = {"hourly": "hour", "daily": "day", "monthly": "month"}


def steps_of(policy: TablePolicy, named: Collection[MaintenanceStep] = ()) -> tuple[MaintenanceStep, ...]:
    """The steps that a policy asks for, or those that somebody named, in order. Files are always rewritten where that
    is worth it; every other step has to be turned on."""
    upkeep = policy.maintenance
    enabled = {
        MaintenanceStep.TAGS: upkeep.tags.enabled,
        MaintenanceStep.EXPIRE: upkeep.expire.enabled,
        MaintenanceStep.TTL: upkeep.ttl.enabled,
        MaintenanceStep.DELETES: upkeep.deletes.enabled,
        MaintenanceStep.REWRITE: True,
        MaintenanceStep.MANIFESTS: upkeep.manifests.enabled,
        MaintenanceStep.ORPHANS: upkeep.orphans.enabled,
    }
    return tuple(step for step in MaintenanceStep if (step in named if named else enabled[step]))


def maintain(
    table: Table, name: str, policy: TablePolicy, steps: Collection[MaintenanceStep], perform: Perform
) -> TableMaintenance:
    """Do the steps one after the other. One that fails does not stop the others, but for the removal of orphans: what
    a failed step has left may still be needed."""
    outcomes = tuple(_perform(table, name, policy, steps, perform))
    return TableMaintenance(table=name, steps=outcomes)


def _perform(
    table: Table, name: str, policy: TablePolicy, steps: Collection[MaintenanceStep], perform: Perform
) -> Iterator[StepOutcome]:
    loaded: Table | None = table
    failed: list[str] = []
    for step in steps:
        if reason := _reason_to_skip(step, table, failed):
            skipped = outcome.Skipped(table=name, sentence=reason, run_id="")
            yield StepOutcome(step=step, outcome=skipped)
            continue
        try:
            result = perform(operation_of(step, name, policy), loaded)
        except errors.CancelledError:
            raise
        except errors.CompactionError as error:
            result = outcome.Failed(table=name, sentence=str(error), run_id="")
        if result.kind is not outcome.Kind.HEALTHY:
            loaded = None
        if not result.ok and result.kind is not outcome.Kind.UNSUPPORTED:
            failed.append(step.value)
        yield StepOutcome(step=step, outcome=result)


def _reason_to_skip(step: MaintenanceStep, table: Table, failed: list[str]) -> str | None:
    keeps_files = table.properties.get(snapshot_retention.GC, "true").strip().lower() == "false"
    if step in _DESTRUCTIVE and keeps_files:
        return f"{step.value} is passed over: the table has gc.enabled=false, so that no file of it may be deleted."
    if step is MaintenanceStep.ORPHANS and failed:
        return f"orphans is passed over: {', '.join(failed)} failed, and what that left may still be needed."
    return None


def operation_of(step: MaintenanceStep, name: str, policy: TablePolicy) -> Operation[Any]:
    """The operation of a step, with the values that the policy has for it. ConfigError: one is missing."""
    upkeep = policy.maintenance
    match step:
        case MaintenanceStep.TAGS:
            keep = None if upkeep.tags.keep is None else _ms(upkeep.tags.keep)
            every = tag_plan.Every(_PERIODS.get(upkeep.tags.period, upkeep.tags.period))
            return MakeTags(table=name, goal=tag_plan.TagGoal(every=every, keep_ms=keep))
        case MaintenanceStep.EXPIRE:
            return ExpireSnapshots(table=name, goal=_retention(policy))
        case MaintenanceStep.TTL:
            return ExpireRows(table=name, goal=_ttl(policy))
        case MaintenanceStep.DELETES:
            return CleanDeletes(table=name, goal=DeleteGoal(merge=False, convert=False))
        case MaintenanceStep.REWRITE:
            return RewriteFiles(table=name, policy=policy.rewrite)
        case MaintenanceStep.MANIFESTS:
            return RewriteManifests(table=name, goal=ManifestGoal(target_size_bytes=upkeep.manifests.target_size_bytes))
        case MaintenanceStep.ORPHANS:
            return RemoveOrphans(table=name, goal=orphan_plan.OrphanGoal(older_than_ms=_ms(upkeep.orphans.older_than)))


def _retention(policy: TablePolicy) -> snapshot_retention.RetentionGoal:
    """A policy that says nothing leaves the retention to the table's own properties."""
    expire = policy.maintenance.expire
    given = expire.model_fields_set
    return snapshot_retention.RetentionGoal(
        policy_age_ms=_ms(expire.max_snapshot_age) if "max_snapshot_age" in given else None,
        policy_count=expire.min_snapshots_to_keep if "min_snapshots_to_keep" in given else None,
        policy_ref_age_ms=None if expire.max_ref_age is None else _ms(expire.max_ref_age),
    )


def _ttl(policy: TablePolicy) -> ttl_plan.TtlGoal:
    ttl = policy.maintenance.ttl
    if ttl.column is None or ttl.keep is None:
        raise errors.ConfigError("The step ttl needs ttl.column, and ttl.keep: how long rows are kept.")
    return ttl_plan.TtlGoal(column=ttl.column, older_than_ms=_ms(ttl.keep), whole_partitions=ttl.level == "partition")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
