"""`iceberg-compact deletes`: delete files that apply to nothing leave, others are merged or converted; one table or
many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, lean_start, logs, options, spread
from iceberg_compaction.interfaces.cli.fleet import upkeep_verb

if TYPE_CHECKING:
    from iceberg_compaction.operations.operation import EngineFactory


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesOptions(upkeep_verb.UpkeepOptions):
    """What to do with the delete files, and where. Without any of the first three, all of them are done."""

    dangling: Annotated[
        bool, typer.Option("--dangling", help="Drop delete files that apply to no data file; no engine is needed.")
    ] = False
    merge: Annotated[
        bool, typer.Option("--merge", help="Merge position deletes of data files that have several files of them.")
    ] = False
    convert: Annotated[
        bool, typer.Option("--convert", help="Turn equality deletes into position deletes; data files stay.")
    ] = False
    granularity: Annotated[
        str | None,
        typer.Option(
            metavar="file|partition",
            help="What a new position delete file is for; default: the table's write.delete.granularity, else file.",
        ),
    ] = None
    where: Annotated[
        str | None,
        typer.Option(metavar="CONDITION", help="Only in partitions with data files that may have such rows."),
    ] = None
    rewrite_cold_tiers: Annotated[
        bool,
        typer.Option("--rewrite-cold-tiers", help="Also where files in cold tiers of S3, such as GLACIER, are read."),
    ] = False
    verify: Annotated[
        str,
        typer.Option(
            metavar="counts|deep",
            help="Depth of the proof: new files are always read back; deep also reads all rows before and after.",
        ),
    ] = "counts"
    branch: options.Branch = "main"
    engine: options.Engine = "spark"


@exits.reported
@spread.spread
def deletes(
    tables: options.NamedTables,
    catalog: options.CatalogOptions,
    wanted: DeletesOptions,
    console: options.ConsoleOptions,
) -> None:
    """Tidy delete files without rewriting data: drop useless ones, merge position deletes, convert equality deletes.

    Examples:

        iceberg-compact deletes --catalog-uri sqlite:///lake/catalog.db --table shop.events --dry-run

        iceberg-compact deletes --table 'shop.*' --dangling

        iceberg-compact deletes --table shop.events --convert --merge --engine inline

        iceberg-compact deletes --table shop.events --where "day >= '2026-01-01'" --out plan.json
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    needs_engine = not wanted.dry_run and wanted.out is None and (wanted.merge or wanted.convert or not wanted.dangling)
    with engine_start.starting(wanted.engine if needs_engine else "inline", catalog.conf) as engines:
        code = _deletes(tables, catalog, wanted, console, engines)
    raise typer.Exit(code)


def _deletes(
    tables: options.NamedTables,
    catalog: options.CatalogOptions,
    wanted: DeletesOptions,
    console: options.ConsoleOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.operations.deletes import choose_deletes, delete_upkeep

    if wanted.verify not in ("counts", "deep"):
        raise errors.ConfigError(f"--verify is counts or deep here, not {wanted.verify!r}.")
    goal = choose_deletes.goal_of(
        dangling=wanted.dangling,
        merge=wanted.merge,
        convert=wanted.convert,
        where=wanted.where,
        granularity=wanted.granularity,
        rewrite_cold_tiers=wanted.rewrite_cold_tiers,
    )
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [
        delete_upkeep.CleanDeletes(table=name, goal=goal, branch=wanted.branch, deep=wanted.verify == "deep")
        for name in targets.names
    ]
    return upkeep_verb.perform(operations, opened, targets, wanted, console, engines)
