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
    from iceberg_compaction.interfaces.cli.fleet import result_files, single_operation
    from iceberg_compaction.operations import upkeep_file

    result_files.check_report(how.report)
    operation = upkeep_file.load_operation(file)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    return single_operation.perform(operation, store, catalog, console, how, engines)
