"""Trouble with the run store in the log of a loop that asks it every second: said when it begins, now and then while it
lasts, and when it is over."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.errors import StoreError

_AGAIN_S = 60.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class StoreTrouble:
    """What one loop has said. `who`: the loop, such as `The worker`."""

    who: str
    monotonic: Callable[[], float]
    _said_at: float | None = None

    def note(self, error: StoreError) -> None:
        """The store could not be asked."""
        now = self.monotonic()
        if self._said_at is None or now - self._said_at >= _AGAIN_S:
            self._said_at = now
            _log.warning("%s waits for the run store: %s", self.who, error)

    def over(self) -> None:
        """It was."""
        if self._said_at is not None:
            self._said_at = None
            _log.warning("%s goes on: the run store answers again.", self.who)
