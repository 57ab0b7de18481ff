"""How far a task has come, in bytes of its inputs. Whoever performs a task opens a count around it; the parts of the
worker that read and write add to it, and another thread looks at it. Where nobody looks, nothing is kept. Wherever
something is counted, a task can be stopped."""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def _go_on() -> None:
    """Nobody stops the task."""


class TaskProgress:
    """Reading is one half of a task and writing the other, so that a task that sorts moves all the time. Counts of
    several threads may miss one another: people look at them, and nothing else does."""

    def __init__(self, *, size: int, rows: int, check: Callable[[], None] | None = None) -> None:
        self._check = check or _go_on
        self._size = size
        self._rows = rows
        self._read = 0
        self._written_rows = 0
        self._loose = 0  # bytes written since rows were counted last

    def begin(self) -> None:
        """A new attempt does everything again."""
        self._read = self._written_rows = self._loose = 0

    def read(self, size: int) -> None:
        """So many more bytes of the inputs are in memory."""
        self._read += size
        self._check()

    def wrote(self, size: int) -> None:
        """So many more bytes are in the outputs, of rows that are counted later."""
        self._loose += size
        self._check()

    def wrote_rows(self, rows: int) -> None:
        """So many more rows are done: written, or dropped."""
        self._written_rows += rows
        self._loose = 0
        self._check()

    @property
    def bytes_done(self) -> int:
        """Of the inputs. No more is written than was read."""
        read = min(self._read, self._size)
        written = self._size * self._written_rows // max(1, self._rows) + self._loose
        return (read + min(written, read)) // 2


_open: ContextVar[TaskProgress | None] = ContextVar("task_progress", default=None)


@contextlib.contextmanager
def watching(*, size: int, rows: int, check: Callable[[], None] | None = None) -> Iterator[TaskProgress]:
    """A new count for a task with inputs of so many bytes and rows, which this thread performs. `check` is called
    often, from any thread that works on the task; an error that it raises ends the task."""
    progress = TaskProgress(size=size, rows=rows, check=check)
    token = _open.set(progress)
    try:
        yield progress
    finally:
        _open.reset(token)


def current() -> TaskProgress:
    """The count of the task that this thread performs, to be handed to threads that help; one that nobody reads where
    there is none."""
    return _open.get() or TaskProgress(size=0, rows=0)
