"""Runs in a SQLite file, the default store: no server, safe for several processes on one machine.
Records come in after a run, lists of them go out to `history`."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.record import RunRecord

if TYPE_CHECKING:
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
"""


class RunStore:
    """Opens its file for every call, so that no handle outlives a fork or a crash."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def _connect(self) -> sqlite3.Connection:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            connection = sqlite3.connect(self.path, timeout=30)
            connection.executescript(_SCHEMA)
        except (OSError, sqlite3.Error) as error:
            raise errors.ConfigError(f"The run store {self.path} cannot be opened: {error}.") from error
        return connection

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
        with closing(self._connect()) as connection, connection:
            connection.execute("insert or replace into runs values (?, ?, ?, ?, ?, ?)", row)

    def history(self, table: str | None = None, limit: int = 50) -> list[RunRecord]:
        """The newest runs first, of one table or of all."""
        query = "select record from runs where ? is null or table_name = ? order by started_ms desc, run_id limit ?"
        with closing(self._connect()) as connection:
            rows = connection.execute(query, (table, table, limit)).fetchall()
        return [RunRecord.model_validate_json(text) for (text,) in rows]
