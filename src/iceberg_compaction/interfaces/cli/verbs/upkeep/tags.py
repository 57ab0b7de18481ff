"""`iceberg-compact tags`: a tag for each day, hour or month, with retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb


@dataclass(frozen=True, slots=True, kw_only=True)
class TagOptions(upkeep_verb.UpkeepOptions):
    """Which tags a table should have."""

    every: Annotated[str, typer.Option(metavar="hour|day|month", help="A tag for each of these.")] = "day"
    at: Annotated[
        str, typer.Option(metavar="HH:MM", help="When a period ends: after midnight, or after the full hour.")
    ] = "00:00"
    zone: Annotated[str, typer.Option(metavar="ZONE", help="The time zone of the calendar.")] = "UTC"
    keep: Annotated[
        str | None, typer.Option(metavar="DURATION", help="A tag may go after this time, such as 30d; default: never.")
    ] = None
    name: Annotated[
        str | None, typer.Option(metavar="PATTERN", help="Names, as strftime has them; default: daily-%Y-%m-%d.")
    ] = None
    max_delay: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Longer ago nothing is tagged; default: 1d, 7d or 62d by period."),
    ] = None
    only_changed: Annotated[bool, typer.Option("--only-changed", help="No tag for a period without commits.")] = False
    branch: options.Branch = "main"


@exits.reported
@spread.spread
def tags(
    tables: options.NamedTables, catalog: options.CatalogOptions, how: TagOptions, console: options.ConsoleOptions
) -> None:
    """Tag the table as it was at the end of each day, hour or month. A second run makes no second tag.

    Examples:

        iceberg-compact tags --table shop.events --every day --keep 30d

        iceberg-compact tags --table 'shop.*' --every month --zone Europe/Berlin --dry-run
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    from iceberg_compaction.interfaces import upkeep_operations
    from iceberg_compaction.interfaces.cli.fleet import catalog_request

    goal = upkeep_operations.tag_goal(
        every=how.every,
        at=how.at,
        zone=how.zone,
        keep=how.keep,
        name=how.name,
        max_delay=how.max_delay,
    )
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [
        upkeep_operations.tags(name, goal, branch=how.branch, only_changed=how.only_changed) for name in targets.names
    ]
    raise typer.Exit(upkeep_verb.perform(operations, opened, targets, how, console))
