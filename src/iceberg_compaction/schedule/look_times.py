"""How often a table is looked at whose catalog does not say by itself that it changed: as often as it tends to change.
A table that has not changed for a while is looked at again after a tenth of that while, so that a busy one is looked at
every minute, and one that rests since days a few times a day. Which of the tables that are due get one of the few looks
of a minute is decided here, too."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction.schedule import spread_times

if TYPE_CHECKING:
    from collections.abc import Iterable

_PART = 0.1  # of the time since a table changed
_SPREAD = 0.1  # of an interval, so that tables that came together do not stay together
_MOST_DOUBLINGS = 8
_MINUTE_MS = 60_000
_PARTS = 6  # of a minute, over which looks are spread
_NEW_MS = 60_000  # a table that nobody has looked at waits as if it were looked at every minute


class LookBounds(NamedTuple):
    """Between two looks at a table, in milliseconds."""

    least_ms: int
    most_ms: int


class WaitingTable(NamedTuple):
    """A table that is due for a look."""

    table: str
    since_ms: int  # when it was due
    interval_ms: int  # between two looks at it; 0: nobody has looked yet


def interval_ms(bounds: LookBounds, now_ms: int, updated_ms: int, idle_runs: int) -> int:
    """The time until the next look at a table that changed last at `updated_ms`. Runs in a row that found nothing to do
    make it longer."""
    rest_ms = max(0, now_ms - updated_ms) * _PART
    wanted = max(bounds.least_ms, rest_ms) * (1 << min(idle_runs, _MOST_DOUBLINGS))
    return round(min(bounds.most_ms, wanted))


def next_look_ms(bounds: LookBounds, now_ms: int, updated_ms: int, idle_runs: int, table: str) -> int:
    """The moment of the next look, a little later for some tables than for others."""
    interval = interval_ms(bounds, now_ms, updated_ms, idle_runs)
    return now_ms + interval + spread_times.delay_ms(round(interval * _SPREAD), "look", table)


def in_order(waiting: Iterable[WaitingTable], now_ms: int) -> list[str]:
    """The tables that are due, in the order in which they are looked at: in turn two of those that change most often,
    and one that has waited longest by its own measure. So busy tables are seen in time, however many others wait, and
    the others are seen, however many are busy."""
    tables = list(waiting)
    busy = sorted((each for each in tables if each.interval_ms), key=lambda each: (each.interval_ms, each.since_ms))
    late = sorted(tables, key=lambda each: (each.since_ms - now_ms) / (each.interval_ms or _NEW_MS))
    turns = itertools.chain.from_iterable(itertools.zip_longest(busy[::2], busy[1::2], late))
    return list(dict.fromkeys(each.table for each in turns if each is not None))


@dataclass(slots=True)
class LookBudget:
    """So many looks in any minute, and not all of them at once. A clock that jumps back gives none twice, and stops
    none for longer than a minute."""

    per_minute: int
    _at: list[int] = field(default_factory=list)

    def left(self, now_ms: int) -> int:
        """The looks that may be made now."""
        self._at = [moment for moment in self._at if 0 <= now_ms - moment < _MINUTE_MS]
        lately = sum(now_ms - moment < _MINUTE_MS // _PARTS for moment in self._at)
        return max(0, min(self.per_minute - len(self._at), math.ceil(self.per_minute / _PARTS) - lately))

    def spend(self, now_ms: int) -> None:
        """A look was made."""
        self._at.append(now_ms)
