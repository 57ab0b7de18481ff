"""What runs of the last hour have cost, by tenant, for whoever shows it and for whoever lets work wait. The history is
read every few seconds, and runs that were read before are not read again."""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.record.store import RunStore

_FRESH_S = 15.0
_HOUR_MS, _DAY_MS = 3_600_000, 86_400_000  # runs that ended within the hour may have begun a day ago
_MOST_RUNS = 10_000  # of a day


@dataclass(slots=True, kw_only=True)
class HourSpending:
    """The costs that one process knows of. Threads share it; one of them reads the store at a time, and the others take
    what is there. StoreError: it cannot be read."""

    store: RunStore
    tenant_of: Callable[[str], str | None]
    clock: Callable[[], int]
    monotonic: Callable[[], float] = time.monotonic
    _ends: dict[str, tuple[int, str | None, float]] = field(default_factory=dict)  # by run: end, tenant, dollars
    _read_at: float | None = None
    _reading: threading.Lock = field(default_factory=threading.Lock)

    def by_tenant(self) -> dict[str | None, list[float]]:
        """The dollars of each run that ended within the last hour."""
        is_stale = self._read_at is None or self.monotonic() - self._read_at >= _FRESH_S
        if is_stale and self._reading.acquire(blocking=False):
            try:
                self._ends = self._read()
                self._read_at = self.monotonic()
            finally:
                self._reading.release()
        since_ms = self.clock() - _HOUR_MS
        spent: dict[str | None, list[float]] = defaultdict(list)
        for finished_ms, tenant, cost in self._ends.values():
            if finished_ms >= since_ms:
                spent[tenant].append(cost)
        return spent

    def _read(self) -> dict[str, tuple[int, str | None, float]]:
        since_ms = self.clock() - _DAY_MS
        read = dict(self._ends)
        for record in self.store.history_but(read, since_ms=since_ms, limit=_MOST_RUNS):
            tenant = self.tenant_of(record.table) or record.outcome.tenant
            read[record.run_id] = (record.finished_ms, tenant, record.outcome.cost)
        return {run_id: end for run_id, end in read.items() if end[0] >= since_ms}
