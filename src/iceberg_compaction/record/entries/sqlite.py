"""Entries in a SQLite file, the default: no server, safe for several processes on one machine. Reading changes nothing
in it, and a database that holds anything else is neither read nor written."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.record.entries import first_format, kept_connection
from iceberg_compaction.record.entries.door import StoreEntry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

_BUSY_S = 30  # others hold the file for milliseconds
_NAMED = 3  # tables of somebody else
_AT_ONCE = 500  # keys of one statement
_HELD = "meta/held"  # its version is that of no other store, and of every copy of this one
_COLUMNS = frozenset({"key", "value", "version"})
_SCHEMA = (
    "create table if not exists entries (key text primary key not null, value text not null, version integer not null)",
    "create table if not exists last_version (last integer not null)",
    # Later than all versions of a file that was here before, so that nobody takes an entry of this one for one of that.
    "insert into last_version select cast((julianday('now') - 2440587.5) * 86400000000 as integer)"
    " where not exists (select 1 from last_version)",
)


class SqliteEntries:
    """See `door.StoreEntries`. Every connection is a new one, closed after use, but for those of `stay_open`. One for
    changes creates the file and its tables where they are missing: the file may vanish at any time. After `hold` it may
    not. A file of the first format is read through a copy in memory, and brought forward by the first change."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._kept = kept_connection.KeptConnection(path)
        self._held: int | None = None  # the version of an entry of the store that must be there

    def __str__(self) -> str:
        return str(self._path)

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        with self._reading() as connection:
            rows: list[Any] = []
            for at in range(0, len(keys), _AT_ONCE):
                part = keys[at : at + _AT_ONCE]
                marks = ",".join("?" * len(part))
                rows += _rows(connection, f"select key, value, version from entries where key in ({marks})", part)
        return {row[0]: StoreEntry(*row) for row in rows}

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        conditions, values = ["key >= ?"], [prefix]
        if prefix:
            conditions.append("key < ?")
            values.append(prefix[:-1] + chr(ord(prefix[-1]) + 1))
        if after:
            conditions.append("key < ?" if reverse else "key > ?")
            values.append(after)
        query = f"select key, value, version from entries where {' and '.join(conditions)}"
        query += f" order by key {'desc' if reverse else 'asc'} limit ?"
        with self._reading() as connection:
            return [StoreEntry(*row) for row in _rows(connection, query, [*values, -1 if limit is None else limit])]

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        with self._changing() as connection:
            for key, version in (expected or {}).items():
                if _version_of(connection, key) != version:
                    return False
            _write(connection, values)
        return True

    def stay_open(self) -> contextlib.AbstractContextManager[None]:
        """Keep the connection of the first change until the end of the `with`."""
        return self._kept.keeping()

    def hold(self) -> None:
        """See `door.MayVanish`. A copy of the store is the same one."""
        if _HELD not in self.get([_HELD]):
            self.change({_HELD: ""}, {_HELD: None})
        self._held = self.get([_HELD])[_HELD].version

    def close(self) -> None:
        self._kept.close()

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
                with contextlib.closing(self._connect_to_read()):
                    return
        except (OSError, sqlite3.Error):
            return

    @contextlib.contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection | None]:
        """A connection within one transaction; None: there is nothing to read."""
        with self._translated("read"), self._connection_to_read() as connection:
            tables = set() if connection is None else _tables(connection)
            if connection is None or not tables:
                yield None
            elif first_format.TABLES & tables:
                with contextlib.closing(sqlite3.connect(":memory:", isolation_level=None)) as copy:
                    _set_text(copy)
                    connection.backup(copy)
                    _bring_forward(copy)
                    yield copy
            else:
                connection.execute("begin")
                yield connection if "entries" in tables else None
                connection.rollback()

    @contextlib.contextmanager
    def _connection_to_read(self) -> Iterator[sqlite3.Connection | None]:
        with self._kept.to_read() as kept:
            if kept is not None or not self.exists():
                if kept is None and self._held is not None:
                    raise self._gone()
                yield kept
                return
            with contextlib.closing(self._connect_to_read()) as connection:
                yield connection

    @contextlib.contextmanager
    def _changing(self) -> Iterator[sqlite3.Connection]:
        with self._translated("written"), self._kept.to_change(self._connect_to_change) as connection:
            connection.execute("begin immediate")
            try:
                if "last_version" not in (tables := _tables(connection)) or first_format.TABLES & tables:
                    _bring_forward(connection)
                yield connection
            except BaseException:
                connection.execute("rollback")
                raise
            connection.execute("commit")

    @contextlib.contextmanager
    def _translated(self, done: str) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error) as error:
            raise errors.StoreError(
                f"The run store {self._path} cannot be {done}: {error}; check it or choose another one."
            ) from error

    def _connect_to_change(self) -> sqlite3.Connection:
        if self._held is not None:
            return self._connect_to_read()  # which creates nothing
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = self._connect(str(self._path))
        try:
            if "entries" not in _tables(connection):
                _use_write_ahead_log(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect_to_read(self) -> sqlite3.Connection:
        # `rw` creates nothing, and unlike `ro` it can take back what a process that died has left half-written.
        uri = self._path.absolute().as_uri()
        try:
            return self._connect(f"{uri}?mode=rw")
        except sqlite3.OperationalError:
            if self._held is not None and not self.exists():
                raise self._gone() from None
            # A folder that is read-only takes no files for the log. Without a log, the file is all there is.
            if self._path.with_name(f"{self._path.name}-wal").exists():
                raise
            return self._connect(f"{uri}?mode=ro&immutable=1")

    def _connect(self, database: str) -> sqlite3.Connection:
        """A connection, if the database is empty or a run store."""
        connection = sqlite3.connect(
            database,
            timeout=_BUSY_S,
            uri=database.startswith("file:"),
            isolation_level=None,
            check_same_thread=False,  # threads use a kept one in turn
        )
        _set_text(connection)
        try:
            with _one_view(connection):
                reason = _foreign(connection)
            if reason:
                raise errors.ForeignStoreError(
                    f"The file {self._path} is not a run store: {reason}; choose another one with --store."
                )
            if self._held is not None and not self._is_held(connection):
                raise self._gone()
        except BaseException:
            connection.close()
            raise
        return connection

    def _is_held(self, connection: sqlite3.Connection) -> bool:
        return "entries" in _tables(connection) and _version_of(connection, _HELD) == self._held

    def _gone(self) -> errors.StoreGoneError:
        return errors.StoreGoneError(
            f"The run store {self._path} is gone: its file was moved, deleted or replaced under the service, which "
            "makes no new one. Put it back, or start the service again."
        )


def _rows(connection: sqlite3.Connection | None, query: str, values: Sequence[Any]) -> list[Any]:
    return [] if connection is None else connection.execute(query, values).fetchall()


def _version_of(connection: sqlite3.Connection, key: str) -> int | None:
    row = connection.execute("select version from entries where key = ?", (key,)).fetchone()
    return None if row is None else int(row[0])


def _write(connection: sqlite3.Connection, values: Mapping[str, str | None]) -> None:
    if not values:
        return
    removed = [(key,) for key, value in values.items() if value is None]
    connection.executemany("delete from entries where key = ?", removed)
    written = [(key, value) for key, value in values.items() if value is not None]
    ((last,),) = connection.execute("update last_version set last = last + ? returning last", (len(values),))
    connection.executemany(
        "insert into entries (key, value, version) values (?, ?, ?)"
        " on conflict (key) do update set value = excluded.value, version = excluded.version",
        [(key, value, last - at) for at, (key, value) in enumerate(written)],
    )


def _bring_forward(connection: sqlite3.Connection) -> None:
    """Create the tables, and move all rows of the first format into them."""
    for statement in _SCHEMA:
        connection.execute(statement)
    for values in first_format.take(connection):
        _write(connection, values)


def _set_text(connection: sqlite3.Connection) -> None:
    # One row with damaged text must not make the others unreadable.
    connection.text_factory = lambda data: data.decode(errors="replace")


def _use_write_ahead_log(connection: sqlite3.Connection) -> None:
    """Readers and a writer do not wait for one another. SQLite does not wait here for those who do the same."""
    for _ in range(_BUSY_S * 100):
        try:
            connection.execute("pragma journal_mode = wal").fetchall()
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            time.sleep(0.01)
        else:
            return


def _tables(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}


@contextlib.contextmanager
def _one_view(connection: sqlite3.Connection) -> Iterator[None]:
    """Statements within see the same tables, though somebody else brings the file forward meanwhile."""
    connection.execute("begin")
    try:
        yield
    finally:
        if connection.in_transaction:  # some errors end it
            connection.execute("rollback")


def _foreign(connection: sqlite3.Connection) -> str | None:
    """Why the file is no run store; None: it is one, or empty. A table of the same name counts if it has our columns:
    others have runs and journals as well."""
    try:
        tables = _tables(connection)
    except sqlite3.DatabaseError as error:
        if "not a database" not in str(error):
            raise
        return "it is no SQLite database"
    own = {name: columns for name, columns in {**first_format.COLUMNS, "entries": _COLUMNS}.items() if name in tables}
    for name, columns in own.items():
        if not columns <= {column for _, column, *_ in connection.execute(f"pragma table_info({name})")}:
            return f"it is another program's database, whose table {name} has other columns"
    if tables and not own:
        return f"it is another program's database, with tables such as {', '.join(sorted(tables)[:_NAMED])}"
    return None
