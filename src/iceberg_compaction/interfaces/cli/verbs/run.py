"""`iceberg-compact run`: plan, rewrite, prove and commit; one table or many. What happens when no verb is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.operation import EngineFactory


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
    with engine_start.starting(how.engine, catalog.conf) as engines:
        outcomes = _run(table, catalog, policy, console, how, engines)
    if not all(outcome.ok for outcome in outcomes):
        raise typer.Exit(exits.FAILED)


def _run(
    table: Sequence[str],
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: options.RunOptions,
    engines: EngineFactory,
) -> list[Outcome]:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli import output
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, table_loop

    chosen = catalog_request.make_policy(policy)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    outcomes: list[Outcome] = []
    with table_loop.Session(engines, store, console, how.deadline) as session:
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.find_targets(opened, table, catalog.namespace)
        try:
            for outcome in session.compact(opened, targets, chosen, branch=how.branch):
                outcomes.append(outcome)  # what is done stays known when the next table is cancelled
        finally:
            if outcomes:
                output.output(console.output).outcomes(outcomes, single=targets.single)
    return outcomes
