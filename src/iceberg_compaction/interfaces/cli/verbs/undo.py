"""`iceberg-compact undo`: the files that a run replaced come back."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread
from iceberg_compaction.interfaces.cli.verbs import verify

if TYPE_CHECKING:
    from iceberg_compaction.operations.undo.undo_run import UndoRun


@dataclass(frozen=True, slots=True, kw_only=True)
class UndoOptions:
    """Which run, and how it is undone."""

    table: Annotated[str | None, verify.TABLE] = None
    branch: Annotated[
        str | None, typer.Option(metavar="NAME", help="The branch; default: the one that the run committed to.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, or why not; change nothing.")] = (
        False
    )
    despite_differences: Annotated[
        bool,
        typer.Option(
            "--despite-differences",
            help="Bring the replaced files back even if those of the run are damaged or hold other rows.",
        ),
    ] = False
    engine: Annotated[str, verify.ENGINE] = "inline"
    state: options.State = None
    deadline: options.Deadline = None


@exits.reported
@spread.spread
def undo(
    run: options.RunName, catalog: options.CatalogOptions, how: UndoOptions, console: options.ConsoleOptions
) -> None:
    """Bring back the files that a run replaced. If nothing was committed since, the branch goes back to the snapshot
    before the run; else a new snapshot replaces the run's files, as long as nothing of them was deleted or rewritten.
    In all other cases the undo is refused with the reason. The rows of the table are compared first, and stay the same.

    Examples:

        iceberg-compact undo latest --dry-run --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact undo 4f0c9a1b --table shop.events --output json
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, run_request
    from iceberg_compaction.operations.undo.judge_undo import UndoRequest
    from iceberg_compaction.operations.undo.undo_run import UndoRun

    opened = catalog_request.open_catalog(catalog)
    store = wiring.store_to_read(how.state)
    past = run_request.find(opened, store, run, how.table, catalog.namespace)
    request = UndoRequest(
        table=past.table,
        undone_run_id=past.run_id,
        branch=how.branch,
        remembered=past.remembered,
        undone_by=wiring.undone_by(store, past.table, past.run_id),
    )
    operation = UndoRun(request=request, despite_differences=how.despite_differences)
    code = _plan(opened, operation, console) if how.dry_run else _undo(opened, operation, how, console)
    raise typer.Exit(code)


def _plan(catalog: Any, operation: UndoRun, console: options.ConsoleOptions) -> int:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.workflow import operate

    house = operate.House(catalog=catalog, engines=wiring.engine_factory("inline"))
    plan = operate.plan_only(operation, house, wiring.new_run())
    output.output(console.output).undo_plan(plan)
    return exits.FAILED if plan.empty else exits.DONE


def _undo(catalog: Any, operation: UndoRun, how: UndoOptions, console: options.ConsoleOptions) -> int:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import result_files, table_loop

    store = wiring.store_to_write(how.state)
    engines = wiring.engine_factory(how.engine)
    with table_loop.Session(engines, store, console, how.deadline) as session:
        results = list(session.operate(catalog, [operation], single=True))
    output.output(console.output).undo_outcome(results[0])
    if session.stopped is not None:
        exits.complain(session.stopped)
        return exits.code_of(session.stopped)
    return result_files.exit_code(results, fail_on=())
