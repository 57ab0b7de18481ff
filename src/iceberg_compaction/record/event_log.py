"""The events of runs in the store, each with its time, so that other processes can watch a run and reports can tell its
story. Progress events replace one another: a run has one latest progress."""

from __future__ import annotations

import functools
import json
import logging
import sys
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeVar

import pydantic

from iceberg_compaction.model import events
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event, LatestProgress, LoggedEvent
    from iceberg_compaction.record.entries.door import StoreEntries, StoreEntry
    from iceberg_compaction.record.outbox import Outbox

EVENT, PROGRESS = "event", "progress"
PROGRESS_MS = 500  # between two entries of progress
MOST = {"group-failed": 1000, "task-ended": 10_000}  # of one run; later ones are not kept
_log = logging.getLogger(__name__)
_T = TypeVar("_T", bound=pydantic.BaseModel)


@dataclass(slots=True, kw_only=True)
class EventWriter:
    """The events of one run on their way to the store. Any thread may put them in."""

    outbox: Outbox
    run_id: str
    _number: int = 0
    _kinds: Counter[str] = field(default_factory=Counter)
    _progress: LatestProgress | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def put(self, event: Event, at_ms: int) -> None:
        """Write the event soon."""
        with self._lock:
            if isinstance(event, events.Rewriting | events.Comparing):
                self._put_progress(event, at_ms)
                return
            self._kinds[event.kind] += 1
            if self._kinds[event.kind] > MOST.get(event.kind, sys.maxsize):
                return
            self._put(event, at_ms)

    def _put(self, event: Event, at_ms: int) -> None:
        self.outbox.put_later(functools.partial(_logged, event, at_ms, self.run_id, self._number))
        self._number += 1

    def _put_progress(self, event: events.Rewriting | events.Comparing, at_ms: int) -> None:
        """Replace the progress, about twice a second. The first one of a plan is an event as well: a stage begins."""
        last = self._progress
        if last is None or last.event.bytes_total != event.bytes_total:
            self._put(event, at_ms)
            last = None
        is_done = event.bytes_done >= event.bytes_total
        if last is None or is_done or at_ms - last.at_ms >= PROGRESS_MS:
            since_ms = at_ms if last is None else last.since_ms
            self._progress = events.LatestProgress(at_ms=at_ms, since_ms=since_ms, event=event)
            self.outbox.put_later(functools.partial(_latest, self._progress, self.run_id))


def _logged(event: Event, at_ms: int, run_id: str, number: int) -> dict[str, str]:
    if isinstance(event, events.Finished):  # the history has the rest
        outcome = event.outcome.model_copy(update={"group_outcomes": (), "proof": None})
        event = event.model_copy(update={"outcome": outcome})
    logged = events.LoggedEvent(number=number, at_ms=at_ms, event=event)
    return {keys.key(EVENT, run_id, number): logged.model_dump_json()}


def _latest(progress: LatestProgress, run_id: str) -> dict[str, str]:
    return {keys.key(PROGRESS, run_id): progress.model_dump_json()}


@dataclass(frozen=True, slots=True, kw_only=True)
class EventLog:
    """The events in a store, to be read."""

    entries: StoreEntries

    def events(self, run_id: str, *, after: int = -1) -> list[LoggedEvent]:
        """The events of a run with higher numbers than `after`, in order."""
        last = "" if after < 0 else keys.key(EVENT, run_id, after)
        rows = self.entries.scan(keys.prefix(EVENT, run_id), after=last)
        return [event for row in rows if (event := _parsed(row, events.LoggedEvent)) is not None]

    def progress(self, run_id: str) -> LatestProgress | None:
        """The last progress of a run; None: it has rewritten nothing so far."""
        key = keys.key(PROGRESS, run_id)
        row = self.entries.get([key]).get(key)
        return None if row is None else _parsed(row, events.LatestProgress)


def moment(row: StoreEntry) -> int:
    """The time of an event, in milliseconds; that of the epoch if the entry is damaged."""
    try:
        return int(json.loads(row.value)["at_ms"])
    except (ValueError, KeyError, TypeError):
        return 0


def _parsed(row: StoreEntry, kind: type[_T]) -> _T | None:
    try:
        return kind.model_validate_json(row.value)
    except pydantic.ValidationError:
        _log.warning("The entry %s of the run store is unreadable and ignored.", row.key)
        return None
