"""A SQLite file as the database of a run store, the default: no server, safe for several processes on one machine."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import schema
from sqlalchemy.dialects import sqlite

from iceberg_compaction.record import run_tables

if TYPE_CHECKING:
    from pathlib import Path

_BUSY_S = 30  # others hold the file for milliseconds


class SqliteFile:
    """Everything that SqlStore needs to know about its database. Every connection is a new one, closed after use, so
    that no handle outlives a fork or a crash. A connection creates the file and its tables where they are missing: the
    file may vanish at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schema = _schema()
        self.insert = sqlite.insert
        # The statements' values are long, and nobody who reads an error needs them.
        self.engine = sqlalchemy.create_engine(
            "sqlite://", creator=self._connect, poolclass=sqlalchemy.NullPool, hide_parameters=True
        )

    def __str__(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        """Return whether there is anything to read. OSError: a folder on the way cannot be entered, so nobody knows."""
        try:
            self._path.stat()  # `Path.exists` answers False to any error, from Python 3.14 on
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(self._path, timeout=_BUSY_S)
        # One row with damaged text must not make the others unreadable.
        connection.text_factory = lambda data: data.decode(errors="replace")
        try:
            connection.executescript(self._schema)
        except BaseException:
            connection.close()
            raise
        return connection


def _schema() -> str:
    tables = run_tables.METADATA.sorted_tables
    statements: list[schema.ExecutableDDLElement] = [schema.CreateTable(table, if_not_exists=True) for table in tables]
    statements += [schema.CreateIndex(index, if_not_exists=True) for table in tables for index in table.indexes]
    return ";".join(str(statement.compile(dialect=sqlite.dialect())) for statement in statements)
