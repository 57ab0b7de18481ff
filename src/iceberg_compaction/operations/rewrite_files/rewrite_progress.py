"""The events of a rewrite: how many files are done, how many groups are in the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.execute import engine_door
from iceberg_compaction.model import events, rewrite_task

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Iterator, Mapping, Sequence

    from iceberg_compaction.execute.engine_door import Engine, TaskEnd
    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

PROGRESS_MS = 100  # between two events, unless there is more to tell than the end of a task


@dataclass(slots=True, kw_only=True)
class RewriteProgress:
    """How far a run has come with a plan."""

    plan: Plan
    run: Run
    ledger: Ledger
    _files: int = 0
    _bytes: int = 0
    _sizes: dict[int, int] = field(default_factory=dict)  # of the tasks that still count
    _within: dict[int, int] = field(default_factory=dict)  # bytes that are done of running tasks
    _by_task: bool = True
    _emitted_ms: int = 0
    _totals: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        plan = self.plan
        self._totals = {
            "files_total": plan.input_files,
            "bytes_total": plan.input_bytes,
            "groups_total": len(plan.groups),
        }

    def await_engine(self, engine: Engine) -> int:
        """The cores of the engine, when it has started. Informs that the run waits, if it has to."""
        if isinstance(engine, engine_door.StartsLate) and (name := engine.starting) is not None:
            self.run.emit(events.Starting(table=self.plan.table, run_id=self.run.run_id, engine=name))
        cores = engine.cores()
        self.emit()
        return cores

    def begin(self, tasks: Sequence[RewriteTask]) -> None:
        """Further tasks than these work on files that were counted already."""
        self._sizes = {task.id: task.bytes for task in tasks}

    def moved(self, done: Mapping[int, int]) -> None:
        """Enter how far running tasks are."""
        self._by_task = self._by_task and not any(done.values())
        self._within |= {task: min(size, self._sizes[task]) for task, size in done.items() if task in self._sizes}
        self.emit()

    def counted(
        self, ends: Iterable[TaskEnd], tasks: Sequence[RewriteTask], *, inherited: Container[int] = ()
    ) -> Iterator[TaskEnd]:
        """The same ends, each with an event, and now and then the progress of all. `inherited`: tasks that an earlier
        run has done."""
        files = {task.id: len(task.file_paths) for task in tasks}
        for end in ends:
            self._within.pop(end.task_id, None)
            self._files += files.get(end.task_id, 0)
            self._bytes += self._sizes.pop(end.task_id, 0)
            if end.task_id not in inherited:
                self.run.emit(self._ended(end))
            if not self._sizes or self.run.clock() - self._emitted_ms >= PROGRESS_MS:
                self.emit()
            yield end

    def emit(self) -> None:
        self._emitted_ms = self.run.clock()
        self.run.emit(
            events.Rewriting(
                table=self.plan.table,
                run_id=self.run.run_id,
                files_done=self._files,
                bytes_done=self._bytes + sum(self._within.values()),
                groups_committed=self.ledger.groups_committed,
                by_task=self._by_task,
                **self._totals,
            )
        )

    def _ended(self, end: TaskEnd) -> events.TaskEnded:
        task = {"task_id": end.task_id, "group_id": end.group_id, "attempts": end.attempts}
        event = events.TaskEnded(table=self.plan.table, run_id=self.run.run_id, **task)
        if not isinstance(end, rewrite_task.TaskResult):
            return event.model_copy(update={"failed": True})
        figures = {"seconds": end.seconds, "bytes_read": end.bytes_read, "bytes_written": end.bytes_written}
        return event.model_copy(
            update=figures | {"file_sizes": tuple(staged.file_size_in_bytes for staged in end.staged)}
        )

    def emit_failure(self, failure: Failure) -> None:
        self.run.emit(
            events.GroupFailed(
                table=self.plan.table, run_id=self.run.run_id, group_id=failure.group_id, sentence=failure.sentence
            )
        )
