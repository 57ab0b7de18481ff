"""`iceberg-compact apply`: perform a plan that was written to a file, minutes or days later, here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.operations.operation import EngineFactory


@exits.reported
@spread.spread
def apply(
    file: options.PlanFile,
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: options.ApplyOptions,
) -> None:
    """Perform a plan that `plan --out` wrote. If the table has moved on, groups whose files are gone are dropped and
    told, and the rest is performed. The exit code is 1 when nothing is left of it, unless others did the same work.

    Examples:

        iceberg-compact apply plan.json --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact apply plan.json.gz --engine inline --output json
    """
    logs.configure(console)
    with engine_start.starting(how.engine, catalog.conf) as engines:
        code = _apply(file, catalog, console, how, engines)
    raise typer.Exit(code)


def _apply(
    file: Path,
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: options.ApplyOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files, table_loop
    from iceberg_compaction.operations.rewrite_files import plan_file

    result_files.check_report(how.report)
    plan = plan_file.load_plan(file)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    targets = catalog_request.Targets(names=(plan.table,), single=True)
    with (
        wiring.observing(how) as metrics,
        table_loop.Session(engines, store, console, how.deadline, metrics=metrics) as session,
    ):
        opened = catalog_request.open_catalog(catalog)
        results = result_files.Results(catalog=opened, targets=targets, console=console, report=how.report)
        results.add(session.apply(opened, plan))
    branch = plan.pin.branch if plan.pin else "main"
    return results.finish(session.stopped, fail_on=how.fail_on or (), branch=branch)
