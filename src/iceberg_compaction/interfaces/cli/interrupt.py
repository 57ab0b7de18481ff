"""Ctrl-C and SIGTERM as a clean cancel. While files are rewritten the engine is told to stop, so that the workflow can
sweep; a second signal does not wait for that. While a commit is under way the signal waits: an interrupted commit would
leave its state unknown."""

from __future__ import annotations

import logging
import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model import events

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.operations.operation import EngineFactory

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_log = logging.getLogger(__name__)


class Interrupts:
    """Knows which engine works and in which stage, and so what a signal should do."""

    def __init__(self) -> None:
        self._engine: Engine | None = None
        self._committing = False
        self._asked = 0

    @contextmanager
    def listening(self) -> Iterator[None]:
        """Take the signals over, and give them back."""
        before = {number: signal.getsignal(number) for number in _SIGNALS}
        self._listen()
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def on_event(self, event: events.Event) -> None:
        """Note the stage. A Spark session installs its own handler when it starts, so ours is put back."""
        self._committing = isinstance(event, events.Committing)
        self._listen()
        if self._asked and self._engine is not None and isinstance(event, events.Rewriting):
            self._engine.cancel()  # the commit that the signal had to wait for has ended

    def watch(self, engines: EngineFactory) -> EngineFactory:
        """The same engines, known to the signal handler while they work."""

        @contextmanager
        def make() -> Iterator[Engine]:
            opened: AbstractContextManager[Engine] = engines()
            with opened as engine:
                self._engine = engine
                try:
                    yield engine
                finally:
                    self._engine = None

        return make

    def check(self) -> None:
        """Stop between two tables if a signal came while the first was being committed."""
        if self._asked:
            raise errors.CancelledError("Cancelled; what was committed before stays committed.")

    def _listen(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._on_signal)

    def _on_signal(self, number: int, frame: Any) -> None:
        self._asked += 1
        if self._committing:
            _log.warning("stopping as soon as the commit has ended")
        elif self._engine is not None and self._asked == 1:
            _log.info("cancelling the rewrite")
            self._engine.cancel()
        else:
            raise KeyboardInterrupt
