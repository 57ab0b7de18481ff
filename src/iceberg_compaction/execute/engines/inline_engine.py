"""The engine without an engine: tasks one after the other in this process, each on all cores of it. For small work,
for tests, and wherever a JVM would cost more than it brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute import perform_task, task_failure
from iceberg_compaction.execute.engines import process_cores, progress_reports
from iceberg_compaction.execute.worker import budgets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Job, Rewrite, TaskEnd
    from iceberg_compaction.model.rewrite_task import TaskResult


class InlineEngine:
    """Runs tasks in the thread that asks for their results. Cancelling takes effect between two tasks, or within
    seconds where a long one reads or writes."""

    def __init__(self, *, rewrite: Rewrite | None = None, memory: int | None = None) -> None:
        self._rewrite = rewrite or perform_task.worker(process_cores.available(), budgets.MemoryShare(bytes=memory))

    def cores(self) -> int:
        return 1

    def start(self, job: Job, *, cancel: CancelToken) -> InlineWork:
        return InlineWork(job, cancel, self._rewrite)


class InlineWork:
    """A task is performed when its result is asked for, so that nothing runs when the work is left."""

    def __init__(self, job: Job, cancel: CancelToken, rewrite: Rewrite | None) -> None:
        self.staged: list[TaskResult] = []
        self._job = job
        self._cancel = cancel
        self._rewrite = rewrite

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing runs."""

    def results(self) -> Iterator[TaskEnd]:
        attempt = perform_task.new_attempt()
        failed: set[int] = set()
        with progress_reports.Reporter() as reporter:
            for task in self._job.tasks:
                if task.group_id in failed:
                    continue  # what it would write could not be committed
                self._cancel.check()
                with reporter.reporting(task, self._sender(task.id), wait=True, check=self._cancel.check_at_work):
                    end = perform_task.perform_task(task, self._job.context, attempt, self._rewrite)
                if isinstance(end, task_failure.Failure):
                    failed.add(end.group_id)
                else:
                    self.staged.append(end)
                yield end

    def _sender(self, task_id: int) -> Callable[[int], None] | None:
        on_progress = self._job.on_progress
        return None if on_progress is None else lambda done: on_progress({task_id: done})
