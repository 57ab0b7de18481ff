"""`iceberg-compact manifests`: a table's manifests written anew, clustered by partition; one table or many."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestOptions(options.MetricsOptions):
    """What to do with the manifests."""

    target_size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZE",
            help="Size of new manifests, such as 8MiB; default: the table's commit.manifest.target-size-bytes.",
        ),
    ] = None
    spec_id: Annotated[
        int | None, typer.Option(metavar="N", help="Only manifests of this partition spec; default: all.")
    ] = None
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and do nothing.")] = False
    branch: options.Branch = "main"
    state: options.State = None


@exits.reported
@spread.spread
def manifests(
    tables: options.NamedTables,
    catalog: options.CatalogOptions,
    asked: ManifestOptions,
    console: options.ConsoleOptions,
) -> None:
    """Rewrite manifests where many are small or partitions are scattered over them. No data file is touched.

    Examples:

        iceberg-compact manifests --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact manifests --table 'shop.*' --dry-run --output json

        iceberg-compact manifests --table shop.events --target-size 4MiB --spec-id 0
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files, table_loop, upkeep_verb
    from iceberg_compaction.model import byte_size, unplanned
    from iceberg_compaction.operations.rewrite_manifests import manifest_rewrite

    target = None if asked.target_size is None else byte_size.parse_size(asked.target_size)
    goal = manifest_rewrite.ManifestGoal(target_size_bytes=target, spec_id=asked.spec_id)
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, tables.names, catalog.namespace)
    operations = [
        manifest_rewrite.RewriteManifests(table=name, goal=goal, branch=asked.branch) for name in targets.names
    ]
    shown = output.output(console.output)
    if asked.dry_run:
        plans = upkeep_verb.plan_each(opened, operations, wiring.engine_factory(), single=targets.single)
        shown.manifest_plans(plans, single=targets.single)
        raise typer.Exit(exits.FAILED if any(map(unplanned.is_failed, plans)) else exits.DONE)
    store = wiring.store_to_write(str(asked.state) if asked.state else None)
    with (
        wiring.observing(asked) as metrics,
        table_loop.Session(wiring.engine_factory(), store, console, metrics=metrics) as session,
    ):
        found = list(session.operate(opened, operations, single=targets.single))
    shown.manifest_outcomes(found, single=targets.single)
    if session.stopped is not None:
        exits.complain(session.stopped)
        raise typer.Exit(exits.code_of(session.stopped))
    raise typer.Exit(result_files.exit_code(found, fail_on=()))
