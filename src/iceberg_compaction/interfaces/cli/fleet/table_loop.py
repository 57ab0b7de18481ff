"""Compacting tables under a person's eyes: one engine for all of them, progress on standard error, Ctrl-C as a cancel.
Every table has an outcome, however the command ends. `run`, `apply`, `manifests` and `demo` share it."""

from __future__ import annotations

import dataclasses
import threading
from concurrent import futures
from contextlib import AbstractContextManager, ExitStack, nullcontext
from contextvars import copy_context
from typing import TYPE_CHECKING, Any

from iceberg_compaction import cancel, errors
from iceberg_compaction.catalog import threads
from iceberg_compaction.execute.engines import shared_engine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.interfaces.cli import exits, interrupt, progress
from iceberg_compaction.model import durations, events
from iceberg_compaction.model.outcome import Failed, Skipped
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.operations.rewrite_files.planning import policy_rule
from iceberg_compaction.workflow import fleet_budget, operate, rank_tables

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.interfaces.cli.fleet.catalog_request import Targets
    from iceberg_compaction.interfaces.cli.options import ConsoleOptions
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.observe.metrics.run_metrics import RunMetrics
    from iceberg_compaction.operations.operation import EngineFactory, Operation
    from iceberg_compaction.operations.rewrite_files.planning.policy_rule import PolicyRule
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore
    from iceberg_compaction.workflow.operate import House


class Session:
    """Entered before the work begins and left when it has ended, however it ended. `parallel`: tables at a time."""

    def __init__(
        self,
        engines: EngineFactory,
        store: RunStore | None,
        console: ConsoleOptions,
        deadline: str | None = None,
        *,
        parallel: int = 1,
        metrics: RunMetrics | None = None,
    ) -> None:
        self._cancel = cancel.CancelToken(seconds=None if deadline is None else durations.parse_seconds(deadline))
        self._engines = engines
        self._store = store
        self._console = console
        self._parallel = parallel
        self._metrics = metrics
        self._open = ExitStack()
        self._engine: Engine | None = None
        self._engine_lock = threading.Lock()
        self.stopped: BaseException | None = None  # a cancel or a deadline that ended a run
        self.budget: fleet_budget.FleetBudget | None = None  # of several tables

    def __enter__(self) -> Session:
        self._open.enter_context(interrupt.listening(self._cancel))
        return self

    def __exit__(self, *what: object) -> None:
        self._open.close()

    def check(self) -> None:
        """Raises what has stopped the work, if something has."""
        if self.stopped is not None:
            raise self.stopped

    def compact(
        self, catalog: Any, targets: Targets, policy: Policy | PolicyRule, *, branch: str = "main"
    ) -> Iterator[Outcome]:
        """The outcome of every table, as tables are done. Several tables are ranked, and share the policy's max-cost as
        one budget."""
        operations = [RewriteFiles(table=name, policy=policy, branch=branch) for name in targets.names]
        if len(operations) > 1:
            operations = self._ranked(catalog, operations, policy)
        return self.operate(catalog, operations, single=targets.single)

    def _ranked(self, catalog: Any, operations: list[RewriteFiles], policy: Policy | PolicyRule) -> list[RewriteFiles]:
        """The operations, those first that save most for their cost."""
        by_name = {operation.table: operation for operation in operations}
        house = operate.House(catalog=catalog, engines=self._engines)
        free = policy_rule.PolicyWithoutBudgets(given=policy)

        def plan(name: str) -> Any:
            self._cancel.check()
            operation = dataclasses.replace(by_name[name], policy=free)
            return operate.plan_only(operation, house, wiring.new_run(store=self._store))

        ranked = rank_tables.rank(catalog, list(by_name), plan, store=self._store, now_ms=wiring.now_ms())
        self.budget = fleet_budget.FleetBudget(policy_rule.budget_of(policy), ranked)
        return [by_name[table.table] for table in ranked]

    def operate(
        self, catalog: Any, operations: Sequence[Operation[Any]], *, single: bool, loaded: Any = None
    ) -> Iterator[Outcome]:
        """One operation after the other, or some side by side. One that cannot be done does not stop the rest, unless
        it is the only one. After a cancel, the rest is skipped. `loaded`: the table, if it was loaded just now."""
        parallel = min(self._parallel, len(operations)) if threads.may_share(catalog) else 1
        engines = self._one_engine if parallel < 2 else self._shared_engine
        house = operate.House(catalog=catalog, engines=engines, loaded=loaded)
        if self._metrics is not None:
            self._metrics.expect([operation.table for operation in operations])
        with progress.progress(self._console) as shown:
            on_event = _both(shown.on_event, None if self._metrics is None else self._metrics.on_event)

            def perform(operation: Operation[Any]) -> Outcome:
                outcome = self._outcome(operation, house, on_event, single=single)
                if self.budget is not None:
                    self.budget.charge(outcome)
                return outcome

            if parallel < 2:
                yield from map(perform, operations)
            else:
                yield from self._side_by_side(perform, operations, parallel)

    def _side_by_side(
        self, perform: Callable[[Operation[Any]], Outcome], operations: Sequence[Operation[Any]], parallel: int
    ) -> Iterator[Outcome]:
        pool = futures.ThreadPoolExecutor(max_workers=parallel, thread_name_prefix="table")
        # Runs look at the token. A signal that interrupted this thread would only lose their outcomes.
        with self._cancel.looking(), pool:
            # In a context like ours: a span that is open here is the parent of theirs.
            waiting = {pool.submit(copy_context().run, perform, operation) for operation in operations}
            while waiting:
                try:
                    done, waiting = futures.wait(waiting, return_when=futures.FIRST_COMPLETED)
                except KeyboardInterrupt:  # a second signal: all runs end where they can already
                    continue
                for future in done:
                    yield future.result()

    def _outcome(
        self,
        operation: Operation[Any],
        house: House,
        on_event: Callable[[Event], None] | None,
        *,
        single: bool,
    ) -> Outcome:
        run = wiring.new_run(on_event=on_event, store=self._store, cancel=self._cancel.child())
        try:
            self._cancel.check()
        except errors.CancelledError as error:
            self.stopped = self.stopped or error
            return Skipped(table=operation.table, sentence=f"Not begun: {error}", run_id=run.run_id)
        if self.budget is not None and isinstance(operation, RewriteFiles):
            fitted = self.budget.fit(operation)
            if fitted is None:
                return Skipped(table=operation.table, sentence=self.budget.skipped(), run_id=run.run_id)
            operation = fitted
        try:
            return operate.operate(operation, house, run)
        except (errors.CancelledError, KeyboardInterrupt) as error:
            reason, ended = _what_ended(error)
            if ended is not None and not single and not self._cancel.cancelled:
                return ended  # `cancel` was for this run alone
            self._cancel.cancel(exits.sentence_of(reason))
            self.stopped = self.stopped or (error if single else reason)
            if ended is not None:  # with commits, so it is remembered and told
                return ended
            outcome = _failed(operation, run, error)
        except Exception as error:
            if single:
                raise
            outcome = _failed(operation, run, error)
        run.emit(events.Finished(table=operation.table, run_id=run.run_id, outcome=outcome))
        return outcome

    def _one_engine(self) -> AbstractContextManager[Engine]:
        """The engine of all tables, started by the first that needs it."""
        if self._engine is None:
            self._engine = self._open.enter_context(self._engines())
        return nullcontext(self._engine)

    def _shared_engine(self) -> AbstractContextManager[Engine]:
        """The same for several threads."""
        with self._engine_lock, self._one_engine() as engine:
            return nullcontext(shared_engine.share(engine, self._engine_lock))


def _both(
    first: Callable[[Event], None] | None, second: Callable[[Event], None] | None
) -> Callable[[Event], None] | None:
    """A listener that passes events on to two."""
    if first is None or second is None:
        return first or second

    def on_event(event: Event) -> None:
        first(event)
        second(event)

    return on_event


def _what_ended(error: BaseException) -> tuple[BaseException, Outcome | None]:
    """What has cancelled a run, without what is told of its table, and its outcome if it had made commits."""
    outcome: Outcome | None = getattr(error, "outcome", None)
    return (error if outcome is None else error.__cause__ or error), outcome


def _failed(operation: Operation[Any], run: Run, error: BaseException) -> Failed:
    return Failed(table=operation.table, sentence=exits.sentence_of(error), run_id=run.run_id)
