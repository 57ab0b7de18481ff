"""Runs of a store by table, outcome and time, and runs that have not ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import table_names
from iceberg_compaction.model.run_listing import RunState, UnfinishedListing
from iceberg_compaction.record import processes
from iceberg_compaction.record.checkpoint import checkpoints

if TYPE_CHECKING:
    from iceberg_compaction.model.outcome import Kind
    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore


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
    tables = _tables(store, wanted)
    records = [record for kind in wanted.kinds or (None,) for record in _of_kind(store, wanted, tables, kind)]
    return sorted(records, key=lambda record: record.started_ms, reverse=True)[: wanted.limit]


def unfinished(store: RunStore, wanted: HistoryFilter, now_ms: int) -> list[UnfinishedListing]:
    """The runs without an end in the history: those at work, and those that died; the newest first. A run that has
    both an end and files to remove is in the history."""
    runs = [
        run for run in store.unfinished() if wanted.has_table(run.start.table) and wanted.has_time(run.start.started_ms)
    ]
    listed = [listing(run, store, now_ms) for run in runs if store.run(run.start.run_id) is None]
    return sorted(listed, key=lambda run: run.started_ms, reverse=True)


def is_over(run: UnfinishedRun, silent_ms: int) -> bool:
    """Whether a run has ended, as it looks: the operating system answers for its own machine, and a run on another one
    is over after two heartbeats of silence. Nobody may remove anything because of this; see `silence`."""
    if run.ended:
        return True
    alive = processes.is_alive(run.start.process)
    return silent_ms >= run.start.silent_ms if alive is None else not alive


def _can_resume(store: RunStore, run: UnfinishedRun) -> bool:
    """Whether there is a checkpoint of the run."""
    heads = checkpoints.Checkpoints(store.entries).heads(run.start.table_uuid)
    return any(run.start.run_id in held.head.writers for held in heads)


def listing(run: UnfinishedRun, store: RunStore, now_ms: int, silent_ms: int | None = None) -> UnfinishedListing:
    """An unfinished run in words. `silent_ms`: how long it has been silent, by default by its own clock."""
    start = run.start
    has_ended = is_over(run, now_ms - run.heartbeat_ms if silent_ms is None else silent_ms)
    machine = start.process.host.partition("/")[0]
    can_resume = has_ended and not run.taken_over and _can_resume(store, run)
    if run.taken_over:
        sentence = "The run ended without an outcome, and another run took over its work."
    elif can_resume:
        sentence = (
            "The run ended without an outcome. The next run on the table takes over its work; `resume` does it now."
        )
    elif has_ended:
        sentence = (
            "The run ended without an outcome and left nothing to resume. Its commits stay; the next run on the table "
            "removes its other files."
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
        command=f"iceberg-compact resume {start.run_id}" if can_resume else None,
    )


def _of_kind(store: RunStore, wanted: HistoryFilter, tables: list[str] | None, kind: Kind | None) -> list[RunRecord]:
    if tables is None:
        return store.history(None, kind, wanted.since_ms, wanted.until_ms, wanted.limit)
    return store.history_of(tables, kind, wanted.since_ms, wanted.until_ms, wanted.limit)


def _tables(store: RunStore, wanted: HistoryFilter) -> list[str] | None:
    """The tables that names and patterns mean; None: all."""
    if not wanted.tables:
        return None
    patterns = [name for name in wanted.tables if table_names.is_pattern(name)]
    meant = [name for name in wanted.tables if name not in patterns]
    if patterns:
        meant += [table for table in store.tables() if any(table_names.matches(table, each) for each in patterns)]
    return list(dict.fromkeys(meant))
