"""A SQLite file as the database of a run store, the default: no server, safe for several processes on one machine.
Reading changes nothing in it, and a database that holds anything else is neither read nor written."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

import sqlalchemy
from sqlalchemy import schema
from sqlalchemy.dialects import sqlite

from iceberg_compaction import errors
from iceberg_compaction.record import run_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_BUSY_S = 30  # others hold the file for milliseconds
_NAMED = 3  # tables of somebody else


class SqliteFile:
    """Everything that SqlStore needs to know about its database. Every connection is a new one, closed after use, so
    that no handle outlives a fork or a crash. A connection for changes creates the file and its tables where they are
    missing: the file may vanish at any time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._schema = _schema()
        self.insert = sqlite.insert
        self.engine = _engine(self._connect)
        self.reader = _engine(self._connect_to_read)

    def __str__(self) -> str:
        return str(self._path)

    def exists(self) -> bool:
        """Return whether there is anything to read. OSError: a folder on the way cannot be entered, so nobody knows."""
        try:
            size = self._path.stat().st_size  # `Path.exists` answers False to any error, from Python 3.14 on
        except (FileNotFoundError, NotADirectoryError):
            return False
        return size > 0

    def check_own(self) -> None:
        """Raise ForeignStoreError if the file is surely something else. Other trouble is for those who use it."""
        try:
            if self.exists():
                self._connect_to_read().close()
        except (OSError, sqlite3.Error):
            return

    def _connect_to_read(self) -> sqlite3.Connection:
        # `rw` creates nothing, and unlike `ro` it can take back what a process that died has left half-written.
        return self._checked(sqlite3.connect(f"{self._path.absolute().as_uri()}?mode=rw", timeout=_BUSY_S, uri=True))

    def _connect(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._checked(sqlite3.connect(self._path, timeout=_BUSY_S))
        try:
            connection.executescript(self._schema)
        except BaseException:
            connection.close()
            raise
        return connection

    def _checked(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        """The connection, if the database is empty or a run store."""
        # One row with damaged text must not make the others unreadable.
        connection.text_factory = lambda data: data.decode(errors="replace")
        try:
            if reason := _foreign(connection):
                raise errors.ForeignStoreError(
                    f"The file {self._path} is not a run store: {reason}; choose another file with --state."
                )
        except BaseException:
            connection.close()
            raise
        return connection


def _engine(creator: Callable[[], sqlite3.Connection]) -> sqlalchemy.Engine:
    # The statements' values are long, and nobody who reads an error needs them.
    return sqlalchemy.create_engine("sqlite://", creator=creator, poolclass=sqlalchemy.NullPool, hide_parameters=True)


def _foreign(connection: sqlite3.Connection) -> str | None:
    """Why the file is no run store; None: it is one, or empty. A table of the same name counts if it has our columns:
    others have runs and journals as well."""
    try:
        tables = [name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")]
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            raise
        return "it is no SQLite database"
    own = [table for table in run_tables.METADATA.sorted_tables if table.name in tables]
    for table in own:
        columns = {name for _, name, *_ in connection.execute(f"pragma table_info({table.name})")}
        if not {column.name for column in table.columns} <= columns:
            return f"it is another program's database, whose table {table.name} has other columns"
    if tables and not own:
        return f"it is another program's database, with tables such as {', '.join(sorted(tables)[:_NAMED])}"
    return None


def _schema() -> str:
    tables = run_tables.METADATA.sorted_tables
    statements: list[schema.ExecutableDDLElement] = [schema.CreateTable(table, if_not_exists=True) for table in tables]
    statements += [schema.CreateIndex(index, if_not_exists=True) for table in tables for index in table.indexes]
    return ";".join(str(statement.compile(dialect=sqlite.dialect())) for statement in statements)
