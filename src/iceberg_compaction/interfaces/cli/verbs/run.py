"""`iceberg-compact run`: plan, rewrite, prove and commit; one table or many. What happens when no verb is given."""

from __future__ import annotations

import typer

from iceberg_compaction.interfaces.cli import exits, logs, options, spread


@exits.reported
@spread.spread
def run(
    table: options.Tables,
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: options.RunOptions,
) -> None:
    """Compact tables: plan, rewrite on Spark, prove that no row changed, commit.

    Examples:

        iceberg-compact --catalog-uri sqlite:///lake/catalog.db --table shop.events --strategy small-files

        iceberg-compact run --table 'shop.*' --strategy full --target-file-size 1GB --output json

        iceberg-compact run --table shop.events --strategy delete-files --delete-file-threshold 5

        iceberg-compact run --table shop.events --where "at >= '2026-01-01T00:00:00'" --verify deep
    """
    logs.configure(console)
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import catalog_request, output, table_loop

    chosen = catalog_request.make_policy(policy)
    engines = wiring.engine_factory(how.engine, conf=catalog_request.spark_conf(catalog))
    wiring.check_engine(how.engine)
    store = wiring.run_store(str(how.state) if how.state else None)
    found = []
    with table_loop.Session(engines, store, console, how.deadline) as session:
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.find_targets(opened, table)
        try:
            for one in session.compact(opened, targets, chosen, branch=how.branch):
                found.append(one)  # what is done stays known when the next table is cancelled
        finally:
            if found:
                output.output(console.output).outcomes(found, single=targets.single)
    if not all(one.ok for one in found):
        raise typer.Exit(exits.FAILED)
