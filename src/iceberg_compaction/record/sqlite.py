"""Runs in a SQLite file, the default store: no server, safe for several processes on one machine. Records come in after
a run, lists of them go out to `history`; runs under way are in the journal, until they have ended in order."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model.record import Attempt, RunRecord, RunStart, UnfinishedRun
from iceberg_compaction.model.task import Effort

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

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
select json_extract(record, '$.outcome.effort.copied_bytes') as copied_bytes,
  json_extract(record, '$.outcome.effort.copy_seconds') as copy_seconds,
  json_extract(record, '$.outcome.effort.encoded_bytes') as encoded_bytes,
  json_extract(record, '$.outcome.effort.encode_seconds') as encode_seconds
from runs where table_name {sign} ? and copied_bytes + encoded_bytes > 0
order by started_ms desc, run_id limit ?
"""
_BUSY_S = 30  # others hold the file for milliseconds
# A run that was taken for dead may yet wake up, and must find that its files are gone.
_REMEMBER_SETTLED_MS = 30 * 24 * 3600 * 1000


class RunStore:
    """Opens its file for every call, so that no handle outlives a fork or a crash. Every call is one transaction."""

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
        self._write("insert or replace into runs values (?, ?, ?, ?, ?, ?)", row)

    def history(self, table: str | None = None, limit: int = 50) -> list[RunRecord]:
        """The newest runs first, of one table or of all."""
        query = "select record from runs where ? is null or table_name = ? order by started_ms desc, run_id limit ?"
        return [RunRecord.model_validate_json(text) for (text,) in self._read(query, (table, table, limit))]

    def efforts(self, table: str, limit: int = 20) -> tuple[list[Effort], list[Effort]]:
        """What the newest runs took to copy and to encode: on this table, and on others. Makes no store of none."""
        if not self.path.exists():
            return [], []
        own, others = (self._read(_EFFORTS.format(sign=sign), (table, limit)) for sign in ("=", "<>"))
        return [_effort(row) for row in own], [_effort(row) for row in others]

    def begin(self, start: RunStart) -> bool:
        """A run is about to write files. False: it goes on after it has left something behind."""
        self._write("delete from journal where settled_ms < ?", (start.started_ms - _REMEMBER_SETTLED_MS,))
        row = (start.run_id, start.table_uuid, start.model_dump_json(), start.started_ms)
        if self._write("insert or ignore into journal (run_id, table_uuid, start, seen_ms) values (?, ?, ?, ?)", row):
            return True
        again = "update journal set ended = 0, seen_ms = ? where run_id = ? and settled_ms is null"
        self._write(again, (start.started_ms, start.run_id))
        return False

    def heartbeat(self, run_id: str, now_ms: int) -> None:
        """The run is still at work."""
        self._write("update journal set seen_ms = ? where run_id = ?", (now_ms, run_id))

    def publishing(self, run_id: str, attempt: Attempt) -> bool:
        """A snapshot of the run is about to be published. False: it must not be, for the run was taken for dead."""
        change = "update journal set attempt = ?, seen_ms = ? where run_id = ? and not ended"
        if self._write(change, (attempt.model_dump_json(), attempt.at_ms, run_id)):
            return True
        return not self._read("select 1 from journal where run_id = ?", (run_id,))

    def end(self, run_id: str, now_ms: int) -> None:
        """The run has ended and may have left something behind."""
        self._write("update journal set ended = 1, seen_ms = ? where run_id = ?", (now_ms, run_id))

    def take_over(self, run: UnfinishedRun) -> bool:
        """The run is taken for dead: it may publish nothing from now on. False: it has just given a sign of life."""
        change = "update journal set ended = 1 where run_id = ? and seen_ms = ? and settled_ms is null"
        return bool(self._write(change, (run.start.run_id, run.seen_ms)))

    def finish(self, run_id: str) -> None:
        """The run has ended and left nothing behind."""
        self._write("delete from journal where run_id = ?", (run_id,))

    def settle(self, run_id: str, now_ms: int) -> None:
        """What the run left behind is removed, and it will never publish anything."""
        self._write("update journal set settled_ms = ? where run_id = ?", (now_ms, run_id))

    def unfinished(self, table_uuid: str) -> list[UnfinishedRun]:
        """The runs on a table that are under way, have crashed, or may have left something behind; oldest first."""
        query = "select start, seen_ms, ended, attempt from journal where table_uuid = ? and settled_ms is null"
        return [
            UnfinishedRun(
                start=RunStart.model_validate_json(start),
                seen_ms=seen_ms,
                ended=bool(ended),
                attempt=None if attempt is None else Attempt.model_validate_json(attempt),
            )
            for start, seen_ms, ended, attempt in self._read(f"{query} order by rowid", (table_uuid,))
        ]

    def _connect(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self.path, timeout=_BUSY_S)
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
            raise errors.ConfigError(f"The run store {self.path} cannot be written: {error}.") from error

    def _read(self, query: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        try:
            with closing(self._connect()) as connection:
                return connection.execute(query, values).fetchall()
        except (OSError, sqlite3.Error) as error:
            raise errors.ConfigError(f"The run store {self.path} cannot be opened: {error}.") from error


def _effort(row: Sequence[Any]) -> Effort:
    return Effort(copied_bytes=row[0], copy_seconds=row[1], encoded_bytes=row[2], encode_seconds=row[3])
