"""The body of every verb of housekeeping: plans are shown, and on request saved, or performed and their outcomes shown.
A verb makes the operations from its own flags and calls `perform`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import exits, options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.unplanned import Unplanned
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan
    from iceberg_compaction.operations.operation import EngineFactory, Operation
    from iceberg_compaction.record.store import RunStore


@dataclass(frozen=True, slots=True, kw_only=True)
class UpkeepOptions(options.MetricsOptions):
    """How an operation of housekeeping is performed and remembered."""

    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done and why; change nothing.")] = False
    out: options.Out = None
    state: options.State = None
    deadline: options.Deadline = None


def perform(
    operations: Sequence[Operation[Any]],
    catalog: Any,
    targets: Targets,
    how: UpkeepOptions,
    console: ConsoleOptions,
    engines: EngineFactory | None = None,
) -> int:
    """Show the plans if `dry_run` or `out` is given, else perform them; returns the exit code. `catalog` is open."""
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import result_files, table_loop
    from iceberg_compaction.model import unplanned
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan

    if how.out is not None and not targets.single:
        raise errors.ConfigError("--out writes the plan of one table; name one with --table.")
    result_files.check_target(how.out, option="--out")
    engines = engines or wiring.engine_factory("inline")
    shown = output.output(console.output)
    if how.dry_run or how.out is not None:
        plans = plan_each(catalog, operations, engines, wiring.store_to_read(how.state), single=targets.single)
        _save(plans, how)
        shown.upkeep_plans(plans, single=targets.single)
        if any(map(unplanned.is_failed, plans)):
            return exits.FAILED
        return exits.SICK if any(isinstance(plan, UpkeepPlan) and plan.sick for plan in plans) else exits.DONE
    store = wiring.store_to_write(str(how.state) if how.state else None)
    with (
        wiring.observing(how) as metrics,
        table_loop.Session(engines, store, console, how.deadline, metrics=metrics) as session,
    ):
        outcomes = list(session.operate(catalog, operations, single=targets.single))
    shown.upkeep_outcomes(outcomes, single=targets.single)
    if session.stopped is not None:
        exits.complain(session.stopped)
        return exits.code_of(session.stopped)
    return result_files.exit_code(outcomes, fail_on=())


def plan_each(
    catalog: Any,
    operations: Sequence[Operation[Any]],
    engines: EngineFactory,
    store: RunStore | None = None,
    *,
    single: bool,
) -> list[Any]:
    """The plan of every table. One that must not be changed or cannot be looked at is an `Unplanned`, as in `plan`."""
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import plan_loop
    from iceberg_compaction.workflow import operate

    plans: list[Any] = []
    house = operate.House(catalog=catalog, engines=engines)
    for operation in operations:
        try:
            plans.append(operate.plan_only(operation, house, wiring.new_run(store=store)))
        except errors.CompactionError as error:
            if not isinstance(error, errors.UnsupportedError):
                if single or isinstance(error, errors.ConfigError):
                    raise
                exits.complain(error)
            plans.append(plan_loop.unplanned_table(operation.table, error))
    return plans


def _save(plans: Sequence[UpkeepPlan | Unplanned], how: UpkeepOptions) -> None:
    from iceberg_compaction.model.upkeep_plan import UpkeepPlan
    from iceberg_compaction.operations import upkeep_file

    for plan in plans:
        if how.out is not None and isinstance(plan, UpkeepPlan):
            upkeep_file.save(plan, how.out)
