"""One operation on one table, from the verbs `apply` and `resume`: perform it, print its outcome, write its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli.fleet import catalog_request, result_files, table_loop

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.cli.options import ApplyOptions, CatalogOptions, ConsoleOptions
    from iceberg_compaction.operations.operation import EngineFactory, Operation
    from iceberg_compaction.record.store import RunStore


def perform(
    operation: Operation[Any],
    store: RunStore | None,
    catalog: CatalogOptions,
    console: ConsoleOptions,
    how: ApplyOptions,
    engines: EngineFactory,
) -> int:
    """Returns the exit code."""
    targets = catalog_request.Targets(names=(operation.table,), single=True)
    with (
        wiring.observing(how) as metrics,
        table_loop.Session(engines, store, console, how.deadline, metrics=metrics) as session,
    ):
        opened = catalog_request.open_catalog(catalog)
        results = result_files.Results(catalog=opened, targets=targets, console=console, report=how.report)
        for outcome in session.operate(opened, [operation], single=True):
            results.add(outcome)
    return results.finish(session.stopped, fail_on=how.fail_on or (), branch=operation.branch)
