"""Entries in a table of a PostgreSQL database. Changes are made one after the other, by a lock that they hold."""

from __future__ import annotations

import contextlib
import os
import time
import zlib
from typing import TYPE_CHECKING, Any

import psycopg

from iceberg_compaction.record.entries import fork_lock
from iceberg_compaction.record.entries.door import StoreEntry
from iceberg_compaction.record.entries.server_url import ServerUrl

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import TypeVar

    T = TypeVar("T")

_WAIT_S = 10  # for a connection
_LOCK_WAIT = "30s"  # others hold the lock for milliseconds
_CLIENT: dict[str, Any] = {
    "connect_timeout": _WAIT_S,
    "application_name": "iceberg-compaction",
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 30_000,
}


class PostgresEntries:
    """See `door.StoreEntries`. One connection for each process, which its threads share: calls are short and rare. It
    is made anew after a fork and after the server was away. The table is created by the first change."""

    def __init__(self, url: str) -> None:
        self._url = ServerUrl(url)
        self._table = f"{self._url.prefix}_entries"
        self._versions = f"{self._url.prefix}_versions"
        self._lock_id = zlib.crc32(self._table.encode())
        self._connection: psycopg.Connection[Any] | None = None
        self._process = os.getpid()
        self._mutex = fork_lock.ForkLock()

    def __str__(self) -> str:
        return str(self._url)

    def get(self, keys: Sequence[str]) -> dict[str, StoreEntry]:
        query = f"select key, value, version from {self._table} where key = any(%s)"
        return {row[0]: StoreEntry(*row) for row in self._read(query, [list(keys)])}

    def scan(
        self, prefix: str, *, after: str = "", limit: int | None = None, reverse: bool = False
    ) -> list[StoreEntry]:
        conditions, values = ["key >= %s"], [prefix]
        if prefix:
            conditions.append("key < %s")
            values.append(prefix[:-1] + chr(ord(prefix[-1]) + 1))
        if after:
            conditions.append("key < %s" if reverse else "key > %s")
            values.append(after)
        query = f"select key, value, version from {self._table} where {' and '.join(conditions)}"
        query += f" order by key {'desc' if reverse else 'asc'} limit %s"
        return [StoreEntry(*row) for row in self._read(query, [*values, limit])]

    def change(self, values: Mapping[str, str | None], expected: Mapping[str, int | None] | None = None) -> bool:
        with self._url.translated("written", psycopg.Error), self._mutex:
            try:
                with self._changing() as connection:
                    return self._change(connection, values, expected or {})
            except psycopg.errors.UndefinedTable:  # nothing was changed
                with self._changing() as connection:
                    self._create(connection)
                    return self._change(connection, values, expected or {})

    def close(self) -> None:
        with self._mutex:
            connection, self._connection = self._connection, None
            if connection is not None and self._process == os.getpid():
                connection.close()

    def _read(self, query: str, values: Sequence[Any]) -> list[Any]:
        with self._url.translated("read", psycopg.Error), self._mutex:
            try:
                return self._again(lambda connection: connection.execute(query, values).fetchall())
            except psycopg.errors.UndefinedTable:
                return []

    def _change(
        self, connection: psycopg.Connection[Any], values: Mapping[str, str | None], expected: Mapping[str, int | None]
    ) -> bool:
        if expected:
            rows = connection.execute(f"select key, version from {self._table} where key = any(%s)", [list(expected)])
            if {**dict.fromkeys(expected), **dict(rows.fetchall())} != dict(expected):
                return False
        removed = [key for key, value in values.items() if value is None]
        written = {key: value for key, value in values.items() if value is not None}
        if removed:
            connection.execute(f"delete from {self._table} where key = any(%s)", [removed])
        if written:
            connection.execute(
                f"insert into {self._table} (key, value, version)"
                f" select key, value, nextval('{self._versions}')"
                " from unnest(%s::text[], %s::text[]) as new (key, value)"
                " on conflict (key) do update set value = excluded.value, version = excluded.version",
                [list(written), list(written.values())],
            )
        return True

    def _create(self, connection: psycopg.Connection[Any]) -> None:
        connection.execute(
            f'create table if not exists {self._table} (key text collate "C" primary key, value text not null,'
            " version bigint not null)"
        )
        # Later than all versions of a table that was here before: nobody takes an entry of this one for one of that.
        connection.execute(f"create sequence if not exists {self._versions} start {time.time_ns() // 1000}")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[psycopg.Connection[Any]]:
        """A transaction that no other change interrupts. All of it was made if the `with` ends without an error."""
        self._again(lambda connection: connection.execute("begin"))
        connection = self._connect()
        try:
            connection.execute(f"set local lock_timeout = '{_LOCK_WAIT}'")
            connection.execute("select pg_advisory_xact_lock(%s)", [self._lock_id])
            yield connection
            connection.execute("commit")
        except BaseException:
            with contextlib.suppress(psycopg.Error):
                connection.execute("rollback")
            raise

    def _again(self, work: Callable[[psycopg.Connection[Any]], T]) -> T:
        """Work that may be done twice. The server may have closed the connection since it was used last."""
        is_new = self._connection is None
        try:
            return work(self._connect())
        except psycopg.OperationalError:
            if is_new or (self._connection is not None and not self._connection.broken):
                raise
            self.close()
            return work(self._connect())

    def _connect(self) -> psycopg.Connection[Any]:
        if self._process != os.getpid():  # the connection is that of the parent, which goes on with it
            self._connection, self._process = None, os.getpid()
        if self._connection is None or self._connection.closed:
            given = {name: value for name, value in _CLIENT.items() if name not in self._url.options}
            self._connection = psycopg.connect(self._url.client_url, autocommit=True, prepare_threshold=None, **given)
        return self._connection
