"""The door between the order of work and whatever does it. Tasks and what they share come in, results go out; where and
how many at a time is the engine's own affair."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

from iceberg_compaction.execute.task_failure import Failure
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

TaskEnd: TypeAlias = TaskResult | Failure
OnEnd: TypeAlias = Callable[[TaskEnd], None]

# One task on one core. The last argument names the attempt, so that a retry never writes to the same files.
Rewrite: TypeAlias = Callable[[RewriteTask, RewriteContext, str], TaskResult]


class Engine(Protocol):
    """Performs rewrite tasks. tests/contract/test_engines.py holds for every implementation."""

    def cores(self) -> int:
        """How many tasks it performs at a time."""
        ...

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd) -> list[TaskResult]:
        """Performs all tasks and returns the results of those that were done, in the order of the tasks.

        `on_end` hears once of every task that is done or has failed, in the order of completion and in the thread that
        called `run`. That holds when `run` raises, too: whatever was staged by then has been reported, so the caller
        can sweep it. A task that fails removes its own files, and others go on; only those of its group that have not
        begun may be left out, without a word. It is for `on_end` to end the run: what it raises is raised here.

        Raises CancelledError after `cancel`, and ExecuteError if the engine itself can do no further work.
        """
        ...

    def cancel(self) -> None:
        """Stops the run as soon as possible. May be called from any thread or signal handler, and lasts: an engine
        that was cancelled does no further work."""
        ...
