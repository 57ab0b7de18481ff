"""`iceberg-compact orphans`: files in a table's folders that nothing of the table refers to; shown, moved into
quarantine, brought back, or deleted for good."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.operations.operation import Operation

_SCOPE, _CARE = "What counts as an orphan", "Care"


class OrphanAct(str, Enum):
    """What to do with orphans."""

    LIST = "list"
    REMOVE = "remove"
    RESTORE = "restore"
    PURGE = "purge"


@dataclass(frozen=True, slots=True, kw_only=True)
class OrphanOptions(upkeep_verb.UpkeepOptions):
    """Which files are orphans, and what becomes of them."""

    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="DURATION",
            help="Only files of this age; default 3d. With `purge`: in quarantine for so long; default 7d.",
            rich_help_panel=_SCOPE,
        ),
    ] = None
    location: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FOLDER",
            help="List this folder instead of those of the table; repeatable.",
            rich_help_panel=_SCOPE,
        ),
    ] = None
    equal_schemes: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B=C", help="Schemes A and B mean C; repeatable.", rich_help_panel=_SCOPE),
    ] = None
    equal_authorities: Annotated[
        list[str] | None,
        typer.Option(metavar="A,B=C", help="Buckets or hosts A and B are C; repeatable.", rich_help_panel=_SCOPE),
    ] = None
    keep_mismatches: Annotated[
        bool,
        typer.Option(
            "--keep-mismatches",
            help="Leave files alone whose path fits the table but not their scheme or authority, and go on.",
            rich_help_panel=_SCOPE,
        ),
    ] = False
    uploads: Annotated[
        bool,
        typer.Option("--uploads", help="Also uploads to S3 that nobody has finished.", rich_help_panel=_SCOPE),
    ] = False
    max_files: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Orphans of one table to take at a time.", rich_help_panel=_SCOPE),
    ] = 100_000
    engine: Annotated[
        str,
        typer.Option(
            metavar="inline|spark|NAME",
            help="Where folders are listed; spark, for tables of millions of files, lists them side by side.",
            rich_help_panel=_SCOPE,
        ),
    ] = "inline"
    allow_recent: Annotated[
        bool,
        typer.Option("--allow-recent", help="Let --older-than be less than 3 days.", rich_help_panel=_CARE),
    ] = False
    allow_unlisted: Annotated[
        bool,
        typer.Option(
            "--allow-unlisted",
            help="Go on although other tables of the catalog cannot be looked at.",
            rich_help_panel=_CARE,
        ),
    ] = False
    force_share: Annotated[
        bool,
        typer.Option(
            "--force-share",
            help="Go on although more than 10 % of the files or bytes would go, or files of the table were not listed.",
            rich_help_panel=_CARE,
        ),
    ] = False
    quarantine: Annotated[
        str | None,
        typer.Option(
            metavar="FOLDER",
            help="Where removed files wait; default: a hidden folder in the table's location.",
            rich_help_panel=_CARE,
        ),
    ] = None
    no_quarantine: Annotated[
        bool,
        typer.Option(
            "--no-quarantine", help="Delete orphans at once; they cannot be brought back.", rich_help_panel=_CARE
        ),
    ] = False
    run: Annotated[
        str | None,
        typer.Option(
            metavar="RUN",
            help="With `restore` and `purge`: only files that this run put into quarantine.",
            rich_help_panel=_CARE,
        ),
    ] = None


@exits.reported
@spread.spread
def orphans(
    table: options.Tables,
    catalog: options.CatalogOptions,
    how: OrphanOptions,
    console: options.ConsoleOptions,
    act: Annotated[
        OrphanAct,
        typer.Argument(
            metavar="list|remove|restore|purge",
            help="What to do with them; default: list, which changes nothing.",
            show_default=False,
        ),
    ] = OrphanAct.LIST,
) -> None:
    """Find files that nothing of a table refers to, and remove them into quarantine. Without a word they are listed,
    and nothing is changed. `remove` moves them into a hidden folder with a manifest, from where `restore` brings them
    back; `purge` deletes them for good after 7 days.

    Examples:

        iceberg-compact orphans --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact orphans remove --table shop.events --older-than 5d

        iceberg-compact orphans --table shop.events --engine spark --conf spark.master=spark://host:7077

        iceberg-compact orphans restore --table shop.events --run 4f0c9a1b
    """
    logs.configure(console)
    lean_start.spare_pandas()
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces.cli.fleet import catalog_request

    is_end = act in (OrphanAct.RESTORE, OrphanAct.PURGE)
    if is_end and how.out is not None:
        raise errors.ConfigError(f"--out writes plans of orphans; {act.value} has none to write.")
    if how.run is not None and not is_end:
        raise errors.ConfigError("--run names a run whose files are in quarantine; give it with restore or purge.")
    if how.no_quarantine and how.quarantine is not None:
        raise errors.ConfigError("--no-quarantine deletes at once; give either it or --quarantine, not both.")
    if is_end and how.engine != "inline":
        raise errors.ConfigError(f"--engine lists folders; {act.value} lists none.")
    with engine_start.starting(how.engine, catalog.conf) as engines:
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.find_targets(opened, table, catalog.namespace)
        operations = _ends(act, how, targets.names) if is_end else _removals(how, targets.names)
        how = replace(how, dry_run=True) if act is OrphanAct.LIST else how
        code = upkeep_verb.perform(operations, opened, targets, how, console, engines)
    raise typer.Exit(code)


def _removals(how: OrphanOptions, names: Sequence[str]) -> list[Operation[Any]]:
    from iceberg_compaction.interfaces import orphan_options
    from iceberg_compaction.model import orphan_plan
    from iceberg_compaction.operations.neighbourhood import look_around
    from iceberg_compaction.operations.orphans import plan_orphans, remove_orphans
    from iceberg_compaction.storage.tree import path_forms

    goal = orphan_plan.OrphanGoal(
        older_than_ms=orphan_plan.LEAST_AGE_MS
        if how.older_than is None
        else orphan_options.milliseconds(how.older_than),
        allow_recent=how.allow_recent,
        locations=tuple(how.location or ()),
        equal_schemes=path_forms.parse_equal(how.equal_schemes or (), option="--equal-schemes"),
        equal_authorities=path_forms.parse_equal(how.equal_authorities or (), option="--equal-authorities"),
        keep_mismatches=how.keep_mismatches,
        force_share=how.force_share,
        allow_unlisted=how.allow_unlisted,
        most_files=how.max_files,
        uploads=how.uploads,
    )
    shared = look_around.Neighbourhoods()
    return [
        remove_orphans.RemoveOrphans(
            table=name,
            goal=goal,
            to_quarantine=not how.no_quarantine,
            quarantine=how.quarantine,
            neighbourhoods=shared,
            spread_from=plan_orphans.MANY_FILES if how.engine == "inline" else 0,
        )
        for name in names
    ]


def _ends(act: OrphanAct, how: OrphanOptions, names: Sequence[str]) -> list[Operation[Any]]:
    from iceberg_compaction.interfaces import orphan_options
    from iceberg_compaction.model import orphan_plan
    from iceberg_compaction.operations.neighbourhood import look_around
    from iceberg_compaction.operations.orphans import quarantine_end

    shared = look_around.Neighbourhoods()
    return [
        quarantine_end.EndQuarantine(
            table=name,
            way="restore" if act is OrphanAct.RESTORE else "purge",
            run_id=how.run,
            allow_unlisted=how.allow_unlisted,
            neighbourhoods=shared,
            quarantine=how.quarantine,
            older_than_ms=orphan_plan.PURGE_MS
            if how.older_than is None
            else orphan_options.milliseconds(how.older_than),
        )
        for name in names
    ]
