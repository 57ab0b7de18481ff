"""A connection to a SQLite file that is kept from one use to the next while a run is at work: to open one takes longer
than to use it several times. Outside of runs every connection is a new one, closed after use."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from typing import TYPE_CHECKING

from iceberg_compaction.record.entries import fork_lock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class KeptConnection:
    """The connection of one process, which its threads use in turn. It is given up when the file is not the same any
    more, and after any error. A forked process has no part in it: it neither uses nor closes what it inherits."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._mutex = fork_lock.ForkLock()
        self._process = os.getpid()
        self._keepers = 0
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None  # that the connection is to
        self._inherited: list[sqlite3.Connection] = []  # never used: the end of one would be an end for the parent's

    @contextlib.contextmanager
    def keeping(self) -> Iterator[None]:
        """Keep the connection of the first change, until the end of the `with`."""
        with self._mutex:
            self._leave_to_parent()
            self._keepers += 1
        try:
            yield
        finally:
            with self._mutex:
                self._leave_to_parent()
                self._keepers = max(0, self._keepers - 1)
                if not self._keepers:
                    self.close()

    @contextlib.contextmanager
    def to_change(self, connect: Callable[[], sqlite3.Connection]) -> Iterator[sqlite3.Connection]:
        """The kept connection, or a new one, which is kept if anybody wishes that."""
        with self._mutex:
            self._leave_to_parent()
            if self._keepers:
                with self._given_up_on_error():
                    connection = self._valid() or self._open(connect)
                    yield connection
                _empty_log(connection)
                if self._file is None:  # nobody can tell whether the file is still the same
                    self.close()
                return
        with contextlib.closing(connect()) as connection:
            yield connection

    @contextlib.contextmanager
    def to_read(self) -> Iterator[sqlite3.Connection | None]:
        """The kept connection, if there is one."""
        with self._mutex:
            self._leave_to_parent()
            if (connection := self._valid()) is not None:
                with self._given_up_on_error():
                    yield connection
                return
        yield None

    def close(self) -> None:
        with self._mutex:
            self._leave_to_parent()
            connection, self._connection, self._file = self._connection, None, None
            if connection is not None:
                connection.close()

    def _open(self, connect: Callable[[], sqlite3.Connection]) -> sqlite3.Connection:
        before = self._identity()
        self._connection = connect()
        self._file = before if before == self._identity() else None
        return self._connection

    def _valid(self) -> sqlite3.Connection | None:
        if self._connection is not None and self._identity() != self._file:
            self.close()
        return self._connection

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    @contextlib.contextmanager
    def _given_up_on_error(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.close()
            raise

    def _leave_to_parent(self) -> None:
        if self._process == os.getpid():
            return
        if self._connection is not None:
            self._inherited.append(self._connection)
        self._process, self._keepers, self._connection, self._file = os.getpid(), 0, None, None


def _empty_log(connection: sqlite3.Connection) -> None:
    """Move a change from the log into the file, as the end of a connection does: the file alone is the whole store
    between two changes, for those who copy it, and for those who put another one in its place. If somebody reads at
    this moment, a later change does it."""
    with contextlib.suppress(sqlite3.Error):  # the change itself is made
        ((busy_ms,),) = connection.execute("pragma busy_timeout")
        connection.execute("pragma busy_timeout = 0")
        try:
            connection.execute("pragma wal_checkpoint(truncate)").fetchall()
        finally:
            connection.execute(f"pragma busy_timeout = {busy_ms}")
