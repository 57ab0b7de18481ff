"""`iceberg-compact apply`: perform a plan that was written to a file, minutes or days later, here or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.outcome import Outcome
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
    told, and the rest is performed; the exit code is 1 when nothing is left.

    Examples:

        iceberg-compact apply plan.json --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact apply plan.json.gz --engine inline --output json
    """
    logs.configure(console)
    with engine_start.starting(how.engine, catalog.conf) as engines:
        outcome = _apply(file, catalog, console, how, engines)
    if not outcome.ok:
        raise typer.Exit(exits.FAILED)


def _apply(
    file: Path,
    catalog: options.CatalogOptions,
    console: options.ConsoleOptions,
    how: options.ApplyOptions,
    engines: EngineFactory,
) -> Outcome:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, table_loop
    from iceberg_compaction.operations.rewrite_files import plan_file

    plan = plan_file.load_plan(file)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    with table_loop.Session(engines, store, console, how.deadline) as session:
        outcome = session.apply(catalog_request.open_catalog(catalog), plan)
    output.output(console.output).outcomes([outcome], single=True)
    return outcome
