"""Who handles Ctrl-C. Spark puts a handler of its own in place when it starts, which kills all jobs of the session on
the spot; a run wants its tasks to clean up first, and the caller may have had a handler of their own."""

from __future__ import annotations

import signal
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def kept() -> Iterator[None]:
    """Whatever handles Ctrl-C before still does so afterwards."""
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None and _in_main_thread():
            signal.signal(signal.SIGINT, before)


@contextmanager
def without_sparks_handler() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt and does nothing else, where Spark's own handler would act."""
    module = getattr(signal.getsignal(signal.SIGINT), "__module__", None) or ""
    if not module.startswith("pyspark.") or not _in_main_thread():
        yield
        return
    with kept():
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield


def _in_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()
