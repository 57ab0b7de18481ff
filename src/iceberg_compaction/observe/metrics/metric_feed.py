"""Events of runs, their outcomes and healths of tables become metrics. Values come in from any thread; each figure goes
to all sinks. Tables beyond a limit share one name, so that many tables do not become too many series."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction.model import events, run_stages
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.run_figures import Stage
from iceberg_compaction.observe.metrics import metric_list

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.prices import Prices
    from iceberg_compaction.model.run_figures import TableFigures
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.observe.metrics.metric_list import Metric


_SINGULAR = {  # of StorageRequests
    "gets": "get",
    "heads": "head",
    "puts": "put",
    "parts": "part",
    "lists": "list",
    "copies": "copy",
    "deletes": "delete",
}


class MetricSink(Protocol):
    """Where figures go, from any thread: values of this process, or instruments of OpenTelemetry."""

    def add(self, metric: Metric, amount: float, *labels: str) -> None: ...
    def set(self, metric: Metric, figure: float, *labels: str) -> None: ...
    def observe(self, metric: Metric, figure: float, *labels: str) -> None: ...


@dataclass(slots=True, kw_only=True)
class _RunState:
    """A run between its first event and its last."""

    table: str
    since: float  # when the stage began
    began: float
    stage: Stage = Stage.PLANNING
    queued_groups: int = 0
    queued_bytes: int = 0


@dataclass(slots=True, kw_only=True)
class MetricFeed:
    """`tables`: how many get a name of their own. `clock`: seconds since the epoch."""

    sinks: Sequence[MetricSink]
    prices: Prices
    tables: int
    clock: Callable[[], float]
    _runs: dict[str, _RunState] = field(default_factory=dict)  # that are at work, by id
    _ended: set[str] = field(default_factory=set)  # runs
    _names: set[str] = field(default_factory=set)  # tables
    _pending: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def begin(self, version: str) -> None:
        """Show the metrics that are there before anything happens."""
        self._set(metric_list.BUILD_INFO, 1, version)
        self._add(metric_list.COMMAND_ERRORS, 0)
        for kind in ("commit", "task"):
            self._add(metric_list.RETRIES, 0, kind)
        with self._lock:
            self._set_totals()

    def expect(self, runs: int) -> None:
        """So many runs will begin, one after the other."""
        with self._lock:
            self._pending = runs
            self._set_totals()

    def end(self, *, failed: bool = False) -> None:
        """No further events come. Runs that have not ended were broken off by an error. `failed`: so was the
        command."""
        with self._lock:
            self._add(metric_list.COMMAND_ERRORS, int(failed))
            for run in self._runs.values():
                self._add_run(run.table, Kind.FAILED, self.clock() - run.began)
            self._runs.clear()
            self._pending = 0
            self._set_totals()

    def enter(self, event: Event) -> None:
        """Take an event of a run."""
        with self._lock:
            now = self.clock()
            run = self._runs.get(event.run_id)
            if run is not None:
                self._take(event, run, now)
            elif event.run_id in self._ended:
                return  # its last progress may come late, and its end twice
            elif isinstance(event, events.Planned):  # it is only shown
                self._enter_look(event)
            elif isinstance(event, events.Finished) or (isinstance(event, events.Planning) and event.performs):
                self._take(event, self._begin_run(event, now), now)

    def enter_health(self, health: TableHealth) -> None:
        """Take the health of a table, as doctor sees it."""
        with self._lock:
            self._add_look(health.table, recommended=health.sick)
            self._set_table(metric_list.TABLE_FILES, health.data_files, health.table)
            self._set_table(metric_list.SMALL_FILES, health.small_files, health.table)
            self._set_table(metric_list.TABLE_DELETES, health.delete_files, health.table)
            self._set_table(metric_list.HEALTH, health.score, health.table)

    def _begin_run(self, event: Event, now: float) -> _RunState:
        run = _RunState(table=event.table, since=now, began=now)
        self._runs[event.run_id] = run
        self._pending = max(0, self._pending - 1)
        for kind in Kind:
            self._add(metric_list.RUNS, 0, kind.value, self._name(event.table))
        self._set_totals()
        return run

    def _take(self, event: Event, run: _RunState, now: float) -> None:
        self._enter_stage(run, run_stages.stage_after(event, run.stage), now)
        match event:
            case events.Planned():
                self._enter_plan(event, run)
            case events.Rewriting():
                run.queued_groups = event.groups_total - event.groups_committed
                run.queued_bytes = max(0, event.bytes_total - event.bytes_done)
                self._set_totals()
            case events.TaskEnded():
                self._enter_task(event)
            case events.Committed():
                self._add_table(metric_list.COMMITS, 1, event.table)
                self._add(metric_list.RETRIES, max(0, event.attempts - 1), "commit")
                self._enter_figures(event.table, event.after)
            case events.Finished():
                self._observe(metric_list.STAGE_DURATION, max(0.0, now - run.since), run.stage.value)
                del self._runs[event.run_id]
                self._ended.add(event.run_id)
                self._set_totals()
                self._enter_outcome(event.outcome, run, now)
            case _:
                pass  # the stage says it all

    def _enter_stage(self, run: _RunState, stage: Stage, now: float) -> None:
        if stage is not run.stage:
            self._observe(metric_list.STAGE_DURATION, max(0.0, now - run.since), run.stage.value)
            run.stage, run.since = stage, now

    def _enter_plan(self, event: events.Planned, run: _RunState) -> None:
        run.queued_groups, run.queued_bytes = event.groups, event.bytes
        self._set_totals()
        self._enter_look(event)

    def _enter_look(self, event: events.Planned) -> None:
        self._add_look(event.table, recommended=event.groups > 0)  # the plan of an undo has files and no groups
        self._enter_figures(event.table, event.before)

    def _enter_figures(self, table: str, figures: TableFigures | None) -> None:
        if figures is None:
            return
        self._set_table(metric_list.TABLE_FILES, figures.data_files, table)
        self._set_table(metric_list.SMALL_FILES, figures.small_files, table)
        self._set_table(metric_list.TABLE_DELETES, figures.delete_files, table)
        if figures.score is not None:
            self._set_table(metric_list.HEALTH, figures.score, table)

    def _enter_task(self, event: events.TaskEnded) -> None:
        self._add(metric_list.TASKS, 1, "failed" if event.failed else "done")
        self._add(metric_list.RETRIES, max(0, event.attempts - 1), "task")
        if event.failed:
            return
        self._observe(metric_list.TASK_DURATION, event.seconds)
        self._add_table(metric_list.TASK_SECONDS, event.seconds, event.table)
        self._add_table(metric_list.BYTES_READ, event.bytes_read, event.table)
        self._add_table(metric_list.BYTES_WRITTEN, event.bytes_written, event.table)
        self._add_table(metric_list.COST, self.prices.compute(event.seconds), event.table)
        for size in event.file_sizes:
            self._observe(metric_list.FILE_SIZE, size)

    def _enter_outcome(self, outcome: Outcome, run: _RunState, now: float) -> None:
        self._add_run(outcome.table, outcome.kind, outcome.seconds or now - run.began)
        table = outcome.table
        for kind, count in outcome.requests.model_dump().items():
            self._add(metric_list.REQUESTS, count, _SINGULAR[kind])
        self._add_table(metric_list.COST, self.prices.requests(outcome.requests), table)
        self._set_table(metric_list.LAST_RUN, now, table)
        if outcome.ok:
            self._set_table(metric_list.LAST_SUCCESS, now, table)
        # The files of an undo are those of a compaction, the wrong way round; housekeeping compacts none.
        if outcome.kind not in (Kind.UNDONE, Kind.MAINTAINED):
            self._enter_work(outcome)

    def _enter_work(self, outcome: Outcome) -> None:
        """The files and rows that a run has committed."""
        figures: dict[Metric, float] = {
            metric_list.FILES_COMPACTED: outcome.files_removed,
            metric_list.FILES_ADDED: outcome.files_added,
            metric_list.BYTES_COMPACTED: outcome.bytes_removed,
            metric_list.BYTES_ADDED: outcome.bytes_added,
            metric_list.RECORDS: outcome.records,
            metric_list.DELETED_ROWS: outcome.deleted_rows,
            metric_list.DELETE_FILES: outcome.delete_files_removed,
            metric_list.CONFLICTS: outcome.groups_conflicted,
        }
        for metric, figure in figures.items():
            self._add_table(metric, figure, outcome.table)
        for group in outcome.group_outcomes:
            self._add(metric_list.GROUPS, 1, group.outcome.name.lower().replace("_", "-"))
        if outcome.files_removed:
            self._enter_change(outcome)

    def _enter_change(self, outcome: Outcome) -> None:
        """The files of a table that has new ones."""
        self._set_table(metric_list.FILES_BEFORE, outcome.files_removed, outcome.table)
        self._set_table(metric_list.FILES_AFTER, outcome.files_added, outcome.table)
        if outcome.bytes_added:
            ratio = outcome.bytes_removed / outcome.bytes_added
            self._observe(metric_list.COMPRESSION, ratio)
            self._set_table(metric_list.LAST_COMPRESSION, ratio, outcome.table)

    def _add_run(self, table: str, kind: Kind, seconds: float) -> None:
        self._add(metric_list.RUNS, 1, kind.value, self._name(table))
        self._observe(metric_list.RUN_DURATION, max(0.0, seconds), kind.value)

    def _add_look(self, table: str, *, recommended: bool) -> None:
        self._add_table(metric_list.EXAMINATIONS, 1, table)
        self._add_table(metric_list.RECOMMENDATIONS, int(recommended), table)

    def _set_totals(self) -> None:
        """The gauges of all runs together."""
        self._set(metric_list.ACTIVE, len(self._runs))
        self._set(metric_list.PENDING, self._pending)
        self._set(metric_list.QUEUED_GROUPS, sum(run.queued_groups for run in self._runs.values()))
        self._set(metric_list.QUEUED_BYTES, sum(run.queued_bytes for run in self._runs.values()))

    def _name(self, table: str) -> str:
        """The value of a table's label."""
        if table in self._names or len(self._names) < self.tables:
            self._names.add(table)
            return table
        return metric_list.OTHER

    def _add_table(self, metric: Metric, amount: float, table: str) -> None:
        self._add(metric, amount, self._name(table))

    def _set_table(self, metric: Metric, figure: float, table: str) -> None:
        """A gauge of one table means nothing for all the others together."""
        if (name := self._name(table)) != metric_list.OTHER:
            self._set(metric, figure, name)

    def _add(self, metric: Metric, amount: float, *labels: str) -> None:
        for sink in self.sinks:
            sink.add(metric, amount, *labels)

    def _set(self, metric: Metric, figure: float, *labels: str) -> None:
        for sink in self.sinks:
            sink.set(metric, figure, *labels)

    def _observe(self, metric: Metric, figure: float, *labels: str) -> None:
        for sink in self.sinks:
            sink.observe(metric, figure, *labels)
