"""The contract of `record.store.RunStore`, for every database that a store may be in."""

from __future__ import annotations

import json
from concurrent import futures
from typing import TYPE_CHECKING

import pytest
from tests.factories import stores
from tests.factories.stores import ATTEMPT, make_record, make_start

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import UnfinishedRun

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.record.store import RunStore

MONTH = 31 * 24 * 3_600_000
UPDATE_JOURNAL = "update journal set start = :text where run_id = :run_id"
UPDATE_RUNS = "update runs set record = :text where run_id = :run_id"


@pytest.fixture(params=["sqlite"])
def database(tmp_path: Path) -> stores.SqliteDatabase:
    return stores.SqliteDatabase(path=tmp_path / "state" / "runs.db")


@pytest.fixture
def store(database: stores.SqliteDatabase) -> RunStore:
    return database.open()


def unfinished_ids(store: RunStore, table_uuid: str = "t") -> list[str]:
    return [run.start.run_id for run in store.unfinished(table_uuid)]


def test_reading_a_store_that_does_not_exist_creates_nothing(store: RunStore, database: stores.SqliteDatabase) -> None:
    assert store.history() == store.unfinished("t") == []
    assert store.efforts("db.t") == ([], [])
    assert store.attempt("a") is None
    assert not database.exists()


def test_a_run_is_in_the_journal_until_it_has_finished(store: RunStore) -> None:
    assert store.begin(make_start())
    store.begin(make_start("b", table_uuid="other"))
    store.heartbeat("a", 20)
    assert store.unfinished("t") == [UnfinishedRun(start=make_start(), heartbeat_ms=20, ended=False, attempt=None)]
    assert store.publishing("a", ATTEMPT)
    assert store.unfinished("t") == [UnfinishedRun(start=make_start(), heartbeat_ms=30, ended=False, attempt=ATTEMPT)]
    assert [run.start.run_id for run in store.unfinished()] == ["a", "b"]
    store.finish("a")
    assert store.unfinished("t") == []
    assert unfinished_ids(store, "other") == ["b"]


def test_another_process_sees_runs_oldest_first_with_their_claims(
    store: RunStore, database: stores.SqliteDatabase
) -> None:
    claims = ((0, '{"city": "Zürich"}'), (1, "{}"))
    store.begin(make_start("late", started_ms=30))
    store.begin(make_start("z", started_ms=20, claims=claims))
    store.begin(make_start("b", started_ms=20))
    runs = database.open().unfinished("t")
    assert [run.start.run_id for run in runs] == ["b", "z", "late"]
    assert runs[1].start.claims == claims


def test_a_run_that_begins_again_runs_again_and_may_have_left_files(store: RunStore) -> None:
    store.begin(make_start())
    store.end("a", 20)
    (run,) = store.unfinished("t")
    assert (run.ended, run.taken_over, run.heartbeat_ms) == (True, False, 20)
    assert not store.publishing("a", ATTEMPT)
    assert not store.begin(make_start(started_ms=40))
    (run,) = store.unfinished("t")
    assert (run.ended, run.heartbeat_ms) == (False, 40)
    assert store.publishing("a", ATTEMPT)


def test_the_last_attempt_is_kept_with_the_snapshots_that_were_committed(store: RunStore) -> None:
    store.begin(make_start())
    assert store.attempt("a") is None
    store.publishing("a", ATTEMPT)
    second = ATTEMPT.model_copy(update={"snapshot_id": 9, "metadata": "file:///t/metadata/2.metadata.json"})
    store.publishing("a", second)
    store.committed("a", second.model_copy(update={"landed": (8, 9)}))
    assert store.attempt("a") == second.model_copy(update={"landed": (8, 9)})
    store.finish("a")
    assert store.attempt("a") is None


def test_a_run_that_is_taken_over_may_not_publish(store: RunStore) -> None:
    """R49."""
    store.begin(make_start())
    store.publishing("a", ATTEMPT)
    taken = store.take_over(store.unfinished("t")[0])
    assert taken == UnfinishedRun(start=make_start(), heartbeat_ms=30, ended=True, taken_over=True, attempt=ATTEMPT)
    later = ATTEMPT.model_copy(update={"snapshot_id": 9})
    assert not store.publishing("a", later)
    store.end("a", 35)
    assert store.unfinished("t")[0].taken_over
    assert not store.begin(make_start())  # it does not come back by beginning again
    assert not store.publishing("a", later)
    store.mark_recovered("a", 40)
    assert not store.begin(make_start())
    assert not store.publishing("a", later)
    assert store.attempt("a") == ATTEMPT
    assert store.unfinished("t") == []


def test_a_run_that_is_not_in_the_journal_may_not_publish(store: RunStore) -> None:
    """R49: its entry may have been lost with the store."""
    assert not store.publishing("a", ATTEMPT)
    store.begin(make_start())
    store.finish("a")
    assert not store.publishing("a", ATTEMPT)
    assert store.unfinished("t") == []


@pytest.mark.parametrize("event", ["heartbeat", "publishing", "finish", "mark_recovered"])
def test_a_run_is_not_taken_over_if_it_has_changed_since_it_was_read(store: RunStore, event: str) -> None:
    store.begin(make_start())
    (read,) = store.unfinished("t")
    match event:
        case "heartbeat":
            store.heartbeat("a", 20)
        case "publishing":
            store.publishing("a", ATTEMPT)
        case "finish":
            store.finish("a")
        case _:
            store.mark_recovered("a", 20)
    assert store.take_over(read) is None
    assert not any(run.taken_over for run in store.unfinished("t"))


def test_whoever_takes_over_gets_the_attempt_that_was_noted_since(store: RunStore) -> None:
    """Also where two clocks that differ show the same time."""
    store.begin(make_start())
    (read,) = store.unfinished("t")
    attempt = ATTEMPT.model_copy(update={"at_ms": read.heartbeat_ms})
    assert store.publishing("a", attempt)
    taken = store.take_over(read)
    assert taken is not None
    assert taken.attempt == attempt


def test_publishing_and_taking_over_at_once_have_one_winner(store: RunStore, database: stores.SqliteDatabase) -> None:
    """R49: never is a snapshot published that whoever took over does not know of."""
    run_ids = [str(number) for number in range(30)]
    for run_id in run_ids:
        store.begin(make_start(run_id))
    published, taken = stores.at_once(database, run_ids, stores.publish_at_heartbeat, stores.take_over_as_begun)
    assert [run.attempt is not None for run in taken] == published
    assert not any(store.publishing(run_id, ATTEMPT) for run_id in run_ids)


def test_of_two_that_begin_the_same_run_one_is_first(database: stores.SqliteDatabase) -> None:
    """The first of all creates the store."""
    run_ids = [str(number) for number in range(10)]
    first, second = stores.at_once(database, run_ids, stores.begin_again, stores.begin_again)
    assert [one != other for one, other in zip(first, second, strict=True)] == [True] * len(run_ids)
    assert sorted(unfinished_ids(database.open())) == run_ids


def test_many_may_write_at_once(store: RunStore, database: stores.SqliteDatabase) -> None:
    def work(number: int) -> None:
        own = database.open() if number % 3 else store
        own.begin(make_start(str(number)))
        own.heartbeat(str(number), 50)
        if number % 2:
            own.finish(str(number))

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert sorted(map(int, unfinished_ids(store))) == list(range(0, 16, 2))


def test_what_a_process_noted_before_it_was_killed_is_there(store: RunStore, database: stores.SqliteDatabase) -> None:
    stores.publish_and_die(database, ATTEMPT)
    (run,) = store.unfinished("t")
    assert (run.ended, run.attempt) == (False, ATTEMPT)


def test_recovered_runs_are_forgotten_after_a_month(store: RunStore) -> None:
    for run_id, recovered_ms in (("early", 10), ("late", MONTH)):
        store.begin(make_start(run_id))
        store.mark_recovered(run_id, recovered_ms)
    store.begin(make_start("open"))
    store.begin(make_start("new", started_ms=10 + MONTH))
    assert unfinished_ids(store) == ["open", "new"]
    assert store.begin(make_start("early"))  # as if it had never been there
    assert not store.begin(make_start("late"))


def test_history_is_newest_first_of_one_table_or_of_all(store: RunStore) -> None:
    records = [make_record(f"r{number}", f"db.{'tu'[number % 2]}", number) for number in range(4)]
    for record in records:
        store.save(record)
    assert store.history() == records[::-1]
    assert store.history("db.t") == [records[2], records[0]]
    assert store.history("db.t", limit=1) == [records[2]]
    assert store.history("db.other") == []


def test_a_record_that_is_saved_again_replaces_the_first(store: RunStore) -> None:
    store.save(make_record("r", kind=Kind.FAILED))
    store.save(make_record("r", "db.u", 20))
    assert store.history() == [make_record("r", "db.u", 20)]
    assert store.history("db.t") == []


def test_efforts_are_those_of_the_newest_runs_that_did_any_work(store: RunStore) -> None:
    efforts = [
        Effort(copied_bytes=size, copy_seconds=1.5, encoded_bytes=size // 2, encode_seconds=2.25)
        for size in (100, 200, 300, 400)
    ]
    for number, (table, effort) in enumerate(zip(["db.t", "db.u", "db.t", "db.v"], efforts, strict=True)):
        kind = Kind.FAILED if number == 2 else Kind.COMPACTED  # commits before the failure count
        store.save(make_record(f"r{number}", table, 10 * number, effort=effort, kind=kind))
    store.save(make_record("healthy", "db.t", 98, kind=Kind.HEALTHY))
    store.save(make_record("idle", "db.t", 99))
    assert store.efforts("db.t") == ([efforts[2], efforts[0]], [efforts[3], efforts[1]])
    assert store.efforts("db.t", limit=1) == ([efforts[2]], [efforts[3]])


@pytest.mark.parametrize("damage", ["newer", "torn"])
def test_rows_that_cannot_be_read_are_passed_over_with_one_warning_and_kept(
    store: RunStore, database: stores.SqliteDatabase, caplog: pytest.LogCaptureFixture, damage: str
) -> None:
    effort = Effort(copied_bytes=10, copy_seconds=1)
    for run_id in ("odd", "old"):
        store.begin(make_start(run_id))
        store.save(make_record(run_id, effort=effort))
    start, record = "ÿ{", "ÿ{"
    if damage == "newer":
        outcome = make_record("odd").outcome.model_dump(mode="json") | {"effort": {"copied": "10 bytes"}}
        start = json.dumps(make_start("odd").model_dump(mode="json") | {"fence": 7})
        record = json.dumps(make_record("odd").model_dump(mode="json") | {"outcome": outcome})
    database.execute(UPDATE_JOURNAL, run_id="odd", text=start)
    database.execute(UPDATE_RUNS, run_id="odd", text=record)
    for _ in range(2):
        assert unfinished_ids(store) == ["old"]
        assert [run.run_id for run in store.history(limit=1)] == ["old"]
        assert store.efforts("db.t") == ([effort], [])
    assert caplog.text.count("Run odd in the run store") == 1
    store.mark_recovered("odd", 10)
    store.begin(make_start("next", started_ms=10 + MONTH))  # forgets recovered runs that it can read
    store.save(make_record("next", started_ms=20))
    (kept,) = database.execute("select start, settled_ms from journal where run_id = 'odd'")
    assert kept == (start, 10)
    assert database.execute("select record from runs where run_id = 'odd'") == [(record,)]


def test_a_run_whose_entry_cannot_be_read_is_still_refused_once_it_has_ended(
    store: RunStore, database: stores.SqliteDatabase
) -> None:
    """A version that cannot read the entry may not answer for it either way but by its columns."""
    store.begin(make_start())
    database.execute(UPDATE_JOURNAL, run_id="a", text="{}")
    store.end("a", 20)
    assert not store.publishing("a", ATTEMPT)
