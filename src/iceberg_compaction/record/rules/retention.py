"""Old entries leave the store: runs of the history with their events, events alone, and looks at the health of tables.
A run that begins removes a few of them, every ten minutes at most. The journal is not touched: what a run that is not
recovered has left is known from there alone."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.value import Value
from iceberg_compaction.record import event_log, health_log
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.record.entries import door, keys
from iceberg_compaction.record.rules import run_rows
from iceberg_compaction.record.service import audit_log

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.retention_periods import RetentionPeriods
    from iceberg_compaction.record.entries.door import StoreEntries

KEY = "meta/retention"
EVERY_MS = 10 * 60_000
_RUNS = 100  # at a time
_TABLES = 50
_EVENTS = 10_000
_STRAYS = door.MOST_KEYS // 2  # runs with events, which are looked up at once in the history and the journal


class RetentionState(Value):
    """How far the removal has come."""

    model_config = pydantic.ConfigDict(extra="ignore")

    at_ms: int = 0  # the last time
    events_until_ms: int = 0  # runs that began before have no events any more
    table: str = ""  # the last table whose looks were examined, as a key
    stray: str = ""  # the last run whose events were examined


@dataclass(slots=True)
class Removal:
    """One removal of old entries, whose work is bounded."""

    entries: StoreEntries
    periods: RetentionPeriods
    now_ms: int
    _events_left: int = _EVENTS

    def perform(self) -> None:
        """Remove some of what is too old, unless this was done a short time ago. StoreError: not all was done."""
        entry = self.entries.get([KEY]).get(KEY)
        state = RetentionState() if entry is None else _parsed(entry.value)
        if self.now_ms - state.at_ms < EVERY_MS:
            return
        state = state.model_copy(update={"at_ms": self.now_ms})
        if not self.entries.change({KEY: state.model_dump_json()}, {KEY: None if entry is None else entry.version}):
            return  # another run does it
        checkpoints.remove_old(self.entries, self.now_ms - self.periods.checkpoints_ms, self._is_entered)
        self._remove_runs()
        audit_log.remove_before(self.entries, self.now_ms - self.periods.history_ms)
        done: dict[str, int | str] = {"events_until_ms": self._remove_old_events(state.events_until_ms)}
        done |= {"table": self._remove_looks(state), "stray": self._remove_strays(state.stray)}
        self.entries.change({KEY: state.model_copy(update=done).model_dump_json()})

    def _is_entered(self, run_id: str) -> bool:
        """Whether a run is in the journal."""
        key = keys.key("journal", run_id)
        return key in self.entries.get([key])

    def _remove_runs(self) -> None:
        last = keys.key("runs", keys.newest_first(self.now_ms - self.periods.history_ms))
        for entry in self.entries.scan(keys.prefix("runs"), after=last, limit=_RUNS):
            run_id = keys.words(entry.key)[-1]
            if not self._remove_events(run_id):
                return
            key = keys.key("run", run_id)
            record = self.entries.get([key]).get(key)
            gone = [entry.key] if record is None else run_rows.history_keys(run_id, _row(record.value))
            self.entries.change(dict.fromkeys(gone), {key: None if record is None else record.version})

    def _remove_old_events(self, until_ms: int) -> int:
        """Remove the events of runs from this time on; return the time that was reached."""
        last = keys.key("runs", keys.newest_first(until_ms)) if until_ms else ""
        for entry in self.entries.scan(keys.prefix("runs"), after=last, limit=_RUNS, reverse=True):
            _, when, run_id = keys.words(entry.key)
            started_ms = keys.newest_first(int(when))
            if started_ms >= self.now_ms - self.periods.events_ms or not self._remove_events(run_id):
                break
            until_ms = started_ms
        return until_ms

    def _remove_strays(self, last: str) -> str:
        """Remove old events of some runs that are neither in the history nor in the journal: they died before they were
        entered, or were recovered long ago. Return the last of these runs, empty if there are no more."""
        first_events = dict(itertools.islice(self._first_events(last), _STRAYS))
        names = {run_id: (keys.key("run", run_id), keys.key("journal", run_id)) for run_id in first_events}
        entered = self.entries.get([key for pair in names.values() for key in pair])
        for run_id, at_ms in first_events.items():
            is_old = at_ms < self.now_ms - self.periods.events_ms
            if is_old and entered.keys().isdisjoint(names[run_id]) and not self._remove_events(run_id):
                return last
            last = run_id
        return last if len(first_events) == _STRAYS else ""

    def _first_events(self, run_id: str) -> Iterator[tuple[str, int]]:
        """The runs after this one that have events, each with the time of the first."""
        after = keys.prefix(event_log.EVENT, run_id) + "~" if run_id else ""  # after all keys that begin so
        while page := self.entries.scan(keys.prefix(event_log.EVENT), after=after, limit=1):
            run_id = keys.words(page[0].key)[1]
            yield run_id, event_log.moment(page[0])
            after = keys.prefix(event_log.EVENT, run_id) + "~"

    def _remove_looks(self, state: RetentionState) -> str:
        """Remove old looks at some tables; return the last of these tables, empty if there are no more."""
        tables = self.entries.scan(keys.prefix(health_log.LATEST), after=state.table, limit=_TABLES)
        for entry in tables:
            prefix = keys.prefix(health_log.HEALTH, *keys.words(entry.key)[1:])
            last = prefix + keys.key(keys.newest_first(self.now_ms - self.periods.health_ms))
            looks = self.entries.scan(prefix, after=last, limit=door.MOST_KEYS)
            if looks:
                self.entries.change(dict.fromkeys(look.key for look in looks))
        return tables[-1].key if len(tables) == _TABLES else ""

    def _remove_events(self, run_id: str) -> bool:
        """Remove the events of a run. False: it has too many for this time."""
        for names in self._events(run_id):
            self.entries.change(dict.fromkeys(names))
            self._events_left -= len(names)
            if self._events_left <= 0:
                return False
        return True

    def _events(self, run_id: str) -> Iterator[list[str]]:
        while listed := self.entries.scan(keys.prefix(event_log.EVENT, run_id), limit=door.MOST_KEYS - 1):
            yield [*(entry.key for entry in listed), keys.key(event_log.PROGRESS, run_id)]


def _parsed(text: str) -> RetentionState:
    try:
        return RetentionState.model_validate_json(text)
    except pydantic.ValidationError:
        return RetentionState()


def _row(text: str) -> run_rows.HistoryRow:
    return run_rows.HistoryRow.model_validate_json(text)
