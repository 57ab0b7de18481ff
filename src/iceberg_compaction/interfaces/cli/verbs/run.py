"""`iceberg-compact run`: plan, rewrite, prove and commit; one table or many. What happens when no verb is given."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING

import typer

from iceberg_compaction.interfaces.cli import engine_start, exits, logs, options, spread

if TYPE_CHECKING:
    from iceberg_compaction.operations.operation import EngineFactory


@exits.reported
@spread.spread
def run(
    tables: options.TableOptions,
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

        iceberg-compact run --all --exclude 'tmp.*' --parallel 4 --deadline 2h --report health.html

        iceberg-compact run --all --policy policy.yaml --environment production

        iceberg-compact run --table shop.events --where "at >= '2026-01-01T00:00:00'" --verify deep
    """
    logs.configure(console)
    tables.check()
    if how.dry_run:
        from iceberg_compaction.interfaces.cli.fleet import plan_loop

        shared = {field.name: getattr(how, field.name) for field in fields(options.MetricsOptions)}
        plan_options = options.PlanOptions(branch=how.branch, state=how.state, fail_on=how.fail_on, **shared)
        raise typer.Exit(plan_loop.show(tables, catalog, policy, console, plan_options))
    with engine_start.starting(how.engine, catalog.conf) as engines:
        code = _run(tables, catalog, policy, console, how, engines)
    raise typer.Exit(code)


def _run(
    tables: options.TableOptions,
    catalog: options.CatalogOptions,
    policy: options.PolicyOptions,
    console: options.ConsoleOptions,
    how: options.RunOptions,
    engines: EngineFactory,
) -> int:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files, table_loop

    result_files.check_report(how.report)
    chosen = catalog_request.make_policy(policy)
    store = wiring.store_to_write(str(how.state) if how.state else None)
    with (
        wiring.observing(how) as metrics,
        table_loop.Session(engines, store, console, how.deadline, parallel=how.parallel, metrics=metrics) as session,
    ):
        opened = catalog_request.open_catalog(catalog)
        targets = catalog_request.choose_targets(opened, tables, catalog.namespace)
        results = result_files.Results(catalog=opened, targets=targets, console=console, report=how.report)
        for outcome in session.compact(opened, targets, chosen, branch=how.branch):
            results.add(outcome)
    code = results.finish(session.stopped, fail_on=how.fail_on or (), branch=how.branch)
    if session.budget is not None:
        results.sum_up(session.budget, chosen.rewrite.horizon_days)
    return code
