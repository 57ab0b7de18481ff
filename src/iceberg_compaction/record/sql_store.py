"""Runs in a SQLite file, the default store: no server, safe for several processes on one machine. Records come in after
a run, lists of them go out to `history`; runs under way are in the journal, until they have ended in order. Rows that
this version cannot read are those of a newer one: they are passed over with a word, and left as they are."""

from __future__ import annotations

import contextlib
import itertools
import logging
import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any, TypeVar

import pydantic

from iceberg_compaction import errors
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import Attempt, RunRecord, RunStart, UnfinishedRun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

T = TypeVar("T")
_log = logging.getLogger(__name__)
_told: set[tuple[Path, str]] = set()  # rows that cannot be read are told once

_SCHEMA = """
create table if not exists runs (
  run_id text primary key,
  table_name text not null,
  kind text not null,
  started_ms integer not null,
  finished_ms integer not null,
  record text not null
);
create index if not exists runs_by_start on runs (started_ms);
create table if not exists journal (
  run_id text primary key,
  table_uuid text not null,
  start text not null,
  seen_ms integer not null,
  ended integer not null default 0,
  attempt text,
  settled_ms integer
);
create index if not exists journal_by_table on journal (table_uuid);
"""
_EFFORTS = """
select run_id, json_extract(record, '$.outcome.effort.copied_bytes') as copied_bytes,
  json_extract(record, '$.outcome.effort.copy_seconds') as copy_seconds,
  json_extract(record, '$.outcome.effort.encoded_bytes') as encoded_bytes,
  json_extract(record, '$.outcome.effort.encode_seconds') as encode_seconds
from (
  select run_id, table_name, started_ms, case when json_valid(record) then record else '{{}}' end as record from runs
) where table_name {sign} ? and copied_bytes + encoded_bytes > 0
order by started_ms desc, run_id limit ?
"""
_BUSY_S = 30  # others hold the file for milliseconds
# A run that was taken for dead may yet wake up, and is told why it must not go on.
_REMEMBER_SETTLED_MS = 30 * 24 * 3600 * 1000
_TAKEN_OVER = 2  # of `ended`: not the run itself has said so, and it cannot take it back
_JOURNAL = "select run_id, start, seen_ms, ended, attempt from journal"


class SqlStore:
    """Opens its file for every call, so that no handle outlives a fork or a crash. Every change is one transaction."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def save(self, record: RunRecord) -> None:
        """Remember a run; saving the same run again replaces it."""
        row = (
            record.run_id,
            record.table,
            record.outcome.kind.value,
            record.started_ms,
            record.finished_ms,
            record.model_dump_json(),
        )
        names = "run_id, table_name, kind, started_ms, finished_ms, record"
        self._write(f"insert or replace into runs ({names}) values (?, ?, ?, ?, ?, ?)", row)

    def history(self, table: str | None = None, limit: int = 50) -> list[RunRecord]:
        """The newest runs first, of one table or of all."""
        query = "select run_id, record from runs where ? is null or table_name = ? order by started_ms desc, run_id"
        rows = self._each(query, (table, table))
        return list(itertools.islice(self._readable(rows, lambda row: RunRecord.model_validate_json(row[1])), limit))

    def efforts(self, table: str, limit: int = 20) -> tuple[list[Effort], list[Effort]]:
        """What the newest runs took to copy and to encode: on this table, and on others."""
        own, others = (self._read(_EFFORTS.format(sign=sign), (table, limit)) for sign in ("=", "<>"))
        return list(self._readable(own, _effort)), list(self._readable(others, _effort))

    def begin(self, start: RunStart) -> bool:
        """A run is about to write files. False: it goes on after it has left something behind."""
        row = (start.run_id, start.table_uuid, start.model_dump_json(), start.started_ms)
        if self._write("insert or ignore into journal (run_id, table_uuid, start, seen_ms) values (?, ?, ?, ?)", row):
            # Whatever becomes of others, this run is in the journal, and has to know that.
            with contextlib.suppress(errors.StoreError):
                self._forget(start.started_ms - _REMEMBER_SETTLED_MS)
            return True
        again = "update journal set ended = 0, seen_ms = ? where run_id = ? and settled_ms is null and ended < ?"
        self._write(again, (start.started_ms, start.run_id, _TAKEN_OVER))
        return False

    def heartbeat(self, run_id: str, now_ms: int) -> None:
        """The run is still at work."""
        self._write("update journal set seen_ms = ? where run_id = ?", (now_ms, run_id))

    def publishing(self, run_id: str, attempt: Attempt) -> bool:
        """A snapshot of the run is about to be published. False: it must not be, for the run was taken for dead, or
        nobody knows of it here any more (R49)."""
        change = "update journal set attempt = ?, seen_ms = ? where run_id = ? and not ended"
        return bool(self._write(change, (attempt.model_dump_json(), attempt.at_ms, run_id)))

    def committed(self, run_id: str, attempt: Attempt) -> None:
        """The attempt has landed, as it says itself by now."""
        self._write("update journal set attempt = ? where run_id = ?", (attempt.model_dump_json(), run_id))

    def attempt(self, run_id: str) -> Attempt | None:
        """The last snapshot that the run was about to publish."""
        return next((run.attempt for run in self._runs("where run_id = ?", run_id)), None)

    def end(self, run_id: str, now_ms: int) -> None:
        """The run has ended and may have left something behind."""
        self._write("update journal set ended = max(ended, 1), seen_ms = ? where run_id = ?", (now_ms, run_id))

    def take_over(self, run: UnfinishedRun) -> UnfinishedRun | None:
        """The run is taken for dead: it may publish nothing from now on but what it has written down by now, and that
        is in the answer. None: it has just given a sign of life."""
        change = "update journal set ended = ? where run_id = ? and seen_ms = ? and settled_ms is null"
        if not self._write(change, (_TAKEN_OVER, run.start.run_id, run.heartbeat_ms)):
            return None
        return next(iter(self._runs("where run_id = ?", run.start.run_id)), None)

    def finish(self, run_id: str) -> None:
        """The run has ended and left nothing behind."""
        self._write("delete from journal where run_id = ?", (run_id,))

    def mark_recovered(self, run_id: str, now_ms: int) -> None:
        """What the run left behind is removed, and it will never publish anything."""
        self._write("update journal set settled_ms = ? where run_id = ?", (now_ms, run_id))

    def unfinished(self, table_uuid: str) -> list[UnfinishedRun]:
        """The runs on a table that are under way, have crashed, or may have left something behind; oldest first."""
        return self._runs("where table_uuid = ? and settled_ms is null order by rowid", table_uuid)

    def _runs(self, which: str, value: str) -> list[UnfinishedRun]:
        return list(self._readable(self._read(f"{_JOURNAL} {which}", (value,)), _unfinished))

    def _forget(self, before_ms: int) -> None:
        """Strike out what was settled long ago, if it is of a version that is known."""
        settled = self._read(f"{_JOURNAL} where settled_ms < ?", (before_ms,))
        for run in self._readable(settled, _unfinished):
            self._write("delete from journal where run_id = ?", (run.start.run_id,))

    def _readable(self, rows: Iterable[tuple[Any, ...]], read: Callable[[tuple[Any, ...]], T]) -> Iterator[T]:
        """What is made of the rows, without those that cannot be read. The first column is the run's id."""
        for row in rows:
            try:
                yield read(row)
            except pydantic.ValidationError:
                if (self.path, row[0]) not in _told:
                    _told.add((self.path, row[0]))
                    _log.warning(
                        "Run %s in the run store %s is passed over: a newer version may have written it.",
                        row[0],
                        self.path,
                    )

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_BUSY_S)
        connection.text_factory = lambda data: data.decode(errors="replace")  # a damaged row is no damaged store
        try:
            connection.executescript(_SCHEMA)
        except BaseException:
            connection.close()
            raise
        return connection

    def _write(self, statement: str, values: Sequence[Any]) -> int:
        """The number of rows that were changed."""
        try:
            with closing(self._connect()) as connection, connection:
                return connection.execute(statement, values).rowcount
        except (OSError, sqlite3.Error) as error:
            raise errors.StoreError(
                f"The run store {self.path} cannot be written: {error}; check this file or choose another one."
            ) from error

    def _read(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        return list(self._each(query, values))

    def _each(self, query: str, values: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
        try:
            if not self.path.exists():
                return  # reading creates nothing
            with closing(self._connect()) as connection:
                yield from connection.execute(query, values)
        except (OSError, sqlite3.Error) as error:
            raise errors.StoreError(
                f"The run store {self.path} cannot be read: {error}; check this file or choose another one."
            ) from error


def _unfinished(row: Sequence[Any]) -> UnfinishedRun:
    _, start, heartbeat_ms, ended, attempt = row
    return UnfinishedRun(
        start=RunStart.model_validate_json(start),
        heartbeat_ms=heartbeat_ms,
        ended=bool(ended),
        taken_over=ended == _TAKEN_OVER,
        attempt=None if attempt is None else Attempt.model_validate_json(attempt),
    )


def _effort(row: Sequence[Any]) -> Effort:
    return Effort(copied_bytes=row[1], copy_seconds=row[2], encoded_bytes=row[3], encode_seconds=row[4])
