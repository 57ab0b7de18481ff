"""Work in threads that hold up nobody: a pool of Python's waits for its threads when the process ends, also for one
that waits for a server which never answers."""

from __future__ import annotations

import threading
from concurrent import futures
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    T = TypeVar("T")


def begin(name: str, work: Callable[..., T], *given: Any) -> futures.Future[T]:
    """Begin to work in a thread of its own; the answer comes later."""
    future: futures.Future[T] = futures.Future()

    def run() -> None:
        try:
            future.set_result(work(*given))
        except BaseException as error:  # noqa: BLE001 whoever waits for the answer gets it
            future.set_exception(error)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future
