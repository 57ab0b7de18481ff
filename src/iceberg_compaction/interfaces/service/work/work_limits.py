"""How much may be at work now: the settings, the catalogs that do not answer, the tables whose writers ask for peace,
and the tenants whose budget of the hour is spent."""

from __future__ import annotations

import logging
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.work_board import WorkLimits
from iceberg_compaction.record.service.table_blockers import TableBlockers

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse

_BUDGETS_S = 5.0
# That a catalog is left alone which does not answer; twice as long each time.
_FIRST_AWAY_S, _LONGEST_AWAY_S = 5.0, 60.0
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class LimitKeeper:
    """The limits of one worker. Threads may share it."""

    house: ServiceHouse
    monotonic: Callable[[], float]
    _away: dict[str, tuple[float, float]] = field(default_factory=dict)  # until when, and for how long
    _waiting: frozenset[str] = frozenset()
    _waiting_at: float = -1e9
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def now(self) -> WorkLimits:
        """The limits at this moment. StoreError: the store is away."""
        settings, now = self.house.settings, self.monotonic()
        if now - self._waiting_at >= _BUDGETS_S:
            self._waiting_at = now
            spent = self._spent()
            for tenant in spent - self._waiting:
                self.house.notices.spent(tenant)
            self._waiting = spent
        return WorkLimits(
            total=settings.max_runs_of_all,
            catalogs={name: entry.max_runs for name, entry in settings.catalogs.items()},
            tenants={name: each.max_runs for name, each in settings.tenants.items() if each.max_runs is not None},
            away=frozenset(name for name, (until, _) in self._away.items() if now < until),
            blocked=TableBlockers(self.house.store.entries).tables(self.house.clock()),
            waiting=self._waiting,
        )

    def set_away(self, catalog: str) -> None:
        """A catalog does not answer: leave it alone for a while, longer each time in a row."""
        now = self.monotonic()
        with self._lock:
            until, wait = self._away.get(catalog, (0.0, 0.0))
            in_a_row = wait and now - until < 2 * _LONGEST_AWAY_S
            wait = min(_LONGEST_AWAY_S, 2 * wait) if in_a_row else _FIRST_AWAY_S
            self._away[catalog] = (now + wait, wait)
        _log.warning("The catalog %s does not answer; its tables wait for %g s.", catalog, wait)

    def _spent(self) -> frozenset[str]:
        """Tenants that have spent what they may in an hour."""
        limits = {
            name: each.hourly_cost_limit
            for name, each in self.house.settings.tenants.items()
            if each.hourly_cost_limit is not None
        }
        if not limits:
            return frozenset()
        try:
            spent = self.house.spending.by_tenant()
        except errors.StoreError as error:
            _log.warning("What tenants have spent is not known: %s", error)
            return self._waiting
        return frozenset(name for name, limit in limits.items() if sum(spent.get(name, ())) >= limit)
