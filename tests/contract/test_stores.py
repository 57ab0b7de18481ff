"""The contract of `record.store.RunStore`, for every place that a store may be in."""

from __future__ import annotations

import itertools
import json
from concurrent import futures
from typing import TYPE_CHECKING

import pytest
from tests.factories import stores
from tests.factories.stores import ATTEMPT, make_record, make_start

from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome, Kind
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.model.run_record import UnfinishedRun

if TYPE_CHECKING:
    from iceberg_compaction.record.store import RunStore

MONTH = 31 * 24 * 3_600_000


@pytest.fixture
def store(every_place: stores.Place) -> RunStore:
    return every_place.open()


def unfinished_ids(store: RunStore, table_uuid: str = "t") -> list[str]:
    return [run.start.run_id for run in store.unfinished(table_uuid)]


def test_reading_a_store_that_does_not_exist_creates_nothing(store: RunStore, every_place: stores.Place) -> None:
    assert store.history() == store.unfinished("t") == []
    assert store.efforts("db.t") == ([], [])
    assert store.attempt("a") is None
    assert not every_place.exists()


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


def test_another_process_sees_runs_oldest_first_with_their_claims(store: RunStore, every_place: stores.Place) -> None:
    claims = ((0, '{"city": "Zürich"}'), (1, "{}"))
    store.begin(make_start("late", started_ms=30))
    store.begin(make_start("z", started_ms=20, claims=claims))
    store.begin(make_start("b", started_ms=20))
    runs = every_place.open().unfinished("t")
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


def test_commits_of_a_dead_runs_files_by_others_are_kept_beside_its_own(store: RunStore) -> None:
    store.begin(make_start())
    store.begin(make_start("b"), landed=(5,))
    first = store.committed_by_another("a", (6, 7))
    assert first == store.attempt("a")
    assert first is not None
    assert (first.snapshot_id, first.landed) == (None, (6, 7))
    assert store.committed_by_another("a", (7,)) is None
    assert store.committed_by_another("unknown", (7,)) is None
    store.committed("a", ATTEMPT.model_copy(update={"landed": (8,)}))
    assert store.attempt("a") == ATTEMPT.model_copy(update={"landed": (6, 7, 8)})
    again = store.attempt("b")
    assert again is not None
    assert again.landed == again.may_have_landed == (5,)


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


def test_publishing_and_taking_over_at_once_have_one_winner(store: RunStore, every_place: stores.Place) -> None:
    """R49: never is a snapshot published that whoever took over does not know of."""
    run_ids = [str(number) for number in range(30)]
    for run_id in run_ids:
        store.begin(make_start(run_id))
    published, taken = stores.at_once(every_place, run_ids, stores.publish_at_heartbeat, stores.take_over_as_begun)
    assert [run.attempt is not None for run in taken] == published
    assert not any(store.publishing(run_id, ATTEMPT) for run_id in run_ids)


def test_of_two_that_begin_the_same_run_one_is_first(every_place: stores.Place) -> None:
    """The first of all creates the store."""
    run_ids = [str(number) for number in range(10)]
    first, second = stores.at_once(every_place, run_ids, stores.begin_again, stores.begin_again)
    assert [one != other for one, other in zip(first, second, strict=True)] == [True] * len(run_ids)
    assert sorted(unfinished_ids(every_place.open())) == run_ids


def test_of_two_that_want_the_same_lease_one_gets_it(every_place: stores.Place) -> None:
    tables = [str(number) for number in range(50)]
    first, second = stores.at_once(every_place, tables, stores.take_lease, stores.take_lease)
    assert [(one is None) != (other is None) for one, other in zip(first, second, strict=True)] == [True] * len(tables)


def test_many_may_write_at_once(store: RunStore, every_place: stores.Place) -> None:
    def work(number: int) -> None:
        own = every_place.open() if number % 3 else store
        own.begin(make_start(str(number)))
        own.heartbeat(str(number), 50)
        if number % 2:
            own.finish(str(number))

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert sorted(map(int, unfinished_ids(store))) == list(range(0, 16, 2))


def test_what_a_process_noted_before_it_was_killed_is_there(store: RunStore, every_place: stores.Place) -> None:
    if not every_place.outlives_processes:
        pytest.skip("It ends with its process.")
    stores.publish_and_die(every_place, ATTEMPT)
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


def test_history_is_filtered_by_table_kind_and_time(store: RunStore) -> None:
    kinds = [Kind.COMPACTED, Kind.FAILED, Kind.HEALTHY]
    records = [make_record(f"r{at}", f"db.{'tu'[at % 2]}", 10 * at, kind=kinds[at % 3]) for at in range(12)]
    for record in records:
        store.save(record)
    for table, kind, since_ms, until_ms in itertools.product(
        [None, "db.t", "db"], [None, Kind.FAILED, "healthy"], [None, 30, 31], [None, 90, 89]
    ):
        expected = [
            record
            for record in reversed(records)
            if (table is None or record.table == table)
            and (kind is None or record.outcome.kind == kind)
            and (since_ms is None or record.started_ms >= since_ms)
            and (until_ms is None or record.started_ms <= until_ms)
        ]
        assert store.history(table, kind, since_ms, until_ms) == expected
        assert store.history(table, kind, since_ms, until_ms, limit=2) == expected[:2]


def test_a_run_is_looked_up_by_its_id_or_the_beginning_of_it(store: RunStore) -> None:
    for run_id in ("ab1", "ab2", "b/ é", "c"):
        store.save(make_record(run_id))
    store.begin(make_start("abc"))
    assert store.run("b/ é") == make_record("b/ é")
    assert store.run("ab") is None
    assert store.run_ids("ab") == ["ab1", "ab2", "abc"]
    assert store.run_ids("b/") == ["b/ é"]
    assert store.run_ids("x") == []
    assert store.run_ids("", limit=2) == ["ab1", "ab2"]


def test_long_records_and_starts_are_kept(store: RunStore) -> None:
    claims = tuple((0, json.dumps({"city": f"Zürich {at}", "day": at})) for at in range(20_000))
    store.begin(make_start(claims=claims))
    assert store.unfinished("t")[0].start.claims == claims
    groups = tuple(
        GroupOutcome(id=at, partition="{}", outcome=GroupEnd.FAILED, sentence=f"The file {at} is damaged. " * 40)
        for at in range(1000)
    )
    record = make_record("r", kind=Kind.FAILED)
    long = record.model_copy(update={"outcome": record.outcome.model_copy(update={"group_outcomes": groups})})
    store.save(long)
    assert store.history() == [long]


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
    store: RunStore, every_place: stores.Place, caplog: pytest.LogCaptureFixture, damage: str
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
    entries = every_place.entries()
    row = json.loads(entries.get(["run/odd"])["run/odd"].value) | {"record": record}
    entries.change({"start/odd": start, "run/odd": json.dumps(row)})
    for entry in [*entries.scan("efforts/"), *entries.scan("efforts-by-table/")]:
        if "odd" in entry.key:
            entries.change({entry.key: '{"copied": "10 bytes"}'})
    for _ in range(2):
        assert unfinished_ids(store) == ["old"]
        assert [run.run_id for run in store.history(limit=1)] == ["old"]
        assert store.efforts("db.t") == ([effort], [])
    assert caplog.text.count("Run odd in the run store") == 1
    store.mark_recovered("odd", 10)
    store.begin(make_start("next", started_ms=10 + MONTH))  # forgets recovered runs that it can read
    store.save(make_record("next", started_ms=20))
    kept = entries.get(["start/odd", "run/odd", "journal/odd"])
    assert (kept["start/odd"].value, kept["run/odd"].value) == (start, json.dumps(row))
    assert json.loads(kept["journal/odd"].value)["recovered_ms"] == 10


def test_a_run_whose_entry_cannot_be_read_is_still_refused_once_it_has_ended(
    store: RunStore, every_place: stores.Place
) -> None:
    """A version that cannot read the entry may not answer for it either way but by its columns."""
    store.begin(make_start())
    every_place.entries().change({"start/a": "{}"})
    store.end("a", 20)
    assert not store.publishing("a", ATTEMPT)
    every_place.entries().change({"journal/a": "{"})
    assert not store.publishing("a", ATTEMPT)
    assert not store.begin(make_start())
