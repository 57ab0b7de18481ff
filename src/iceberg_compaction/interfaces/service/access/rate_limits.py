"""How often one client may ask: a bucket of permits for each, which fills up again evenly. It is in the memory of one
process: several replicas allow as many times as much, and none of them asks a server for it."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_CLIENTS = 10_000


@dataclass(slots=True, kw_only=True)
class RateLimits:
    """Permits by client. `monotonic`: seconds of a clock that never goes back."""

    per_minute: int
    monotonic: Callable[[], float]
    _buckets: dict[str, tuple[float, float]] = field(default_factory=dict)  # permits that are left, and since when
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, client: str) -> float:
        """Take one permit: 0 if there was one, else the seconds until there is."""
        now, rate = self.monotonic(), self.per_minute / 60
        with self._lock:
            if client not in self._buckets and len(self._buckets) >= _MOST_CLIENTS:
                self._forget_full(now, rate)
            left, since = self._buckets.get(client, (float(self.per_minute), now))
            left = min(self.per_minute, left + (now - since) * rate)
            if left < 1:
                self._buckets[client] = (left, now)
                return (1 - left) / rate
            self._buckets[client] = (left - 1, now)
            return 0.0

    def _forget_full(self, now: float, rate: float) -> None:
        """Clients whose bucket is full again need no entry. If all are busy, the one that has waited longest goes."""
        full = [name for name, (left, since) in self._buckets.items() if left + (now - since) * rate >= self.per_minute]
        for name in full or [min(self._buckets, key=lambda each: self._buckets[each][1])]:
            del self._buckets[name]
