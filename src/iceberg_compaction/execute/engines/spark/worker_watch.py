"""On an executor: notices that a task should stop, and stops it so that its own clean-up runs. Spark gives a cancelled
task no sign: after a few seconds it kills the Python process, and half-written files would stay behind."""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

_POLL_MS = 100
_SIGNALS = (signal.SIGINT, signal.SIGHUP, signal.SIGTERM)


class Stopped(BaseException):
    """Raised in the middle of a task. `requested`: the driver wants it and still listens; else Spark is gone."""

    def __init__(self, *, requested: bool) -> None:
        super().__init__("asked to stop" if requested else "connection to Spark lost")
        self.requested = requested


@contextmanager
def stop_on_request(marker: str | None, work: Callable[..., object]) -> Iterator[None]:
    """Raises Stopped inside `work` when the driver removes the marker file (if executors share its disk), when the
    connection to Spark closes, or when Spark's daemon shuts down. Does nothing outside a Spark worker's main thread."""
    connection = _find_connection()
    if connection is None or threading.current_thread() is not threading.main_thread():
        yield
        return
    finished = threading.Event()
    handler = _handler(marker, getattr(getattr(work, "func", work), "__code__", None))  # of a partial: the function
    before = {number: signal.signal(number, handler) for number in _SIGNALS}
    threading.Thread(target=_watch, args=(connection, marker, finished), daemon=True, name="spark-watch").start()
    try:
        yield
    finally:
        finished.set()  # the thread ends by itself; waiting for it would slow down every small task
        for number, previous in before.items():
            signal.signal(number, previous)


def is_requested(marker: str | None) -> bool:
    """Whether the driver has taken the marker away."""
    return marker is not None and not os.path.exists(marker)


def _handler(marker: str | None, code: object) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        while frame is not None and frame.f_code is not code:
            frame = frame.f_back
        if frame is None:
            return  # the work has just returned: raising now would lose a result whose files are there
        for each in _SIGNALS:
            signal.signal(each, signal.SIG_IGN)  # the clean-up must not be interrupted a second time
        raise Stopped(requested=is_requested(marker))

    return handle


def _watch(connection: int, marker: str | None, finished: threading.Event) -> None:
    poll = select.poll()
    poll.register(connection, getattr(select, "POLLRDHUP", 0))  # errors and hang-ups are always reported
    while not finished.is_set():
        if is_requested(marker) or poll.poll(_POLL_MS):
            if not finished.is_set():
                # A real signal to the main thread also ends a system call that it waits in.
                signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            finished.wait(_POLL_MS / 1000)  # and again: work that is just about to begin has not noticed


def _find_connection() -> int | None:
    """The descriptor of the stream that the main function of Spark's worker reads from; only its frame knows it."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if frame.f_code.co_name == "main" and "infile" in frame.f_locals:
            try:
                return int(frame.f_locals["infile"].fileno())
            except (AttributeError, OSError, ValueError):
                return None
        frame = frame.f_back
    return None
