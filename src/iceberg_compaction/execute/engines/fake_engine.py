"""An engine for tests, ours and those of programs that use the library: tasks are performed in this process, and a
script decides what is reported of them, when, and in which order."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.execute import perform_task
from iceberg_compaction.execute.engines import inline_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Job, Rewrite, TaskEnd
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

# Takes the ends of tasks, each of which is performed when it is asked for, and gives what the engine does: it yields
# an end, raises an error, or waits a moment (None) in which it may be cancelled.
Script: TypeAlias = "Callable[[Iterator[TaskEnd]], Iterable[TaskEnd | BaseException | None]]"


class FakeEngine:
    """An engine that follows a script. `failures`: what tasks fail with, by task id. `jobs`: every job that was
    started. As a context manager, and as a factory of itself, it takes the place of an engine that is opened."""

    def __init__(
        self,
        script: Script = iter,
        *,
        cores: int = 1,
        failures: Mapping[int, Exception] | None = None,
        rewrite: Rewrite | None = None,
    ) -> None:
        self.jobs: list[Job] = []
        self._script = script
        self._cores = cores
        self._failures = dict(failures or {})
        self._rewrite = rewrite

    def __call__(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing to close."""

    def cores(self) -> int:
        return self._cores

    def start(self, job: Job, *, cancel: CancelToken) -> _FakeWork:
        self.jobs.append(job)
        return _FakeWork(inline_engine.InlineWork(job, cancel, self._perform), cancel, self._script)

    def _perform(self, task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        if task.id in self._failures:
            raise self._failures[task.id]
        return (self._rewrite or perform_task.worker())(task, context, attempt)


class _FakeWork:
    def __init__(self, inline: inline_engine.InlineWork, cancel: CancelToken, script: Script) -> None:
        self.staged = inline.staged
        self._inline = inline
        self._cancel = cancel
        self._script = script

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        """Nothing runs."""

    def results(self) -> Iterator[TaskEnd]:
        self._cancel.check()
        for step in self._script(self._inline.results()):
            if isinstance(step, BaseException):
                raise step
            if step is not None:
                yield step
            self._cancel.check()
