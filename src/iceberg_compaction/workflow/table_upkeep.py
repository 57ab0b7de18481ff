"""All upkeep of one table, as its policy asks for it, in the one safe order. A policy comes in, the outcome of each
step goes out. The table is loaded once, and again only after a step that changed it; a step that finds nothing to do
costs no request to the catalog."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.model import orphan_plan, outcome, snapshot_retention, tag_plan, ttl_plan
from iceberg_compaction.model.maintenance import MaintenanceStep, StepOutcome, TableMaintenance
from iceberg_compaction.model.statistics_plan import StatisticsGoal
from iceberg_compaction.operations.deletes.choose_deletes import DeleteGoal
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ManifestGoal, RewriteManifests
from iceberg_compaction.operations.statistics.refresh_statistics import RefreshStatistics
from iceberg_compaction.operations.tags.make_tags import MakeTags
from iceberg_compaction.operations.ttl.expire_rows import ExpireRows

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping

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
        MaintenanceStep.STATISTICS: upkeep.statistics.enabled,
        MaintenanceStep.ORPHANS: upkeep.orphans.enabled,
    }
    return tuple(step for step in MaintenanceStep if (step in named if named else enabled[step]))


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepRequest:
    """What is to be done for a table."""

    table: str  # its name
    policy: TablePolicy
    steps: Collection[MaintenanceStep]
    branch: str = "main"
    neighbourhoods: Neighbourhoods = field(default_factory=Neighbourhoods)  # of all tables of a command


def maintain(table: Table, request: UpkeepRequest, perform: Perform) -> TableMaintenance:
    """Do the steps one after the other. One that fails does not stop the others, but for the removal of orphans: what
    a failed step has left may still be needed."""
    operations = {
        step: partial(
            operation_of,
            step,
            request.table,
            request.policy,
            branch=request.branch,
            neighbourhoods=request.neighbourhoods,
        )
        for step in request.steps
    }
    return TableMaintenance(table=request.table, steps=tuple(_perform(table, request.table, operations, perform)))


def declined(name: str, reason: str) -> TableMaintenance:
    """The maintenance of a table that its policy passes over, as a whole."""
    skipped = outcome.Skipped(table=name, sentence=reason, run_id="")
    return TableMaintenance(table=name, steps=(StepOutcome(step=MaintenanceStep.REWRITE, outcome=skipped),))


def _perform(
    table: Table, name: str, operations: Mapping[MaintenanceStep, Callable[[], Operation[Any]]], perform: Perform
) -> Iterator[StepOutcome]:
    loaded: Table | None = table
    failed: list[str] = []
    for step, operation in operations.items():
        if reason := _reason_to_skip(step, table, failed):
            skipped = outcome.Skipped(table=name, sentence=reason, run_id="")
            yield StepOutcome(step=step, outcome=skipped)
            continue
        try:
            result = perform(operation(), loaded)
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


def operation_of(
    step: MaintenanceStep,
    name: str,
    policy: TablePolicy,
    *,
    branch: str = "main",
    neighbourhoods: Neighbourhoods | None = None,
) -> Operation[Any]:
    """The operation of a step, with the values that the policy has for it. ConfigError: one is missing. Snapshots
    expire and orphans go for all branches together; any other step works on the one. `neighbourhoods`: those of all
    tables of a command."""
    upkeep, others = policy.maintenance, neighbourhoods or Neighbourhoods()
    match step:
        case MaintenanceStep.TAGS:
            keep = None if upkeep.tags.keep is None else _ms(upkeep.tags.keep)
            every = tag_plan.Every(_PERIODS.get(upkeep.tags.period, upkeep.tags.period))
            return MakeTags(table=name, goal=tag_plan.TagGoal(every=every, keep_ms=keep), branch=branch)
        case MaintenanceStep.EXPIRE:
            return ExpireSnapshots(table=name, goal=_retention(policy), neighbourhoods=others)
        case MaintenanceStep.TTL:
            return ExpireRows(table=name, goal=_ttl(policy), branch=branch)
        case MaintenanceStep.DELETES:
            return CleanDeletes(table=name, goal=DeleteGoal(merge=False, convert=False), branch=branch)
        case MaintenanceStep.REWRITE:
            return RewriteFiles(table=name, policy=policy.rewrite, branch=branch)
        case MaintenanceStep.MANIFESTS:
            size = upkeep.manifests.target_size_bytes
            return RewriteManifests(table=name, goal=ManifestGoal(target_size_bytes=size), branch=branch)
        case MaintenanceStep.STATISTICS:
            return RefreshStatistics(table=name, goal=StatisticsGoal(columns=upkeep.statistics.columns), branch=branch)
        case MaintenanceStep.ORPHANS:
            goal = orphan_plan.OrphanGoal(
                older_than_ms=_ms(upkeep.orphans.older_than), allow_unlisted=upkeep.orphans.allow_unlisted
            )
            return RemoveOrphans(table=name, goal=goal, neighbourhoods=others)


def _retention(policy: TablePolicy) -> snapshot_retention.RetentionGoal:
    """A policy that says nothing leaves the retention to the table's own properties."""
    expire = policy.maintenance.expire
    given = expire.model_fields_set
    return snapshot_retention.RetentionGoal(
        policy_age_ms=_ms(expire.max_snapshot_age) if "max_snapshot_age" in given else None,
        policy_count=expire.min_snapshots_to_keep if "min_snapshots_to_keep" in given else None,
        policy_ref_age_ms=None if expire.max_ref_age is None else _ms(expire.max_ref_age),
        allow_unlisted=expire.allow_unlisted,
    )


def _ttl(policy: TablePolicy) -> ttl_plan.TtlGoal:
    ttl = policy.maintenance.ttl
    if ttl.column is None or ttl.keep is None:
        raise errors.ConfigError("The step ttl needs ttl.column, and ttl.keep: how long rows are kept.")
    return ttl_plan.TtlGoal(column=ttl.column, older_than_ms=_ms(ttl.keep), whole_partitions=ttl.level == "partition")


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
