"""A run keeps its connection to a SQLite store: nobody else may notice, whatever becomes of the file or the process."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import time
from concurrent import futures
from contextlib import closing, nullcontext
from typing import TYPE_CHECKING

import pytest
from tests.factories import stores
from tests.factories.stores import ATTEMPT, make_start

from iceberg_compaction import errors
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.record.entries import sqlite

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def database(tmp_path: Path) -> stores.SqliteDatabase:
    return stores.SqliteDatabase(path=tmp_path / "runs.db")


@pytest.fixture
def entries(database: stores.SqliteDatabase) -> sqlite.SqliteEntries:
    made = sqlite.SqliteEntries(database.path)
    made.change({"first": "1"})
    return made


def open_files(database: stores.SqliteDatabase) -> set[str]:
    paths = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    return {path for path in paths if path.startswith(str(database.path))}


def values(entries: sqlite.SqliteEntries) -> dict[str, str]:
    return {entry.key: entry.value for entry in entries.scan("")}


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list open files")
def test_the_connection_of_a_change_is_kept_until_the_last_one_who_wishes_that_is_done(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase
) -> None:
    with entries.stay_open():
        entries.get(["first"])
        assert not open_files(database)  # whoever only reads leaves nothing beside the file
        with entries.stay_open():
            entries.change({"a": "1"})
            assert str(database.path) in open_files(database)
        assert str(database.path) in open_files(database)
        assert values(entries) == {"first": "1", "a": "1"}
    assert not open_files(database)
    assert os.listdir(database.path.parent) == [database.path.name]


def test_others_see_what_is_written_and_their_changes_are_seen(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase
) -> None:
    other = sqlite.SqliteEntries(database.path)
    with entries.stay_open():
        for number in range(3):
            entries.change({"ours": f"{number}"})
            assert other.get(["ours"])["ours"].value == f"{number}"
            other.change({"theirs": f"{number}"})
            assert entries.get(["theirs"])["theirs"].value == f"{number}"
            assert not entries.change({"x": "1"}, {"theirs": None})


def test_a_file_that_is_removed_is_gone(entries: sqlite.SqliteEntries, database: stores.SqliteDatabase) -> None:
    with entries.stay_open():
        entries.change({"a": "1"})
        for name in os.listdir(database.path.parent):
            (database.path.parent / name).unlink()
        assert values(entries) == {}
        assert not database.path.exists()
        entries.change({"b": "1"})
        entries.change({"c": "1"})
        assert values(sqlite.SqliteEntries(database.path)) == {"b": "1", "c": "1"}


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_that_is_held_is_never_made_anew(database: stores.SqliteDatabase, tmp_path: Path, kept: bool) -> None:
    store = wiring.run_store(database.path)
    with store.entries.stay_open() if kept else nullcontext():
        store.entries.hold()
        store.entries.change({"a": "1"})
        database.path.rename(tmp_path / "away.db")
        for _ in range(2):
            with pytest.raises(errors.StoreGoneError, match="Put it back"):
                store.entries.get(["a"])
            with pytest.raises(errors.StoreGoneError):
                store.entries.change({"b": "1"})
        assert not database.path.exists()
        wiring.run_store(database.path).entries.change({"of-another": "1"})
        with pytest.raises(errors.StoreGoneError):
            store.entries.scan("")
        shutil.copy(tmp_path / "away.db", database.path)
        store.entries.change({"c": "1"})
        assert {entry.key for entry in store.entries.scan("")} >= {"a", "c"}
        database.path.unlink()
        database.path.write_bytes(b"")
        with pytest.raises(errors.StoreGoneError):
            store.entries.change({"d": "1"})
        assert database.path.stat().st_size == 0


def test_a_run_whose_file_is_lost_may_not_publish(database: stores.SqliteDatabase) -> None:
    """R49."""
    store = database.open()
    with store.entries.stay_open():
        store.begin(make_start())
        store.heartbeat("a", 20)
        database.path.unlink()
        assert not store.publishing("a", ATTEMPT)


def test_a_file_that_is_replaced_is_another_store(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase, tmp_path: Path
) -> None:
    shutil.copy(database.path, tmp_path / "copy.db")
    copied = sqlite.SqliteEntries(tmp_path / "copy.db")
    copied.change({"of-the-copy": "1"})
    with entries.stay_open():
        entries.change({"a": "1"})
        os.replace(tmp_path / "copy.db", database.path)
        assert values(entries) == {"first": "1", "of-the-copy": "1"}
        other = sqlite.SqliteEntries(database.path)
        with other.stay_open():
            other.change({"b": "1"})  # is in the log of the new file, which the end of our connection must not remove
            assert values(entries) == {"first": "1", "of-the-copy": "1", "b": "1"}
            entries.change({"c": "1"})
            assert values(other) == {"first": "1", "of-the-copy": "1", "b": "1", "c": "1"}
    assert values(sqlite.SqliteEntries(database.path)) == {"first": "1", "of-the-copy": "1", "b": "1", "c": "1"}


def test_a_forked_process_has_connections_of_its_own(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase
) -> None:
    with entries.stay_open():
        entries.change({"a": "1"})
        child = os.fork()
        if child == 0:
            try:
                entries.change({"of-the-child": values(entries)["a"]})
                entries.close()
                os._exit(0 if values(entries)["of-the-child"] == "1" else 1)
            finally:
                os._exit(2)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        entries.change({"b": "1"})
        assert values(entries) == {"first": "1", "a": "1", "of-the-child": "1", "b": "1"}
    assert values(sqlite.SqliteEntries(database.path)).keys() == {"first", "a", "of-the-child", "b"}


def test_threads_take_turns(entries: sqlite.SqliteEntries) -> None:
    def add(number: int) -> None:
        entries.change({f"k/{number:03d}": "1"})
        assert len(entries.scan("k/")) >= 1

    with entries.stay_open(), futures.ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(add, number) for number in range(40)]:
            done.result()
    assert len(entries.scan("k/")) == 40


def test_after_an_error_there_is_a_new_connection(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase
) -> None:
    with entries.stay_open():
        entries.change({"a": "1"})
        database.execute("create trigger full before insert on entries begin select raise(abort, 'disk is full'); end")
        with pytest.raises(errors.StoreError, match="disk is full"):
            entries.change({"b": "1"})
        database.execute("drop trigger full")
        entries.change({"c": "1"})
        assert values(entries).keys() == {"first", "a", "c"}


def test_a_file_that_another_program_takes_over_is_refused(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase, tmp_path: Path
) -> None:
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("create table theirs (x)")
    other.close()
    before = (tmp_path / "other.db").read_bytes()
    with entries.stay_open():
        entries.change({"a": "1"})
        os.replace(tmp_path / "other.db", database.path)
        with pytest.raises(errors.ForeignStoreError, match="another program's database"):
            entries.change({"b": "1"})
    assert database.path.read_bytes() == before


def test_the_file_alone_is_the_whole_store_while_a_run_is_at_work(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase, tmp_path: Path
) -> None:
    with entries.stay_open():
        for number in range(3):
            entries.change({f"{number}": "1"})
            backup = f"import shutil; shutil.copy({str(database.path)!r}, {str(tmp_path / 'backup.db')!r})"
            subprocess.run([sys.executable, "-c", backup], check=True)  # SQLite's locks end if this process reads it
            assert values(sqlite.SqliteEntries(tmp_path / "backup.db")) == values(entries)


def test_somebody_who_reads_for_long_holds_nobody_up(
    entries: sqlite.SqliteEntries, database: stores.SqliteDatabase
) -> None:
    with entries.stay_open(), closing(sqlite3.connect(database.path, isolation_level=None)) as reader:
        entries.change({"a": "1"})
        reader.execute("begin")
        assert len(reader.execute("select key from entries").fetchall()) == 2
        began = time.monotonic()
        entries.change({"b": "1"})
        entries.change({"c": "1"})
        assert time.monotonic() - began < 10
        reader.execute("rollback")
        assert values(entries).keys() == {"first", "a", "b", "c"}
