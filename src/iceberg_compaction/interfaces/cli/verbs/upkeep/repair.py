"""`iceberg-compact repair`: what is wrong with a table's metadata is shown, or mended; one table or many."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import typer

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairOptions(upkeep_verb.UpkeepOptions):
    """What is looked for, and what may be done about it."""

    fix: Annotated[
        bool, typer.Option("--fix/--check", help="Mend what can be mended, or only show it; the default is --check.")
    ] = False
    deep: Annotated[bool, typer.Option("--deep", help="Read the footer of every Parquet file, and count its rows.")] = (
        False
    )
    drop_missing: Annotated[
        bool,
        typer.Option("--drop-missing", help="Take data files that are missing out of the table; their rows are lost."),
    ] = False
    even_most: Annotated[
        bool, typer.Option("--even-most", help="Drop missing files even if they are more than half of all.")
    ] = False
    branch: options.Branch = "main"


@exits.reported
@spread.spread
def repair(
    tables: options.NamedTables, catalog: options.CatalogOptions, how: RepairOptions, console: options.ConsoleOptions
) -> None:
    """Compare a table's metadata with its files: sizes, counts of rows, files that are listed twice or are missing,
    counts of manifests. It shows what is wrong, and mends it only with --fix. The exit code of a check is 3 if
    something is wrong.

    Examples:

        iceberg-compact repair --table shop.events

        iceberg-compact repair --table shop.events --deep --fix

        iceberg-compact repair --table shop.events --fix --drop-missing
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    if how.drop_missing and not (how.fix or how.dry_run or how.out):
        raise errors.ConfigError("--drop-missing does nothing without --fix; give both, or --dry-run to see the plan.")
    from iceberg_compaction.interfaces import upkeep_operations
    from iceberg_compaction.interfaces.cli.fleet import catalog_request

    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [
        upkeep_operations.repair(
            name, branch=how.branch, deep=how.deep, drop_missing=how.drop_missing, even_most=how.even_most
        )
        for name in targets.names
    ]
    how = how if how.fix else replace(how, dry_run=True)
    raise typer.Exit(upkeep_verb.perform(operations, opened, targets, how, console))
