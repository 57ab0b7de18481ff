"""The cancel token of a run. Signals, deadlines and services ask through it for an end; the work looks at it where it
can stop cleanly. While a snapshot is published the request waits: an interrupted commit leaves its state unknown."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class CancelToken:
    """One per run, for any thread. `seconds`: how long the run may take from now on."""

    def __init__(self, *, seconds: float | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._seconds = seconds
        self._end = None if seconds is None else clock() + seconds
        self._reason: str | None = None
        self._depths = {"shield": 0, "gentle": 0}
        self._lock = threading.Lock()  # of the depths only: `cancel` takes none, so that a signal handler may call it

    def cancel(self, reason: str) -> None:
        """Ask for an end, from any thread or signal handler. The first reason counts, a sentence for a person."""
        if self._reason is None:
            self._reason = reason

    @property
    def cancelled(self) -> bool:
        """Whether the work must end now. False inside of `shield`, whatever was asked for."""
        return not self.shielded and self._requested() is not None

    def check(self) -> None:
        """Raises CancelledError if the work must end now."""
        reason = None if self.shielded else self._requested()
        if reason is not None:
            raise errors.CancelledError(reason)

    @property
    def shielded(self) -> bool:
        """Whether something is under way that must not be interrupted."""
        return self._depths["shield"] > 0

    @property
    def gentle(self) -> bool:
        """Whether the work looks at the token often, so that nobody need interrupt it."""
        return self._depths["gentle"] > 0

    @contextmanager
    def shield(self) -> Iterator[None]:
        """Nothing is cancelled inside. A request that arrives meanwhile takes effect at the first `check` afterwards;
        leaving raises nothing, so that the result of the work inside is not lost."""
        with self._inside("shield"):
            yield

    @contextmanager
    def looking(self) -> Iterator[None]:
        """The work inside checks the token often."""
        with self._inside("gentle"):
            yield

    def _requested(self) -> str | None:
        if self._reason is None and self._end is not None and self._clock() >= self._end:
            self.cancel(f"The run was cancelled at its deadline, after {self._seconds:g} seconds.")
        return self._reason

    @contextmanager
    def _inside(self, region: str) -> Iterator[None]:
        with self._lock:
            self._depths[region] += 1
        try:
            yield
        finally:
            with self._lock:
                self._depths[region] -= 1
