"""Ctrl-C, or a stopped cell of a notebook, while the library works: a clean cancel, through the token of the run. What
is finished is committed, everything else is removed, and then KeyboardInterrupt is raised, as programs expect it."""

from __future__ import annotations

import signal
import threading
from typing import TYPE_CHECKING, TypeVar

from iceberg_compaction import errors
from iceberg_compaction.interfaces.cli import interrupt

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.cancel import CancelToken

T = TypeVar("T")
# Handlers that only raise, or that act on the spot where a run wants its tasks to clean up first.
_REPLACED = ("pyspark.", "ipykernel.")


class RunStopped(KeyboardInterrupt):
    """A person stopped the run. `outcome`: what became of it until then, as far as it had an outcome."""

    def __init__(self, sentence: str, outcome: object | None) -> None:
        super().__init__(sentence)
        self.outcome = outcome


def stoppable(work: Callable[[], T], cancel: CancelToken) -> T:
    """Do the work, which looks at the token. A program with a handler of its own for Ctrl-C keeps it, and threads have
    none."""
    if not _is_free():
        return work()
    with interrupt.listening(cancel, (signal.SIGINT,)) as heard:
        try:
            result = work()
        except errors.CancelledError as error:
            if not heard:  # a deadline, or somebody else's `cancel`
                raise
            raise RunStopped(str(error), error.outcome) from error
    if heard:  # too late for this run, but not for what the program would do next
        raise RunStopped("Stopped after the run had ended.", result)
    return result


def _is_free() -> bool:
    if threading.current_thread() is not threading.main_thread():
        return False
    handler = signal.getsignal(signal.SIGINT)
    module = f"{getattr(handler, '__module__', None) or ''}."
    return handler is signal.default_int_handler or module.startswith(_REPLACED)
