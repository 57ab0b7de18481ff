"""The door between the order of work and whatever does it. Tasks and what they share come in, results go out; where and
how many at a time is the engine's own affair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from iceberg_compaction.model.task import RewriteContext, RewriteTask, TaskResult

OnResult: TypeAlias = Callable[[TaskResult], None]

# One task on one core. The last argument names the attempt, so that a retry never writes to the same files.
Rewrite: TypeAlias = Callable[[RewriteTask, RewriteContext, str], TaskResult]


class Engine(Protocol):
    """Performs rewrite tasks. tests/contract/test_engines.py holds for every implementation."""

    def cores(self) -> int:
        """How many tasks it performs at a time."""
        ...

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_result: OnResult) -> list[TaskResult]:
        """Performs all tasks and returns their results in the order of the tasks.

        `on_result` hears of every finished task once, in the order of completion and in the thread that called `run`.
        That holds when `run` raises, too: whatever was staged by then has been reported, so the caller can sweep it.
        Files of tasks that did not finish are removed by the task itself. The first failure ends the run.

        Raises CancelledError after `cancel`, the task's own error where it is one of ours, else ExecuteError.
        """
        ...

    def cancel(self) -> None:
        """Stops the run as soon as possible. May be called from any thread or signal handler, and lasts: an engine
        that was cancelled does no further work."""
        ...
