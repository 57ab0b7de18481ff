"""Compacting tables under a person's eyes: one engine for all of them, progress on standard error, Ctrl-C as a cancel.
`run`, `apply` and `demo` share it."""

from __future__ import annotations

from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import TYPE_CHECKING, Any

from iceberg_compaction import cancel, errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import interrupt, progress
from iceberg_compaction.model import durations, events
from iceberg_compaction.model.outcome import Failed
from iceberg_compaction.operations.rewrite_files.file_rewrite import ApplyPlan, RewriteFiles
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.operations.operation import EngineFactory, Operation
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore


class Session:
    """Entered before the work begins and left when it has ended, however it ended."""

    def __init__(
        self, engines: EngineFactory, store: RunStore | None, console: ConsoleOptions, deadline: str | None = None
    ) -> None:
        self._cancel = cancel.CancelToken(seconds=None if deadline is None else durations.parse_seconds(deadline))
        self._engines = engines
        self._store = store
        self._console = console
        self._open = ExitStack()
        self._engine: Engine | None = None

    def __enter__(self) -> Session:
        self._open.enter_context(interrupt.listening(self._cancel))
        return self

    def __exit__(self, *what: object) -> None:
        self._open.close()

    def compact(self, catalog: Any, targets: Targets, policy: Policy, *, branch: str = "main") -> Iterator[Outcome]:
        """Every table in turn."""
        operations = [RewriteFiles(table=name, policy=policy, branch=branch) for name in targets.names]
        return self.operate(catalog, operations, single=targets.single)

    def operate(self, catalog: Any, operations: Iterable[Operation[Any]], *, single: bool) -> Iterator[Outcome]:
        """One operation after the other. One that cannot be done does not stop the rest, unless it is the only one."""
        house = operate.House(catalog=catalog, engines=self._one_engine)
        with progress.progress(self._console) as shown:
            for operation in operations:
                self._cancel.check()
                run = self._run(shown)
                try:
                    outcome: Outcome = operate.operate(operation, house, run)
                except (errors.ConfigError, errors.CancelledError):
                    raise
                except errors.CompactionError as error:
                    if single:
                        raise
                    outcome = Failed(table=operation.table, sentence=str(error), run_id=run.run_id)
                    run.emit(events.Finished(table=operation.table, run_id=run.run_id, outcome=outcome))
                yield outcome

    def apply(self, catalog: Any, plan: Plan | EmptyPlan) -> Outcome:
        """A plan made before."""
        with progress.progress(self._console) as shown:
            house = operate.House(catalog=catalog, engines=self._one_engine)
            return operate.operate(ApplyPlan(given=plan), house, self._run(shown))

    def _run(self, shown: progress.Progress) -> Run:
        return wiring.new_run(on_event=shown.on_event, store=self._store, cancel=self._cancel)

    def _one_engine(self) -> AbstractContextManager[Engine]:
        """The engine of all tables, started by the first that needs it."""
        if self._engine is None:
            self._engine = self._open.enter_context(self._engines())
        return nullcontext(self._engine)
