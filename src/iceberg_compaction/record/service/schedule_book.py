"""What the scheduler knows of tables, in the run store, so that any process can lead: a watch for each table, notices
of writers, and pauses. What the leader writes expects its own entry (`leadership`), so that of two only one can."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model import table_names
from iceberg_compaction.model.table_schedule import SchedulePause, TableWatch
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from iceberg_compaction.record.entries.door import StoreEntries

_WATCH, _NOTICE, _PAUSE = "schedule", "schedule-notice", "schedule-pause"
_AT_ONCE = 90
_MOST_NOTICES = 1000  # that are taken at a time


@dataclass(frozen=True, slots=True)
class ScheduleBook:
    """The entries of the scheduler."""

    entries: StoreEntries

    def watches(self, catalog: str) -> dict[str, TableWatch]:
        """All tables of a catalog. One that this version cannot read is as new."""
        watches = {}
        for entry in self.entries.scan(keys.prefix(_WATCH, catalog)):
            try:
                watch = TableWatch.model_validate_json(entry.value)
            except pydantic.ValidationError:
                continue
            watches[watch.table] = watch
        return watches

    def watch(self, catalog: str, table: str) -> TableWatch | None:
        """What is known of one table."""
        key = keys.key(_WATCH, catalog, table)
        entry = self.entries.get([key]).get(key)
        try:
            return None if entry is None else TableWatch.model_validate_json(entry.value)
        except pydantic.ValidationError:
            return None

    def properties(self, catalog: str, table: str) -> Mapping[str, str]:
        """The properties of a table at its last look; none if there was no look."""
        watch = self.watch(catalog, table)
        return {} if watch is None else watch.properties

    def save(
        self, catalog: str, watches: Iterable[TableWatch], gone: Collection[str], fence: Mapping[str, int]
    ) -> bool:
        """Write watches, and forget tables that are gone. False: somebody else leads, and not all was written."""
        values: dict[str, str | None] = {
            keys.key(_WATCH, catalog, watch.table): watch.model_dump_json(exclude_defaults=True) for watch in watches
        }
        values |= {keys.key(_WATCH, catalog, table): None for table in gone}
        names = list(values)
        return all(
            self.entries.change({name: values[name] for name in names[at : at + _AT_ONCE]}, fence)
            for at in range(0, len(names), _AT_ONCE)
        )

    def notify(self, catalog: str, table: str) -> None:
        """A writer says that a table has changed."""
        self.entries.change({keys.key(_NOTICE, catalog, table): ""})

    def take_notices(self, catalog: str) -> list[str]:
        """The tables that writers told of, which are forgotten here. Whoever takes them looks at the tables after
        that, so that a notice that comes meanwhile is not lost."""
        listed = self.entries.scan(keys.prefix(_NOTICE, catalog), limit=_MOST_NOTICES)
        for at in range(0, len(listed), _AT_ONCE):
            self.entries.change(dict.fromkeys(entry.key for entry in listed[at : at + _AT_ONCE]))
        return [keys.words(entry.key)[-1] for entry in listed]

    def pause(self, pause: SchedulePause) -> None:
        """Pause the schedules of tables; one of the same pattern is replaced."""
        self.entries.change({_pause_key(pause.pattern, pause.catalog): pause.model_dump_json()})

    def resume(self, pattern: str, catalog: str | None = None) -> bool:
        """End a pause. False: there is none of this pattern."""
        key = _pause_key(pattern, catalog)
        return key in self.entries.get([key]) and self.entries.change({key: None})

    def pauses(self) -> list[SchedulePause]:
        """All pauses."""
        pauses = []
        for entry in self.entries.scan(keys.prefix(_PAUSE)):
            try:
                pauses.append(SchedulePause.model_validate_json(entry.value))
            except pydantic.ValidationError:  # a newer version wrote it
                continue
        return pauses


def paused_by(pauses: Iterable[SchedulePause], catalog: str, table: str) -> SchedulePause | None:
    """The pause that a table has; None: none."""
    for pause in pauses:
        if pause.catalog in (None, catalog) and _fits(table, pause.pattern):
            return pause
    return None


def _fits(table: str, pattern: str) -> bool:
    """A namespace is a pattern as well."""
    return table_names.matches(table, pattern) or table_names.matches(table, f"{pattern}.*")


def _pause_key(pattern: str, catalog: str | None) -> str:
    return keys.key(_PAUSE, catalog or "", pattern)
