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

        iceberg-compact plan --table shop.events --diff plan.json.gz

        iceberg-compact plan --all --exclude 'tmp.*' --exit-code

        iceberg-compact plan --table shop.events --where "day >= '2026-01-01'" --output json
    """
    logs.configure(console)
    tables.check()
    lean_start.spare_pandas()
    from iceberg_compaction.interfaces.cli.fleet import plan_loop

    raise typer.Exit(plan_loop.show(tables, catalog, policy, console, how))
