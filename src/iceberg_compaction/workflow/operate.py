"""The main line of every operation on one table, from top to bottom: load, recover, go on with the work of dead runs,
plan, lease, perform, remember.
Trouble with the table is an Outcome; trouble with the request (settings, catalog) is raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables, publish
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import events, outcome, policies
from iceberg_compaction.observe import run_scope
from iceberg_compaction.observe.tracing import spans
from iceberg_compaction.operations import run_ledger
from iceberg_compaction.operations.operation import PlansByEngine
from iceberg_compaction.storage import request_counts
from iceberg_compaction.workflow import go_on, recover

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.operations.operation import AnyPlan, EngineFactory, Operation, P
    from iceberg_compaction.record.runs import Run

# Errors of the table, not of the request, end a run with an Outcome. The first match counts.
_KINDS: tuple[tuple[type[errors.CompactionError], outcome.Kind], ...] = (
    (errors.UnsupportedError, outcome.Kind.UNSUPPORTED),
    (errors.LeasedError, outcome.Kind.SKIPPED),
    (errors.DeclinedError, outcome.Kind.SKIPPED),
    (errors.MaintainedError, outcome.Kind.FAILED),
    (errors.RefusedError, outcome.Kind.FAILED),
    (errors.StalePlanError, outcome.Kind.CONFLICT),
    (errors.ConflictError, outcome.Kind.CONFLICT),
    (errors.CommitError, outcome.Kind.FAILED),
    (errors.ExecuteError, outcome.Kind.FAILED),
    (errors.MetadataError, outcome.Kind.FAILED),
)
_PLANS = 3  # at most, if others take what a plan needs before the run does
_TABLE_ERRORS = tuple(error for error, _ in _KINDS)


@dataclass(frozen=True, slots=True, kw_only=True)
class House:
    """The parts that exist before a run begins and stay after it has ended."""

    catalog: Catalog
    engines: EngineFactory
    loaded: Table | None = None  # the table as it was just now, so that it is not loaded again


def operate(operation: Operation[P], house: House, run: Run) -> outcome.Outcome:
    """Perform one operation on one table, and keep its outcome in the history."""
    with (
        run_scope.working(operation.table, run.run_id),
        spans.of_run(operation.table, run.run_id),
        request_counts.counting() as count,
    ):
        result = _operate(operation, house, run, count)
        if not result.ok:
            spans.fail(None, result.kind.value)
        spans.describe_run(outcome=result.kind.value, snapshot_id=result.snapshot_id)
        return result


def _operate(operation: Operation[P], house: House, run: Run, count: request_counts.RequestCount) -> outcome.Outcome:
    ledger = run_ledger.Ledger(table=operation.table, run_id=run.run_id)
    try:
        result = _work(operation, house, run, ledger)
    except _TABLE_ERRORS as error:
        kind = next(kind for kinds, kind in _KINDS if isinstance(error, kinds))
        run.leased = isinstance(error, errors.LeasedError)
        result = ledger.stop(kind, str(error))
    except BaseException as error:
        if not ledger.commits and not ledger.in_doubt and not isinstance(error, errors.CancelledError):
            raise
        result = ledger.stop(outcome.Kind.FAILED, str(error) or f"Stopped by {type(error).__name__}.")
        stopped = run.remember(result.model_copy(update={"requests": count.requests}))
        if isinstance(error, errors.CatalogError):
            return stopped  # raised alone, it would hide the commits
        if isinstance(error, errors.CancelledError):
            cancelled = errors.CancelledError(stopped.sentence)
            cancelled.outcome = stopped
            raise cancelled from error
        raise
    return run.remember(result.model_copy(update={"requests": count.requests}))


def _ready(operation: Operation[P], house: House) -> Operation[P]:
    """The operation, with an engine if it plans by one."""
    if isinstance(operation, PlansByEngine):
        ready: Operation[P] = operation.with_engines(house.engines)
        return ready
    return operation


def _work(operation: Operation[P], house: House, run: Run, ledger: run_ledger.Ledger) -> outcome.Outcome:
    operation = _ready(operation, house)
    run.emit(events.Planning(table=operation.table, run_id=run.run_id))
    table = house.loaded or load_tables.load_table(house.catalog, operation.table)
    run.catalog = table_folders.entry(table).catalog
    recovered = recover.recover(table, run)
    if not recovered.legacies:
        return _plan_and_perform(operation, table, run, ledger, house.engines, recovered)
    with go_on.EngineForRun(house.engines) as engines:
        with spans.of_stage("execution", resumed_runs=len(recovered.legacies)):
            table, recovered = go_on.go_on(operation, table, run, ledger, engines, recovered)
        return _plan_and_perform(operation, table, run, ledger, engines, recovered)


def _plan_and_perform(
    operation: Operation[P],
    table: Table,
    run: Run,
    ledger: run_ledger.Ledger,
    engines: EngineFactory,
    recovered: recover.Recovered,
) -> outcome.Outcome:
    if recovered is not recover.NOTHING:
        run.emit(events.Planning(table=operation.table, run_id=run.run_id))  # again, so that each stage has its time
    for number in range(1, _PLANS + 1):
        with spans.of_stage("planning"):
            planned = operation.plan(table, run, ledger)
        plan = planned.plan
        facts = _describe(plan)
        if plan.empty:
            return recover.mention(recovered, operation.idle(plan, run, ledger))
        # Where runs end all the time, a plan need not be newer than all of them.
        seen = None if number == _PLANS else {snapshot.snapshot_id for snapshot in table.metadata.snapshots}
        try:
            with (
                run.at_work(
                    table_folders.home(table),
                    branch=operation.branch,
                    resources=plan.resources,
                    seen=seen,
                    command=operation.command,
                ),
                spans.of_stage("execution", **facts),
            ):
                result = operation.perform(planned, table, run, ledger, engines)
        except errors.LeasedError:
            if number == _PLANS:
                raise
            ledger.forget_plan()
            table = publish.reload(table)
        else:
            break
    if recovered.waiting and result.snapshot_id is not None:
        commits = len(ledger.commits)
        recovered = go_on.after_commit(operation, table, run, ledger, engines, recovered)
        result = operation.idle(plan, run, ledger) if len(ledger.commits) > commits else result
    return recover.mention(recovered, result)


def _describe(plan: AnyPlan) -> dict[str, int]:
    """Enter the strategy in the run's span, and return the figures of the plan; those of other operations than the
    rewrite of files have none."""
    policy = getattr(plan, "policy", None)
    spans.describe_run(strategy=None if policy is None else policies.name_of(policy.strategy))
    return {"partitions": len(getattr(plan, "partitions", ())), "total_files": getattr(plan, "input_files", 0)}


def plan_only(operation: Operation[P], house: House, run: Run) -> P:
    """Make the plan that `operate` would perform now. Writes nothing."""
    run.emit(events.Planning(table=operation.table, run_id=run.run_id, performs=False))
    table = house.loaded or load_tables.load_table(house.catalog, operation.table)
    operation = _ready(operation, house)
    return operation.plan(table, run, run_ledger.Ledger(table=operation.table, run_id=run.run_id)).plan
