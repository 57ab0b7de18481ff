"""`iceberg-compact plan`: what a run would do, and why; written to a file on request."""

from __future__ import annotations

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread


@exits.reported
@spread.spread
def plan(
    table: options.Tables,
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: options.PlanOptions,
) -> None:
    """Show what a run would rewrite, why, and what it would leave alone. Writes nothing to the table.

    Examples:

        iceberg-compact plan --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact plan --table shop.events --strategy full --target-file-size 1GB --out plan.json.gz

        iceberg-compact plan --table shop.events --where "day >= '2026-01-01'" --output json
    """
    logs.configure(console)
    lean_start.spare_pandas()
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.operations.rewrite_files import plan_file
    from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
    from iceberg_compaction.workflow import operate

    chosen = catalog_request.make_policy(policy)
    store = wiring.store_to_read(str(how.state) if how.state else None)
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.find_targets(opened, table, catalog.namespace)
    if how.out is not None and len(targets.names) != 1:
        raise errors.ConfigError(f"--out takes one table's plan, but {len(targets.names)} tables are meant.")
    found, broken = [], False
    house = operate.House(catalog=opened, engines=wiring.engine_factory())
    for name in targets.names:
        operation = RewriteFiles(table=name, policy=chosen, branch=how.branch)
        try:
            found.append(operate.plan_only(operation, house, wiring.new_run(store=store)))
        except errors.CompactionError as error:
            if targets.single or isinstance(error, errors.ConfigError):
                raise
            broken = True
            exits.complain(error)
    if how.out is not None and found:
        plan_file.save_plan(found[0], how.out)
    output.output(console.output).plans(found, single=targets.single)
    if broken:
        raise typer.Exit(exits.FAILED)
