"""`iceberg-compact ttl`: rows past their time leave a table, by whole files or by rewrites; one table or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb

if TYPE_CHECKING:
    from iceberg_compaction.model.ttl_plan import TtlGoal


@dataclass(frozen=True, slots=True, kw_only=True)
class TtlOptions(upkeep_verb.UpkeepOptions):
    """Which rows are past their time."""

    column: Annotated[
        str, typer.Option(metavar="NAME", help="The time of a row: a date, a timestamp, or a number with --unit.")
    ]
    older_than: Annotated[
        str | None, typer.Option(metavar="AGE", help="Rows of this age go, such as 90d; or give --before.")
    ] = None
    before: Annotated[
        str | None, typer.Option(metavar="TIME", help="Rows before this moment go, such as 2026-01-31, in UTC.")
    ] = None
    unit: Annotated[
        str | None, typer.Option(metavar="UNIT", help="What a column of numbers counts since 1970: days, s, ms or us.")
    ] = None
    since: Annotated[
        str,
        typer.Option(
            metavar="now|last-write", help="What an age counts from; commits of housekeeping are no last write."
        ),
    ] = "now"
    whole_partitions: Annotated[
        bool, typer.Option("--whole-partitions", help="A partition goes only if all of its files do.")
    ] = False
    rows: Annotated[
        str,
        typer.Option(
            metavar="keep|rewrite",
            help="Rows past their time that share a file with newer ones: keep them, or write their files anew.",
        ),
    ] = "keep"
    engine: options.Engine = "inline"
    even_everything: Annotated[
        bool, typer.Option("--even-everything", help="Go on if no row of the table would be left.")
    ] = False
    branch: options.Branch = "main"


@exits.reported
@spread.spread
def ttl(
    tables: options.NamedTables, catalog: options.CatalogOptions, how: TtlOptions, console: options.ConsoleOptions
) -> None:
    """Remove data files all of whose rows are past their time, from metadata alone. Rows that share a file with newer
    ones stay, unless --rows rewrite is given; rows that have no time always stay. What is removed can be read by time
    travel until its snapshot expires.

    Examples:

        iceberg-compact ttl --table shop.events --column day --older-than 90d --dry-run

        iceberg-compact ttl --table shop.clicks --column ts --before 2025-01-01 --whole-partitions

        iceberg-compact ttl --table iot.readings --column epoch --unit ms --older-than 400d --since last-write
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    goal = _goal(how)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.operations.ttl import expire_rows

    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [expire_rows.ExpireRows(table=name, goal=goal, branch=how.branch) for name in targets.names]
    engines = wiring.engine_factory(how.engine)
    raise typer.Exit(upkeep_verb.perform(operations, opened, targets, how, console, engines))


def _goal(how: TtlOptions) -> TtlGoal:
    from iceberg_compaction.interfaces import upkeep_goals

    return upkeep_goals.ttl_goal(
        how.column,
        older_than=how.older_than,
        before=how.before,
        unit=how.unit,
        since=how.since,
        whole_partitions=how.whole_partitions,
        rows=how.rows,
        even_everything=how.even_everything,
    )
