"""Runs of a store by table, outcome and time, and runs that have not ended. The history lists each run under its
table's name, so that a pattern of names reads the list and not the runs."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import table_names
from iceberg_compaction.model.run_listing import RunState, UnfinishedListing
from iceberg_compaction.record import processes
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.outcome import Kind
    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore

_BY_TABLE = "runs-by-table"
_PLAIN = re.compile(r"[A-Za-z0-9_.-]*")  # characters that a key has as they are
_AT_ONCE = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryFilter:
    """Which runs. Empty means all."""

    tables: tuple[str, ...] = ()  # names and patterns
    kinds: frozenset[Kind] = frozenset()
    since_ms: int | None = None  # both ends included
    until_ms: int | None = None
    limit: int = 50

    def has_table(self, table: str) -> bool:
        return not self.tables or any(table_names.matches(table, pattern) for pattern in self.tables)

    def has_time(self, started_ms: int) -> bool:
        return (self.since_ms is None or started_ms >= self.since_ms) and (
            self.until_ms is None or started_ms <= self.until_ms
        )


def select(store: RunStore, wanted: HistoryFilter) -> list[RunRecord]:
    """The newest runs that fit, the newest first."""
    if not any(table_names.is_pattern(table) for table in wanted.tables):
        return _by_name(store, wanted)
    records: list[RunRecord] = []
    for run_id in _listed(store, wanted):
        record = store.run(run_id)
        if record is not None and (not wanted.kinds or record.outcome.kind in wanted.kinds):
            records.append(record)
        if len(records) == wanted.limit:
            break
    return records


def unfinished(store: RunStore, wanted: HistoryFilter, now_ms: int) -> list[UnfinishedListing]:
    """The runs without an end in the history: those at work, and those that died; the newest first. A run that has
    both an end and files to remove is in the history."""
    runs = [
        run for run in store.unfinished() if wanted.has_table(run.start.table) and wanted.has_time(run.start.started_ms)
    ]
    listed = [listing(run, now_ms) for run in runs if store.run(run.start.run_id) is None]
    return sorted(listed, key=lambda run: run.started_ms, reverse=True)


def is_over(run: UnfinishedRun, silent_ms: int) -> bool:
    """Whether a run has ended, as it looks: the operating system answers for its own machine, and a run on another one
    is over after two heartbeats of silence. Nobody may remove anything because of this; see `silence`."""
    if run.ended:
        return True
    alive = processes.is_alive(run.start.process)
    return silent_ms >= run.start.silent_ms if alive is None else not alive


def listing(run: UnfinishedRun, now_ms: int, silent_ms: int | None = None) -> UnfinishedListing:
    """An unfinished run in words. `silent_ms`: how long it has been silent, by default by its own clock."""
    start = run.start
    has_ended = is_over(run, now_ms - run.heartbeat_ms if silent_ms is None else silent_ms)
    machine = start.process.host.partition("/")[0]
    if run.taken_over:
        sentence = "The run ended without an outcome, and another run took over its work."
    elif has_ended:
        sentence = (
            "The run ended without an outcome. The next run on the table takes over its work; `resume` does it now."
        )
    else:
        sentence = f"The run is at work in process {start.process.pid} of {machine}."
    return UnfinishedListing(
        run_id=start.run_id,
        table=start.table,
        started_ms=start.started_ms,
        heartbeat_ms=run.heartbeat_ms,
        state=RunState.STOPPED if has_ended else RunState.RUNNING,
        machine=machine,
        process=start.process.pid,
        sentence=sentence,
        command=f"iceberg-compact resume {start.run_id}" if has_ended and not run.taken_over else None,
    )


def _by_name(store: RunStore, wanted: HistoryFilter) -> list[RunRecord]:
    """By the lists that the store has for a table and a kind."""
    records = [
        record
        for table in dict.fromkeys(wanted.tables or (None,))
        for kind in wanted.kinds or (None,)
        for record in store.history(table, kind, wanted.since_ms, wanted.until_ms, wanted.limit)
    ]
    return sorted(records, key=lambda record: record.started_ms, reverse=True)[: wanted.limit]


def _listed(store: RunStore, wanted: HistoryFilter) -> Iterator[str]:
    """The ids of runs whose table and time fit, the newest first."""
    runs = set()
    for pattern in wanted.tables:
        literal = re.split(r"[*?\[\"`]", pattern.strip(), maxsplit=1)[0]
        beginning = literal if _PLAIN.fullmatch(literal) else ""
        for entry in store.entries.scan(keys.key(_BY_TABLE, beginning)):
            _, table, when, run_id = keys.words(entry.key)
            started_ms = keys.newest_first(int(when))
            if wanted.has_time(started_ms) and table_names.matches(table, pattern):
                runs.add((int(when), run_id))
    return (run_id for _, run_id in sorted(runs))
