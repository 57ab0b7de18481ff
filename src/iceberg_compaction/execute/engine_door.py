"""The door between those who order work and the engine that performs it. A job comes in, results go out in the order of
completion; where tasks run, and how many at a time, is the engine's own affair."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from iceberg_compaction.execute.task_failure import Failure
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_choice import EngineChoice, WorkFigures

TaskEnd: TypeAlias = TaskResult | Failure

# One task on one core. The last argument names the attempt, so that a retry never writes to the same files.
Rewrite: TypeAlias = Callable[[RewriteTask, RewriteContext, str], TaskResult]

# Bytes of the inputs that are done so far, of each running task that has news. An engine calls it about once a second
# while tasks run, also without news, and never twice at the same time.
OnProgress: TypeAlias = Callable[[Mapping[int, int]], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """Tasks, and the context that they share. `on_progress`: who wants to know how far running tasks are."""

    tasks: tuple[RewriteTask, ...]
    context: RewriteContext
    on_progress: OnProgress | None = None


class RunningJob(Protocol):
    """A job that an engine performs, from the beginning to the end of a `with`. To leave it early stops the tasks that
    still run, gently, and waits for them."""

    @property
    def staged(self) -> Sequence[TaskResult]:
        """The results of all tasks that were done, also of those that `results` did not come to yield. Complete after
        the `with`, whatever was raised inside: no other file of a finished task exists, so the caller can remove
        those that it did not commit."""
        ...

    def results(self) -> Iterator[TaskEnd]:
        """Each task that was done or has failed, once, in the order of completion. Other tasks go on meanwhile.

        A task that fails removes its own files (`left_behind` says if it could not), and others go on; only those of
        its group that have not begun may be left out, without a word.

        Raises CancelledError if the token is cancelled, and ExecuteError if the engine itself can do no further work.
        """
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Engine(Protocol):
    """Performs rewrite tasks. tests/contract/test_engines.py holds for every implementation."""

    def cores(self) -> int:
        """How many tasks it performs at a time."""
        ...

    def start(self, job: Job, *, cancel: CancelToken) -> RunningJob:
        """The work on a job, which begins when its `with` is entered."""
        ...


@runtime_checkable
class StartsLate(Protocol):
    """An engine that takes a while to start."""

    @property
    def starting(self) -> str | None:
        """The name, for people, of a system that the next call will wait for; None: it is there."""
        ...


@runtime_checkable
class ChoosesByWork(Protocol):
    """An engine that stands for several, and is asked before each piece of work which of them does it."""

    def for_work(self, work: WorkFigures) -> tuple[Engine, EngineChoice]:
        """The engine for a piece of work, and why."""
        ...
