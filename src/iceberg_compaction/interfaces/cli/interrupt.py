"""Ctrl-C and SIGTERM as a clean cancel, through the token of the run. Work that looks at the token ends by itself and
removes its files; a second signal does not wait for that. While a snapshot is published every signal waits."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.cancel import CancelToken

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


@contextmanager
def terminable() -> Iterator[None]:
    """Outside of a run SIGTERM does what Ctrl-C does, so that processes and folders of a command end with it."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before or signal.SIG_DFL)


@contextmanager
def listening(cancel: CancelToken, signals: Sequence[signal.Signals] = _SIGNALS) -> Iterator[list[int]]:
    """Take the signals over, and give them back. The list has those that came."""
    heard: list[int] = []

    def on_signal(number: int, frame: Any) -> None:
        heard.append(number)
        cancel.cancel("Cancelled; what was committed before stays committed.")
        if cancel.shielded:
            _log.warning("stopping as soon as the commit has ended")
        elif cancel.gentle and len(heard) == 1:
            _log.info("cancelling the rewrite")
        else:
            raise KeyboardInterrupt

    before = {number: signal.signal(number, on_signal) for number in signals}
    try:
        yield heard
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
