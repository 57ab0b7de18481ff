"""Goes on with the work of dead runs, before a run does its own: complete groups are committed, and no task that was
done is done again. Trouble with that must not stop the run's own work."""

from __future__ import annotations

import logging
from contextlib import ExitStack, nullcontext
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.workflow import recover

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.operations.operation import EngineFactory, Operation, P
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.workflow.recover import Recovered

_log = logging.getLogger(__name__)
# The place that holds the checkpoints, or the files that they name, is away, or another run is at work there. The run's
# own work may need neither.
_PASSING = (errors.StoreError, errors.CatalogError, errors.LeasedError)


def go_on(
    operation: Operation[P], table: Table, run: Run, ledger: Ledger, engines: EngineFactory, recovered: Recovered
) -> tuple[Table, Recovered]:
    """Go on with the plans of dead runs that the operation wants. Returns the table after that, and what is left of the
    dead runs."""
    wanted = [legacy for legacy in recovered.legacies if operation.wants(legacy.held.head)]
    for legacy in wanted:
        commits = len(ledger.commits)
        try:
            operation.take_up(legacy, table, run, ledger, engines)
        except _PASSING as error:
            if ledger.in_doubt or ledger.open_groups():
                raise
            _log.warning("Run %s could not be gone on with: %s", legacy.held.head.run_id, error)
        if len(ledger.commits) > commits:
            table = publish.reload(table)
    return (table, recover.recover_again(table, run, recovered)) if wanted else (table, recovered)


def after_commit(
    operation: Operation[P], table: Table, run: Run, ledger: Ledger, engines: EngineFactory, recovered: Recovered
) -> Recovered:
    """Recover once more after a commit of this run, which may have made a commit of a dead run impossible, and go on
    with the work of that one."""
    recovered = recover.recover_again(table, run, recovered)
    if not any(operation.wants(legacy.held.head) for legacy in recovered.legacies):
        return recovered
    try:
        return go_on(operation, publish.reload(table), run, ledger, engines, recovered)[1]
    except _PASSING as error:  # the commit of this run must not look like a failure
        if ledger.in_doubt:
            raise
        _log.warning("The work of a run that did not finish waits for another run: %s", error)
        return recovered


class EngineForRun:
    """One engine for all plans of a run, opened when it is needed and closed in the end."""

    def __init__(self, engines: EngineFactory) -> None:
        self._engines = engines
        self._engine: Engine | None = None
        self._open = ExitStack()

    def __enter__(self) -> EngineForRun:
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def __call__(self) -> AbstractContextManager[Engine]:
        if self._engine is None:
            self._engine = self._open.enter_context(self._engines())
        return nullcontext(self._engine)
