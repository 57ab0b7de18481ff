"""The run store in a SQLite file: files of earlier versions, damage, and how runs use it. Its contract is in
tests/contract/test_stores.py."""

from __future__ import annotations

import functools
import json
import os
import shutil
import sqlite3
import tempfile
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import stores
from tests.factories.stores import ATTEMPT, make_record, make_start

from iceberg_compaction import errors
from iceberg_compaction.model.copy_plan import Rate, RateOrigin
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.plan import rates
from iceberg_compaction.record.entries import migrations
from iceberg_compaction.record.entries.memory import MemoryEntries
from iceberg_compaction.record.rules import run_rows
from iceberg_compaction.record.runs import Run
from iceberg_compaction.record.store import RunStore

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.record.entries.door import StoreEntries

_NOBODY = 65534
MONTH = 31 * 24 * 3_600_000

# As version 0.1 wrote them, word for word.
OLD_SCHEMA = """
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
OLD_RECORD = (
    '{"run_id":"r","table":"db.t","version":"0.1.0","started_ms":1,"finished_ms":2,"outcome":{"kind":"compacted",'
    '"table":"db.t","sentence":"Done.","run_id":"r","plan_id":null,"strategy":null,"snapshot_id":8,"snapshot_ids":'
    '[8],"files_removed":0,"files_added":0,"bytes_removed":0,"bytes_added":0,"records":0,"deleted_rows":0,'
    '"delete_files_removed":0,"groups":1,"groups_landed":0,"groups_conflicted":0,"groups_failed":1,"group_outcomes":'
    '[{"id":0,"partition":"{}","outcome":"failed","snapshot_id":null,"sentence":"x","file_path":"f","first_file":"g"}],'
    '"attempts":0,"manifests_removed":0,"manifests_added":0,"manifest_entries":0,"proof":null,"effort":{'
    '"copied_groups":1,"copied_bytes":300,"copy_seconds":1.5,"encoded_groups":0,"encoded_bytes":0,"encode_seconds":0.0,'
    '"kept_from_copying":{}},"seconds":0.0}}'
)
OLD_START = (
    '{"run_id":"a","table":"db.t","table_uuid":"t","table_location":"file:///t","data_path":"file:///t/data",'
    '"metadata_path":"file:///t/metadata","branch":"main","process":{"host":"h","pid":7,"started":"1"},"started_ms":10,'
    '"claims":[[0,"{\\"city\\": \\"Bern\\"}"]],"catalog":"c"}'
)
OLD_ATTEMPT = '{"snapshot_id":8,"parent_snapshot_id":7,"sequence_number":5,"at_ms":30,"landed":[6],"metadata":null}'


@pytest.fixture
def database(tmp_path: Path) -> stores.SqliteDatabase:
    return stores.SqliteDatabase(path=tmp_path / "runs.db")


@pytest.fixture
def store(database: stores.SqliteDatabase) -> RunStore:
    return database.open()


@pytest.fixture
def old(database: stores.SqliteDatabase) -> stores.SqliteDatabase:
    """A file of version 0.1: a record; three entries, of which two runs have ended and one is recovered."""
    with closing(sqlite3.connect(database.path)) as connection, connection:
        connection.executescript(OLD_SCHEMA)
        connection.execute("insert into runs values ('r', 'db.t', 'compacted', 1, 2, ?)", (OLD_RECORD,))
        for row in [("a", 25, 0, OLD_ATTEMPT, None), ("b", 26, 2, None, None), ("c", 27, 1, None, 40)]:
            start = OLD_START.replace('"run_id":"a"', f'"run_id":"{row[0]}"')
            connection.execute("insert into journal values (?, 't', ?, ?, ?, ?, ?)", (row[0], start, *row[1:]))
    return database


def check_old(store: RunStore) -> None:
    (record,) = store.history("db.t")
    read, written = record.model_dump(mode="json"), json.loads(OLD_RECORD)
    written["outcome"]["effort"] = read["outcome"]["effort"] | written["outcome"]["effort"]
    written["outcome"] = read["outcome"] | written["outcome"]
    assert read == read | written
    assert store.efforts("db.t") == ([record.outcome.effort], [])
    running, taken_over = store.unfinished("t")
    assert json.loads(running.start.model_dump_json()) == json.loads(OLD_START) | {"heartbeat_s": 30.0}
    assert running.attempt is not None
    assert running.attempt.model_dump_json() == OLD_ATTEMPT
    assert (running.heartbeat_ms, running.ended, running.taken_over) == (25, False, False)
    assert (taken_over.start.run_id, taken_over.ended, taken_over.taken_over) == ("b", True, True)


def test_a_file_of_the_first_format_is_read_and_not_changed(old: stores.SqliteDatabase) -> None:
    before = old.path.read_bytes()
    check_old(old.open())
    assert old.path.read_bytes() == before
    assert os.listdir(old.path.parent) == [old.path.name]


def test_a_file_of_the_first_format_is_brought_forward_by_the_first_change(old: stores.SqliteDatabase) -> None:
    store = old.open()
    store.save(make_record("s", "db.u", 5))
    check_old(store)
    assert store.publishing("a", ATTEMPT)
    assert not store.publishing("b", ATTEMPT)
    assert not store.publishing("c", ATTEMPT)
    assert [record.run_id for record in store.history()] == ["s", "r"]
    assert [record.run_id for record in store.history(kind="compacted", table="db.t")] == ["r"]
    tables = old.execute("select name from sqlite_master where type = 'table' order by name")
    assert tables == [("entries",), ("last_version",)]
    assert store.entries.get(["meta/format"])["meta/format"].value == "2"


def test_of_two_that_bring_a_file_forward_one_is_first(old: stores.SqliteDatabase) -> None:
    stores.at_once(old, ["x", "y"], stores.begin_again, stores.begin_again)
    assert [run.start.run_id for run in old.open().unfinished("t")] == ["a", "b", "x", "y"]


def test_a_file_that_another_brings_forward_meanwhile_is_no_foreign_one(
    old: stores.SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Slow(sqlite3.Connection):
        """Between the list of tables and their columns, another process drops them."""

        def execute(self, sql: str, *given: Any) -> sqlite3.Cursor:
            if sql.startswith("pragma table_info"):
                with closing(sqlite3.Connection(old.path, timeout=0)) as other, suppress(sqlite3.OperationalError):
                    other.executescript("drop table journal; drop table runs")
            return super().execute(sql, *given)

    connect = sqlite3.connect
    with closing(connect(old.path)) as connection:
        connection.execute("pragma journal_mode = wal")
    monkeypatch.setattr(sqlite3, "connect", functools.partial(connect, factory=Slow))
    assert [run.start.run_id for run in old.open().unfinished("t")] == []


def test_whoever_dies_while_a_file_is_brought_forward_leaves_it_as_it_was(
    old: stores.SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: Any) -> None:
        raise errors.CancelledError("killed")

    monkeypatch.setattr(run_rows, "journal_entries", fail)
    with pytest.raises(errors.CancelledError):
        old.open().save(make_record("s"))
    monkeypatch.undo()
    assert old.execute("select count(*) from runs") == [(1,)]
    check_old(old.open())


def test_a_store_of_a_newer_version_is_refused_in_one_sentence() -> None:
    entries = MemoryEntries()
    entries.change({"meta/format": "3"})
    store = RunStore(entries)
    sentence = "The run store memory:// has format 3, and this version knows formats up to 2; install the newer version"
    for use in (lambda: store.begin(make_start()), lambda: store.history(), lambda: store.unfinished("t")):
        with pytest.raises(errors.StoreError, match=sentence):
            use()
    assert [entry.key for entry in entries.scan("")] == ["meta/format"]


def test_steps_between_formats_are_done_once_and_in_order() -> None:
    done: list[str] = []

    def step(name: str) -> Callable[[StoreEntries], None]:
        return lambda entries: done.append(name)

    entries = MemoryEntries()
    migrations.bring_forward(entries, ())
    steps = [step("2 to 3"), step("3 to 4")]
    for _ in range(2):
        migrations.bring_forward(entries, steps)
    assert done == ["2 to 3", "3 to 4"]
    migrations.bring_forward(MemoryEntries(), steps)  # a new store needs none
    assert (done, migrations.check(entries, steps)) == (["2 to 3", "3 to 4"], 4)


def test_a_file_without_a_journal_gets_one(database: stores.SqliteDatabase) -> None:
    with closing(sqlite3.connect(database.path)) as connection:
        connection.executescript(OLD_SCHEMA.split("create table if not exists journal")[0])
    store = database.open()
    assert store.unfinished("t") == []
    assert store.begin(make_start())
    assert store.history() == []


def test_fields_that_a_newer_version_added_keep_their_values(store: RunStore) -> None:
    store.begin(make_start())
    row = json.loads(store.entries.get(["journal/a"])["journal/a"].value)
    store.entries.change({"journal/a": json.dumps(row | {"fence": 7})})
    store.heartbeat("a", 20)
    assert json.loads(store.entries.get(["journal/a"])["journal/a"].value) == row | {"fence": 7, "heartbeat_ms": 20}


def test_text_that_is_not_unicode_costs_its_own_row_only(store: RunStore, database: stores.SqliteDatabase) -> None:
    for run_id in ("torn", "whole"):
        store.begin(make_start(run_id))
        store.publishing(run_id, ATTEMPT)
    database.execute("update entries set value = cast(x'ff7b' as text) where key = 'journal/torn'")
    assert [run.start.run_id for run in store.unfinished("t")] == ["whole"]
    store.begin(make_start("next"))
    assert database.execute("select hex(value) from entries where key = 'journal/torn'") == [("FF7B",)]


def test_records_of_before_tell_nothing_of_efforts(old: stores.SqliteDatabase) -> None:
    record = json.loads(OLD_RECORD)
    del record["outcome"]["effort"]
    old.execute("update runs set record = :record", record=json.dumps(record))
    store = old.open()
    for _ in range(2):
        assert store.efforts("db.t") == ([], [])
        assert store.history()[0].outcome.effort == Effort()
        store.begin(make_start("new"))


def test_a_run_is_in_the_journal_though_others_cannot_be_forgotten(
    store: RunStore, database: stores.SqliteDatabase
) -> None:
    """Else it would go on as if nobody could take it over."""
    store.begin(make_start())
    store.mark_recovered("a", 10)
    database.execute("create trigger full before delete on entries begin select raise(abort, 'disk is full'); end")
    assert store.begin(make_start("b", started_ms=10 + MONTH))
    assert [run.start.run_id for run in store.unfinished("t")] == ["b"]
    with pytest.raises(errors.StoreError, match=r"cannot be written: disk is full; check it or choose another one\.$"):
        store.finish("b")


def test_a_run_whose_file_is_lost_may_not_publish(store: RunStore, database: stores.SqliteDatabase) -> None:
    """R49."""
    store.begin(make_start())
    database.path.unlink()
    assert not store.publishing("a", ATTEMPT)


def test_a_file_that_is_no_store_is_one_sentence(database: stores.SqliteDatabase) -> None:
    database.path.write_text("this is no database, however long one looks at it" * 100)
    store = database.open()
    sentence = r"runs\.db is not a run store: it is no SQLite database; choose another one with --store\.$"
    for use in (lambda: store.begin(make_start()), lambda: store.unfinished("t")):
        with pytest.raises(errors.ForeignStoreError, match=sentence) as caught:
            use()
        assert not caught.value.retryable


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ("create table iceberg_tables (catalog_name text)", "with tables such as iceberg_tables;"),
        ("create table runs (run_uuid text)", "whose table runs has other columns;"),
    ],
)
def test_a_database_of_another_program_is_neither_read_nor_written(
    database: stores.SqliteDatabase, schema: str, reason: str
) -> None:
    with closing(sqlite3.connect(database.path)) as other:
        other.execute(schema)
    before = database.path.read_bytes()
    store = database.open()
    for use in (lambda: store.begin(make_start()), lambda: store.history(), lambda: store.save(make_record("r"))):
        with pytest.raises(errors.ForeignStoreError, match=reason):
            use()
    assert database.path.read_bytes() == before


def test_reading_adds_no_tables_to_an_empty_file(database: stores.SqliteDatabase) -> None:
    with closing(sqlite3.connect(database.path)) as empty:
        empty.execute("pragma user_version = 1")  # a header, and no table
    before = database.path.read_bytes()
    assert database.open().history() == []
    assert database.open().unfinished("t") == []
    assert database.path.read_bytes() == before != b""
    database.open().save(make_record("r"))
    assert [record.run_id for record in database.open().history()] == ["r"]


def test_a_store_that_may_only_be_read_is_read(database: stores.SqliteDatabase) -> None:
    database.open().save(make_record("r"))
    database.path.chmod(0o400)
    assert [record.run_id for record in database.open().history()] == ["r"]


def test_a_store_in_a_folder_that_may_only_be_read_is_read() -> None:
    """SQLite would create files beside it."""
    folder = Path(tempfile.mkdtemp())
    database = stores.SqliteDatabase(path=folder / "runs.db")
    try:
        database.open().save(make_record("r"))
        database.path.chmod(0o444)
        folder.chmod(0o555)
        child = os.fork()
        if child == 0:
            if os.geteuid() == 0:
                os.setuid(_NOBODY)
            os._exit(0 if [record.run_id for record in database.open().history()] == ["r"] else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert os.listdir(folder) == ["runs.db"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    store = stores.SqliteDatabase(path=tmp_path / "file" / "runs.db").open()
    with pytest.raises(errors.StoreError, match=r"runs\.db cannot be written: .*File exists"):
        store.begin(make_start())


def test_a_folder_that_cannot_be_entered_is_no_empty_store(tmp_path: Path) -> None:
    store = stores.SqliteDatabase(path=tmp_path / ("x" * 300) / "runs.db").open()
    with pytest.raises(errors.StoreError, match=r"runs\.db cannot be read: .*File name too long"):
        store.history()


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="the system does not list open files")
def test_no_handle_stays_open(store: RunStore, database: stores.SqliteDatabase) -> None:
    """A process that is forked must not share one: SQLite's locks are those of a process."""
    store.begin(make_start())
    store.save(make_record("r"))
    store.save(make_record("s"))
    store.history(limit=1)
    names = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
    assert not [name for name in names if name.startswith(str(database.path))]


def test_a_run_learns_from_those_before(
    store: RunStore, database: stores.SqliteDatabase, caplog: pytest.LogCaptureFixture
) -> None:
    run = Run(run_id="new", clock=lambda: 1, store=store)
    assert run.efforts("db.t") == Run(run_id="new", clock=lambda: 1).efforts("db.t") == ([], [])
    store.save(make_record("r", effort=Effort(encoded_bytes=10**9, encode_seconds=20)))
    assert rates.learn(*run.efforts("db.t")).encoding == Rate(bytes_per_second=50e6, origin=RateOrigin.TABLE, runs=1)
    assert rates.learn(*run.efforts("db.u")).encoding == Rate(bytes_per_second=50e6, origin=RateOrigin.OTHERS, runs=1)
    database.path.write_text("no database" * 1000)
    assert run.efforts("db.t") == ([], [])
    assert "is not a run store" in caplog.text
