"""So many requests each second at most, to a catalog or to an object store, so that upkeep does not slow queries.
Whoever sends a request waits for a turn."""

from __future__ import annotations

import math
import os
import threading
import time
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

PROPERTY = "s3.requests-per-second"  # of a catalog; it travels with the FileIO of its tables to every worker


@dataclass(slots=True, kw_only=True)
class RequestPace:
    """Turns at equal distances. Threads may share it; a pause of a second is made up for, a longer one is not."""

    per_second: float
    monotonic: Callable[[], float]
    sleep: Callable[[float], None]
    _next: float = 0.0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def wait(self) -> None:
        """Wait for a turn."""
        with self._lock:
            now = self.monotonic()
            turn = max(self._next, now - 1.0)
            self._next = turn + 1 / self.per_second
        if turn > now:
            self.sleep(turn - now)


def of_properties(properties: Mapping[str, Any]) -> RequestPace | None:
    """The pace that properties of a FileIO ask for, which all of this process share. None: they ask for none.
    ConfigError: it is no pace."""
    given = properties.get(PROPERTY)
    if given is None:
        return None
    try:
        per_second = float(given)
    except (TypeError, ValueError):
        per_second = math.nan
    if not 0 < per_second < math.inf:
        raise errors.ConfigError(f"{PROPERTY} must be a number above 0, not {str(given)[:40]!r}.")
    return _shared(per_second, os.getpid())


@lru_cache(maxsize=16)
def _shared(per_second: float, process: int) -> RequestPace:
    """One for each process; one that was forked has its own."""
    return RequestPace(per_second=per_second, monotonic=time.monotonic, sleep=time.sleep)
