"""`iceberg-compact explain`: what is wanted for a table, where each value comes from, and what would be done now."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from iceberg_compaction.interfaces.cli import exits, lean_start, logs, options, spread


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Which branch, and what is known of earlier runs."""

    branch: options.Branch = "main"
    state: options.State = None


@exits.reported
@spread.spread
def explain(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="The table.", show_default=False)],
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: ExplainOptions,
) -> None:
    """Show why a table is compacted or not. That is its policy with the origin of each value, what a run would do now
    and why, what it would leave alone, when the table is next due, and what the work costs and saves. Writes nothing.

    Examples:

        iceberg-compact explain shop.events --catalog-uri sqlite:///lake/catalog.db

        iceberg-compact explain shop.events --policy policy.yaml --environment production

        iceberg-compact explain shop.events --strategy full --output json
    """
    logs.configure(console)
    lean_start.spare_pandas()
    from iceberg_compaction.catalog import load_tables
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request
    from iceberg_compaction.workflow import explain_table

    chosen = catalog_request.make_policy(policy)
    store = wiring.store_to_read(str(how.state) if how.state else None)
    opened = catalog_request.open_catalog(catalog)
    name = load_tables.full_name(opened, table, catalog.namespace)
    request = explain_table.ExplainRequest(table=name, source=chosen, branch=how.branch)
    output.output(console.output).explanation(explain_table.explain(opened, request, wiring.new_run(store=store)))
