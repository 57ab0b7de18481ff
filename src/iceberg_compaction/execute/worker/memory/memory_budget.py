"""The memory that all tasks of a process share. A task reserves its peak before it reads, and waits while others hold
the memory; a task that is alone never waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class MemoryBudget:
    """Bytes that tasks have reserved, beside those that the process takes without them."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._reserved = 0
        self._holders = 0  # tasks that hold bytes
        self._waiting = 0  # holders that wait for more
        self.idle_bytes = 0  # of the process when no task held any

    @property
    def reserved(self) -> int:
        return self._reserved

    @property
    def is_idle(self) -> bool:
        """Whether no task holds bytes."""
        return not self._holders

    def reservation(self, limit: int | None = None, resident: int = 0) -> Reservation:
        """A reservation of nothing yet. `limit`: bytes of the process at most; `resident`: its bytes now."""
        with self._changed:
            if not self._holders:
                self.idle_bytes = resident
        return Reservation(self, None if limit is None else max(0, limit - self.idle_bytes))

    def _raise(self, held: int, to: int, most: int | None) -> None:
        """Waits until the bytes are free. Holders that all wait for one another go on: their needs were below the
        total one by one, and a wait without end would be worse than the risk."""
        with self._changed:
            is_holder = held > 0
            self._waiting += is_holder
            self._changed.notify_all()
            try:
                self._changed.wait_for(lambda: self._is_free(held, to, most))
            finally:
                self._waiting -= is_holder
            self._holders += not is_holder
            self._reserved += to - held

    def _is_free(self, held: int, to: int, most: int | None) -> bool:
        others = self._holders - (held > 0)
        if most is None or not others or self._reserved - held + to <= most:
            return True
        return held > 0 and self._waiting == self._holders

    def _release(self, held: int) -> None:
        with self._changed:
            self._reserved -= held
            self._holders -= 1
            self._changed.notify_all()


class Reservation:
    """The memory of one task, returned at the end of a `with`."""

    def __init__(self, budget: MemoryBudget, most: int | None) -> None:
        self._budget = budget
        self.most = most  # bytes of all tasks together; None: any
        self.bytes = 0

    def raise_to(self, size: int) -> None:
        """Reserves so many bytes in all; waits while other tasks hold them. Never gives bytes back."""
        if size > self.bytes:
            self._budget._raise(self.bytes, size, self.most)
            self.bytes = size

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.bytes:
            self._budget._release(self.bytes)
            self.bytes = 0


PROCESS = MemoryBudget()
