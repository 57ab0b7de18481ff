"""`iceberg-compact resume`: go on with a run that was killed, here or on another machine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.checkpoint.checkpoints import HeldHead
    from iceberg_compaction.record.store import RunStore


@exits.reported
@spread.spread
def resume(
    name: options.RunName,
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: options.ApplyOptions,
    show: Annotated[
        bool, typer.Option("--show", help="Show the plan and its progress, and what would be reused; do nothing.")
    ] = False,
) -> None:
    """Go on with a run that was killed: commit what is ready and still holds, do only the rest, and remove what is
    stale. Any later `run` on the table does the same; `resume` performs the whole plan of that run, whatever the
    policy.

    Examples:

        iceberg-compact resume latest --show

        iceberg-compact resume 3f2a9c41 --catalog-uri sqlite:///lake/catalog.db --engine inline
    """
    logs.configure(console)
    if show:
        _show(name, catalog, console, how)
        return
    with engine_start.starting(how.engine, catalog.conf) as engines:
        code = _resume(name, catalog, console, how, engines)
    raise typer.Exit(code)


def _show(
    name: str, catalog: options.CatalogOptions, console: options.ConsoleOptions, how: options.ApplyOptions
) -> None:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.workflow import resumable

    store = wiring.store_to_read(how.state)
    held = _find(store, name)
    run = wiring.new_run(store=store)
    view = resumable.show(run, catalog_request.open_catalog(catalog), held)
    output.output(console.output).resumable(view)


def _resume(
    name: str,
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: options.ApplyOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import result_files, single_operation
    from iceberg_compaction.operations.rewrite_files.resume import resume_run

    result_files.check_report(how.report)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    head = _find(store, name).head
    operation = resume_run.ResumeRun(table=head.entry.table, run_id=head.run_id, branch=head.branch)
    return single_operation.perform(operation, store, catalog, console, how, engines)


def _find(store: RunStore | None, name: str) -> HeldHead:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import run_names
    from iceberg_compaction.workflow import resumable

    named = run_names.find(store, name)
    return resumable.find(wiring.new_run(store=store), named.run_id)
