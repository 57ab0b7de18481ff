"""The health of tables over time: few figures for each look at a table, by `doctor` or by a run. The latest look at
each table is an entry of its own, so that one scan shows all tables."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.record.entries import door, keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry

HEALTH, LATEST = "health", "health-latest"
_log = logging.getLogger(__name__)


def rows(entry: HealthEntry) -> dict[str, str]:
    """The entries of one look, for a change or an outbox."""
    text = entry.model_dump_json()
    moment = keys.newest_first(entry.at_ms)
    return {
        keys.key(HEALTH, entry.catalog, entry.table, moment): text,
        keys.key(LATEST, entry.catalog, entry.table): text,
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class HealthLog:
    """The health in a store."""

    entries: StoreEntries

    def save(self, looks: Sequence[HealthEntry]) -> None:
        """Write these looks down."""
        waiting = list(looks)
        at_a_time = door.MOST_KEYS // 2
        for start in range(0, len(waiting), at_a_time):
            self.entries.change(
                {key: text for look in waiting[start : start + at_a_time] for key, text in rows(look).items()}
            )

    def of_table(self, catalog: str, table: str, *, limit: int = 100) -> list[HealthEntry]:
        """The last looks at one table, the newest first."""
        return list(_parsed(self.entries.scan(keys.prefix(HEALTH, catalog, table), limit=limit)))

    def latest_of(self, catalog: str, table: str) -> HealthEntry | None:
        """The last look at one table."""
        key = keys.key(LATEST, catalog, table)
        entry = self.entries.get([key]).get(key)
        return None if entry is None else next(_parsed([entry]), None)

    def latest(self) -> list[HealthEntry]:
        """The last look at each table, in one scan."""
        return list(self.each_latest())

    def each_latest(self) -> Iterator[HealthEntry]:
        """The same one by one: a lake may have more tables than are worth holding at a time."""
        return _parsed(self.entries.scan(keys.prefix(LATEST)))


def _parsed(stored: Iterable[StoreEntry]) -> Iterator[HealthEntry]:
    """The entries that this version can read."""
    unreadable = 0
    for row in stored:
        try:
            entry = HealthEntry.model_validate_json(row.value)
        except pydantic.ValidationError:
            unreadable += 1
        else:
            yield entry
    if unreadable:
        _log.warning("Entries of the run store on the health of tables are unreadable and ignored: %d.", unreadable)
