"""The order of work on one table: inventory, plan, rewrite, proof, commit, sweep. Every outside calls these functions.
What goes wrong with a table is an Outcome; what goes wrong with the request (settings, catalog) is raised."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypeAlias

import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.catalog import tables
from iceberg_compaction.inspect import checkup, deletes, health
from iceberg_compaction.metadata import history
from iceberg_compaction.metadata import inventory as inventories
from iceberg_compaction.model import outcome
from iceberg_compaction.model.policy import Policy, Strategy
from iceberg_compaction.model.table import DATA
from iceberg_compaction.plan import build, decide, quick
from iceberg_compaction.workflow import apply, journal, leftovers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.execute.engine import Engine
    from iceberg_compaction.model.health import TableHealth
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.table import Inventory
    from iceberg_compaction.workflow.run import Run

# Called only when there is something to rewrite, so that a healthy table never starts an engine.
EngineFactory: TypeAlias = "Callable[[], AbstractContextManager[Engine]]"

# Errors that tell about the table rather than about the request: they end a run with an Outcome. First match counts.
_TABLE_ERRORS: tuple[tuple[type[errors.CompactionError], outcome.Kind], ...] = (
    (errors.UnsupportedError, outcome.Kind.UNSUPPORTED),
    (errors.StalePlanError, outcome.Kind.CONFLICT),
    (errors.ConflictError, outcome.Kind.CONFLICT),
    (errors.CommitError, outcome.Kind.FAILED),
    (errors.ExecuteError, outcome.Kind.FAILED),
    (errors.MetadataError, outcome.Kind.FAILED),
)

_MANY_DELETES = Policy(strategy=Strategy.DELETE_FILES, delete_file_threshold=checkup.MANY_DELETES)


def diagnose(
    catalog: Catalog, name: str, policy: Policy, *, branch: str = "main", worst: int = checkup.WORST
) -> TableHealth:
    """How healthy a table is, from metadata alone. Tables that cannot be rewritten yet still have a health. `worst`:
    how many of its partitions to name."""
    table = tables.load_table(catalog, name)
    inventory = inventories.take_inventory(table, name=name, branch=branch)
    asked = checkup.Checkup(
        policy=policy,
        sizes=decide.resolve_sizes(inventory, policy),
        sick=quick.needs_work(inventory, policy),
        worn=inventory.delete_files is not None and quick.needs_work(inventory, _MANY_DELETES),
        applied=_applied_deletes(inventory),
        history=history.read_history(table, branch=branch),
        worst=worst,
    )
    return health.assess(inventory, asked)


def _applied_deletes(inventory: Inventory) -> deletes.Applied | None:
    """How many delete files data files meet, if there are any."""
    if inventory.delete_files is None:
        return None
    met = inventory.delete_files.filter(pc.equal(inventory.files["content"].combine_chunks(), DATA))
    return deletes.Applied(per_data_file=met.to_numpy(), dangling=inventory.dangling_deletes)


def plan_table(catalog: Catalog, name: str, policy: Policy, run: Run) -> Plan:
    """What a run would do, and why; pinned to the branch's head. Reads metadata, writes nothing."""
    run.on_event(outcome.Event(table=name, run_id=run.run_id, stage=outcome.Stage.PLANNING, message="planning"))
    table = tables.load_table(catalog, name)
    inventory = inventories.take_inventory(table, name=name, branch=run.branch, where=policy.where)
    return build.build(inventory, policy, plan_id=f"plan-{run.run_id}", now_ms=run.clock())


def apply_plan(catalog: Catalog, plan: Plan, engines: EngineFactory, run: Run) -> outcome.Outcome:
    """Perform a plan: rewrite, prove, commit. Nothing of it stays behind unless it was committed."""
    return _remembered(plan.table, run, lambda: _attended(catalog, plan, engines, run))


def compact_table(catalog: Catalog, name: str, policy: Policy, engines: EngineFactory, run: Run) -> outcome.Outcome:
    """Plan and apply in one go: the plan that `plan_table` shows is the plan that is performed."""
    return _remembered(name, run, lambda: _attended(catalog, plan_table(catalog, name, policy, run), engines, run))


def _attended(catalog: Catalog, plan: Plan, engines: EngineFactory, run: Run) -> outcome.Outcome:
    return leftovers.attend(catalog, plan, run, lambda: _perform(catalog, plan, engines, run))


def _perform(catalog: Catalog, plan: Plan, engines: EngineFactory, run: Run) -> outcome.Outcome:
    if plan.empty:
        return outcome.Outcome(
            kind=outcome.Kind.HEALTHY,
            table=plan.table,
            sentence=plan.sentence,
            run_id=run.run_id,
            plan_id=plan.id,
            strategy=plan.policy.strategy,
        )
    table = tables.load_table(catalog, plan.table)
    branch = plan.pin.branch if plan.pin else run.branch
    with engines() as engine, journal.kept(table, run, branch=branch) as entry:
        return apply.apply(table, plan, entry.watched(engine) if entry else engine, run)


def _remembered(table: str, run: Run, work: Callable[[], outcome.Outcome]) -> outcome.Outcome:
    started_ms, started = run.clock(), time.monotonic()
    try:
        result = work()
    except tuple(kind for kind, _ in _TABLE_ERRORS) as error:
        kind = next(kind for cls, kind in _TABLE_ERRORS if isinstance(error, cls))
        result = outcome.Outcome(kind=kind, table=table, sentence=str(error), run_id=run.run_id)
    result = result.model_copy(update={"seconds": time.monotonic() - started})
    run.remember(result, started_ms)
    return result
