"""The cancel token of a run. Signals, deadlines and services ask through it for an end; the work looks at it where it
can stop cleanly. While a snapshot is published the request waits: an interrupted commit leaves its state unknown."""

from __future__ import annotations

import threading
import time
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


GRACE_SECONDS = 2.0  # of a task that is under way when its run is cancelled
FINISHING_SECONDS = 30.0  # less than a container is given to end


class CancelToken:
    """One per run, for any thread. `seconds`: how long the run may take from now on. `parent`: the token of a command
    that has several runs; its requests count for each of them, if need be only from a time on, and it is shielded
    while one of them is."""

    def __init__(
        self,
        *,
        seconds: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        parent: CancelToken | None = None,
        parent_counts_from: float | None = None,
    ) -> None:
        self._clock = clock
        self._parent = parent
        self._parent_counts_from = parent_counts_from
        self._seconds = seconds
        self._end = None if seconds is None else clock() + seconds
        self._reason: str | None = None
        self._noticed: float | None = None  # when a task first saw the request
        self._depths = {"shield": 0, "gentle": 0}
        self._lock = threading.Lock()  # of the depths only: `cancel` takes none, so that a signal handler may call it

    def cancel(self, reason: str) -> None:
        """Ask for an end, from any thread or signal handler. The first reason counts, a sentence for a person."""
        self.cancel_this(reason)
        if self._parent is not None:
            self._parent.cancel(reason)

    def cancel_this(self, reason: str) -> None:
        """The same for one of several runs: the others go on."""
        if self._reason is None:
            self._reason = reason

    def child(self) -> CancelToken:
        """The token of one of several runs."""
        return CancelToken(clock=self._clock, parent=self)

    def finishing(self, seconds: float = FINISHING_SECONDS) -> CancelToken:
        """The token for the commit of finished work: requests do not count for so long, lest the work be lost."""
        return CancelToken(clock=self._clock, parent=self, parent_counts_from=self._clock() + seconds)

    @property
    def cancelled(self) -> bool:
        """Whether the work must end now. False inside of `shield`, whatever was asked for."""
        return not self.shielded and self._requested() is not None

    def check(self) -> None:
        """Raises CancelledError if the work must end now."""
        reason = None if self.shielded else self._requested()
        if reason is not None:
            raise errors.CancelledError(reason)

    def check_at_work(self) -> None:
        """The same inside of a task: it has a few seconds from the first look on, lest work that is nearly done be
        lost."""
        if self._reason is None and self._requested() is None:
            return
        if self._noticed is None:
            self._noticed = self._clock()
        if self._clock() - self._noticed >= GRACE_SECONDS:
            self.check()

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
        return self._reason or self._requested_of_parent()

    def _requested_of_parent(self) -> str | None:
        if self._parent is None:
            return None
        waits = self._parent_counts_from is not None and self._clock() < self._parent_counts_from
        return None if waits else self._parent._requested()

    @contextmanager
    def _inside(self, region: str) -> Iterator[None]:
        with self._lock:
            self._depths[region] += 1
        try:
            with self._parent._inside(region) if self._parent is not None else nullcontext():
                yield
        finally:
            with self._lock:
                self._depths[region] -= 1
