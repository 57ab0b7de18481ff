"""`iceberg-compact plan`: what a run would do, and why; written to a file on request."""

from __future__ import annotations

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread


@exits.reported
@spread.spread
def plan(
    tables: options.TableOptions,
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: options.PlanOptions,
) -> None:
    """Show what a run would rewrite, why, and what it would leave alone. Writes nothing to the table.

    Examples:

        iceberg-compact plan --catalog-uri sqlite:///lake/catalog.db --table shop.events

        iceberg-compact plan --table shop.events --strategy full --target-file-size 1GB --out plan.json.gz

        iceberg-compact plan --all --exclude 'tmp.*' --exit-code

        iceberg-compact plan --table shop.events --where "day >= '2026-01-01'" --output json
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    from iceberg_compaction import errors
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, plan_loop, result_files
    from iceberg_compaction.model.unplanned import Unplanned
    from iceberg_compaction.operations.rewrite_files import plan_file

    result_files.check_target(how.out, option="--out")
    chosen = catalog_request.make_policy(policy)
    store = wiring.store_to_read(str(how.state) if how.state else None)
    opened = catalog_request.open_catalog(catalog)
    targets = catalog_request.choose_targets(opened, tables, catalog.namespace)
    if how.out is not None and len(targets.names) != 1:
        raise errors.ConfigError(f"--out takes one table's plan, but {len(targets.names)} tables are meant.")
    plans = plan_loop.make_plans(opened, targets, chosen, store, branch=how.branch)
    for made in plans:
        if how.out is not None and not isinstance(made, Unplanned):
            plan_file.save_plan(made, how.out)
    output.output(console.output).plans(plans, single=targets.single)
    raise typer.Exit(plan_loop.exit_code(plans, fail_on=how.fail_on or (), tells_work=how.exit_code))
