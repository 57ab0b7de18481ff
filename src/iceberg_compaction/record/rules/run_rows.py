"""Runs as entries of a store. A row has the facts that the store searches for, beside the text of the value itself: a
value that this version cannot read, because a newer one wrote it or it is damaged, still has its facts."""

from __future__ import annotations

import base64
import zlib
from typing import TYPE_CHECKING

import pydantic

from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.record.entries import keys

if TYPE_CHECKING:
    from iceberg_compaction.model.run_record import RunRecord

# Values of `ended`.
RUNNING, ENDED = 0, 1
TAKEN_OVER = 2  # another run has declared it dead, and it cannot take that back

_LONG = 8 * 1024  # characters; longer text is kept smaller
_SMALLER = "zlib:"


class _Row(pydantic.BaseModel):
    """Fields that a newer version added are kept."""

    model_config = pydantic.ConfigDict(frozen=True, extra="allow")


class HistoryRow(_Row):
    """A run of the history."""

    table: str
    kind: str
    started_ms: int
    finished_ms: int
    record: str  # RunRecord


class JournalRow(_Row):
    """A run of the journal; its RunStart is an entry of its own, because it is long and does not change."""

    table_uuid: str
    heartbeat_ms: int
    ended: int = RUNNING
    attempt: str | None = None  # Attempt, the last one
    recovered_ms: int | None = None


HISTORY_FACTS = ("table", "kind", "started_ms", "finished_ms")
JOURNAL_FACTS = ("table_uuid", "heartbeat_ms", "ended", "attempt", "recovered_ms")


class _OutcomeWithEffort(pydantic.BaseModel):
    effort: Effort = Effort()


class _RecordWithEffort(pydantic.BaseModel):
    """The part of a RunRecord that plans need. A record may list a thousand groups, which take long to validate."""

    outcome: _OutcomeWithEffort


def history_row(record: RunRecord) -> HistoryRow:
    """The row of a run of the history."""
    return HistoryRow(
        table=record.table,
        kind=record.outcome.kind.value,
        started_ms=record.started_ms,
        finished_ms=record.finished_ms,
        record=record.model_dump_json(),
    )


def history_entries(run_id: str, row: HistoryRow) -> dict[str, str]:
    """All entries of a run of the history: the record, and its place in each order that it is searched in."""
    text = row.model_copy(update={"record": pack(row.record)}).model_dump_json()
    entries = {keys.key("run", run_id): text, keys.key("tables", row.table): "", **_orders(run_id, row)}
    try:
        effort = _RecordWithEffort.model_validate_json(row.record).outcome.effort
    except pydantic.ValidationError:
        return entries
    if effort.bytes > 0:
        entries |= dict.fromkeys(_work(run_id, row), effort.model_dump_json())
    return entries


def history_keys(run_id: str, row: HistoryRow) -> list[str]:
    """The keys of all entries that the run may have."""
    return [keys.key("run", run_id), *_orders(run_id, row), *_work(run_id, row)]


def _orders(run_id: str, row: HistoryRow) -> dict[str, str]:
    """The run's place in each order. Where the key does not name the table, the value does: a search for many tables
    reads the list and not the runs."""
    when = (keys.newest_first(row.started_ms), run_id)
    return {
        keys.key("runs", *when): row.table,
        keys.key("runs-by-table", row.table, *when): "",
        keys.key("runs-by-kind", row.kind, *when): row.table,
        keys.key("runs-by-table-and-kind", row.table, row.kind, *when): "",
    }


def _work(run_id: str, row: HistoryRow) -> list[str]:
    when = (keys.newest_first(row.started_ms), run_id)
    return [keys.key("efforts", *when, row.table), keys.key("efforts-by-table", row.table, *when)]


def order_prefix(table: str | None, kind: str | None) -> str:
    """The prefix of the entries that list the runs of a table, of a kind, of both or of none, the newest first."""
    match table, kind:
        case None, None:
            return keys.prefix("runs")
        case None, str():
            return keys.prefix("runs-by-kind", kind)
        case str(), None:
            return keys.prefix("runs-by-table", table)
        case _:
            return keys.prefix("runs-by-table-and-kind", str(table), str(kind))


def journal_entries(run_id: str, row: JournalRow, start: str) -> dict[str, str]:
    """All entries of a run of the journal."""
    return {
        keys.key("journal", run_id): row.model_dump_json(),
        keys.key("start", run_id): pack(start),
        journal_place(run_id, row): "",
    }


def journal_keys(run_id: str, row: JournalRow) -> list[str]:
    """The keys of all entries of a run of the journal."""
    return [keys.key("journal", run_id), keys.key("start", run_id), journal_place(run_id, row)]


def journal_place(run_id: str, row: JournalRow) -> str:
    """The key by which the run is found: among those of its table, or among those that are recovered."""
    if row.recovered_ms is None:
        return keys.key("unfinished", row.table_uuid, run_id)
    return keys.key("recovered", row.recovered_ms, run_id)


def pack(text: str) -> str:
    """The text, made smaller if it is long: a thousand groups or partitions are much the same."""
    if len(text) < _LONG and not text.startswith(_SMALLER):
        return text
    return _SMALLER + base64.b85encode(zlib.compress(text.encode())).decode()


def unpack(text: str) -> str:
    """The text as it was before `pack`. ValueError: it is damaged."""
    if not text.startswith(_SMALLER):
        return text
    try:
        return zlib.decompress(base64.b85decode(text.removeprefix(_SMALLER))).decode()
    except zlib.error as error:
        raise ValueError(str(error)) from error
