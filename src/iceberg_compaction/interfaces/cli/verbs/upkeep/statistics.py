"""`iceberg-compact statistics`: counts of rows and files per partition, and of distinct values per column."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb

if TYPE_CHECKING:
    from iceberg_compaction.operations.operation import EngineFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class StatisticsOptions(upkeep_verb.UpkeepOptions):
    """Which statistics a table should have."""

    partitions: Annotated[
        bool,
        typer.Option(
            "--partitions/--no-partitions", help="Count rows, files and bytes of each partition, from metadata alone."
        ),
    ] = True
    columns: Annotated[
        str | None,
        typer.Option(
            metavar="NAMES", help="Count distinct values of these columns, or of `all`; reads them; default: none."
        ),
    ] = None
    branch: options.Branch = "main"
    engine: options.Engine = "spark"


@exits.reported
@spread.spread
def statistics(
    tables: options.NamedTables,
    catalog: options.CatalogOptions,
    how: StatisticsOptions,
    console: options.ConsoleOptions,
) -> None:
    """Make the statistics that engines plan queries with, for the current snapshot, where they are missing.

    Examples:

        iceberg-compact statistics --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact statistics --table 'shop.*' --dry-run

        iceberg-compact statistics --table shop.events --columns id,city --engine inline
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    reads = how.columns is not None and not how.dry_run and how.out is None
    with engine_start.starting(how.engine if reads else "inline", catalog.conf) as engines:
        code = _statistics(tables, catalog, how, console, engines)
    raise typer.Exit(code)


def _statistics(
    tables: options.NamedTables,
    catalog: options.CatalogOptions,
    how: StatisticsOptions,
    console: options.ConsoleOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction.interfaces import upkeep_operations
    from iceberg_compaction.interfaces.cli.fleet import catalog_request

    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [
        upkeep_operations.statistics(name, branch=how.branch, columns=how.columns or "", partitions=how.partitions)
        for name in targets.names
    ]
    return upkeep_verb.perform(operations, opened, targets, how, console, engines)
