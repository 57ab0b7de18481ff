"""`iceberg-compact expire`: old snapshots leave tables, and then the files that only they needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireOptions(upkeep_verb.UpkeepOptions):
    """Which snapshots expire, and how."""

    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="MOMENT",
            help="Snapshots before this may go: 5d, 2026-01-31; default: the table's own settings, else 5d.",
        ),
    ] = None
    retain_last: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="The last snapshots of each branch stay; default: 1.")
    ] = None
    snapshot_id: Annotated[
        list[int] | None,
        typer.Option(metavar="ID", help="Expire this snapshot; alone, only such; may be given several times."),
    ] = None
    allow_recent: Annotated[bool, typer.Option("--allow-recent", help="Also snapshots of the last hour may go.")] = (
        False
    )
    clean_metadata: Annotated[
        bool, typer.Option("--clean-metadata", help="Also remove schemas and partition specs that nothing uses.")
    ] = False
    keep_files: Annotated[bool, typer.Option("--keep-files", help="Change metadata only; delete no file.")] = False
    allow_unlisted: Annotated[
        bool,
        typer.Option("--allow-unlisted", help="Delete files although other tables of the catalog cannot be looked at."),
    ] = False
    deletes_per_second: Annotated[
        float | None, typer.Option(metavar="N", help="Delete files at this pace; default: no limit.")
    ] = None


@exits.reported
@spread.spread
def expire(
    tables: options.NamedTables, catalog: options.CatalogOptions, how: ExpireOptions, console: options.ConsoleOptions
) -> None:
    """Expire old snapshots, and delete the files that only they needed. Branches, tags and work under way are kept.

    Examples:

        iceberg-compact expire --table shop.events --dry-run

        iceberg-compact expire --table 'shop.*' --older-than 7d --retain-last 10

        iceberg-compact expire --table shop.events --snapshot-id 4353226788563432
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    from iceberg_compaction.interfaces import upkeep_operations
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.operations.neighbourhood import look_around

    goal = upkeep_operations.retention_goal(
        older_than=how.older_than,
        retain_last=how.retain_last,
        snapshot_ids=how.snapshot_id or (),
        allow_recent=how.allow_recent,
        clean_metadata=how.clean_metadata,
        keep_files=how.keep_files,
        allow_unlisted=how.allow_unlisted,
    )
    shared = look_around.Neighbourhoods()
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    shows = how.dry_run or how.out is not None
    operations = [
        upkeep_operations.expire(
            name, goal, per_second=how.deletes_per_second, count_files=shows, neighbourhoods=shared
        )
        for name in targets.names
    ]
    raise typer.Exit(upkeep_verb.perform(operations, opened, targets, how, console))
