"""Warnings about a store that is away. Heartbeats and events meet the same trouble every second: each warning is given
once for each reason."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction import errors

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class StoreWarnings:
    """The warnings of one run. Any thread may give one."""

    _given: set[tuple[str, str]] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def warn(self, consequence: str, error: errors.StoreError) -> None:
        """Say what the run goes on without, and why."""
        warning = (consequence, str(error))
        with self._lock:
            is_new = warning not in self._given
            self._given.add(warning)
        if is_new:
            _log.warning("%s: %s", consequence, error)
