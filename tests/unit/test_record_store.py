"""The store of runs: its journal, and that many processes may use it."""

from __future__ import annotations

import json
import sqlite3
import uuid
from concurrent import futures
from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors
from iceberg_compaction.catalog import run_names
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import run_record
from iceberg_compaction.model.copy_plan import Origin, Rate, Rates
from iceberg_compaction.model.outcome import Kind, Outcome
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.operations.runs import Run
from iceberg_compaction.record import processes

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.record.store import RunStore

MONTH = 31 * 24 * 3_600_000
ATTEMPT = run_record.Attempt(snapshot_id=8, parent_snapshot_id=7, sequence_number=5, at_ms=30)


def make_start(run_id: str = "a", *, table_uuid: str = "t", started_ms: int = 10) -> run_record.RunStart:
    return run_record.RunStart(
        run_id=run_id,
        table="db.t",
        table_uuid=table_uuid,
        table_location="file:///t",
        data_path="file:///t/data",
        metadata_path="file:///t/metadata",
        branch="main",
        process=processes.this_process(),
        started_ms=started_ms,
    )


@pytest.fixture
def state(tmp_path: Path) -> Path:
    return tmp_path / "runs.db"


@pytest.fixture
def store(state: Path) -> RunStore:
    return wiring.run_store(state)


def test_a_run_is_in_the_journal_until_it_has_finished(store: RunStore) -> None:
    assert store.begin(make_start())
    store.begin(make_start("b", table_uuid="other"))
    store.heartbeat("a", 20)
    assert store.unfinished("t") == [
        run_record.UnfinishedRun(start=make_start(), heartbeat_ms=20, ended=False, attempt=None)
    ]
    assert store.publishing("a", ATTEMPT)
    assert store.unfinished("t")[0].attempt == ATTEMPT
    store.finish("a")
    assert store.unfinished("t") == []


def test_a_run_that_goes_on_is_still_known_to_have_left_something(store: RunStore) -> None:
    store.begin(make_start())
    store.end("a", 20)
    assert store.unfinished("t")[0].ended
    assert not store.begin(make_start(started_ms=30))
    assert not store.unfinished("t")[0].ended


def test_a_run_taken_for_dead_may_not_publish(store: RunStore) -> None:
    """R49."""
    store.begin(make_start())
    seen = store.unfinished("t")[0]
    store.heartbeat("a", 20)
    assert store.take_over(seen) is None  # it has just given a sign of life
    assert store.publishing("a", ATTEMPT)
    taken = store.take_over(store.unfinished("t")[0])
    assert taken is not None
    assert taken.attempt == ATTEMPT
    assert not store.publishing("a", ATTEMPT)
    store.end("a", 35)
    store.begin(make_start())  # nor does it come back to life by beginning again
    assert not store.publishing("a", ATTEMPT)
    store.mark_recovered("a", 40)
    assert not store.publishing("a", ATTEMPT)
    assert store.unfinished("t") == []


def test_settled_runs_are_forgotten_after_a_month(store: RunStore, state: Path) -> None:
    store.begin(make_start())
    store.mark_recovered("a", 10)
    store.begin(make_start("b", started_ms=10 + MONTH))
    connection = sqlite3.connect(state)
    assert connection.execute("select run_id from journal").fetchall() == [("b",)]
    connection.close()
    assert not store.publishing("a", ATTEMPT)


def test_a_run_that_is_in_the_journal_is_told_so_though_others_cannot_be_forgotten(
    store: RunStore, state: Path
) -> None:
    """Else it would go on as if nobody could take it for dead."""
    store.begin(make_start())
    store.mark_recovered("a", 10)
    connection = sqlite3.connect(state)
    connection.execute("create trigger full before delete on journal begin select raise(abort, 'disk is full'); end")
    connection.close()
    assert store.begin(make_start("b", started_ms=10 + MONTH))
    assert [run.start.run_id for run in store.unfinished("t")] == ["b"]


def test_what_was_written_down_since_is_known_to_whoever_takes_over(store: RunStore) -> None:
    """Also where two clocks that differ show the same time."""
    store.begin(make_start())
    seen = store.unfinished("t")[0]
    assert store.publishing("a", ATTEMPT.model_copy(update={"at_ms": seen.heartbeat_ms}))
    taken = store.take_over(seen)
    assert taken is not None
    assert taken.attempt is not None


def test_a_run_that_nobody_knows_may_not_publish(store: RunStore, state: Path) -> None:
    store.begin(make_start())
    state.unlink()
    assert not store.publishing("a", ATTEMPT)


def test_rows_of_a_newer_version_are_passed_over_and_kept(
    store: RunStore, state: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for run_id in ("new", "old", "torn"):
        store.begin(make_start(run_id))
        store.save(make_record(run_id, "db.t", 10, Effort(copied_bytes=10, copy_seconds=1)))
    newer = json.loads(make_start("new").model_dump_json()) | {"fence": 7}
    record = json.loads(store.history()[0].model_dump_json()) | {"fence": 7}
    record["outcome"]["effort"]["copied_bytes"] = "10 bytes"
    connection = sqlite3.connect(state)
    with connection:
        connection.execute("alter table runs add column fence integer")
        for run_id, start, told in (("new", newer, record), ("torn", None, None)):
            text = [json.dumps(one) if one else b"\xff{".decode("latin1") for one in (start, told)]
            connection.execute("update journal set start = ?, settled_ms = 5 where run_id = ?", (text[0], run_id))
            connection.execute("update runs set record = ? where run_id = ?", (text[1], run_id))
        connection.execute("update journal set attempt = cast(x'ff' as text) where run_id = 'torn'")
        connection.execute("update journal set settled_ms = null where run_id = 'torn'")
    for _ in range(2):
        assert [run.start.run_id for run in store.unfinished("t")] == ["old"]
        assert [one.run_id for one in store.history(limit=1)] == ["old"]
        assert store.efforts("db.t") == ([Effort(copied_bytes=10, copy_seconds=1)], [])
    store.begin(make_start("next", started_ms=10 + MONTH))
    store.save(make_record("next", "db.t", 20, Effort()))
    assert len(connection.execute("select 1 from journal").fetchall()) == 4
    assert len(connection.execute("select 1 from runs").fetchall()) == 4
    connection.close()
    assert caplog.text.count("Run new in the run store") == caplog.text.count("Run torn in the run store") == 1


def test_a_store_without_a_journal_gets_one(store: RunStore, state: Path) -> None:
    connection = sqlite3.connect(state)
    connection.execute(
        "create table runs (run_id text primary key, table_name text not null, kind text not null,"
        " started_ms integer not null, finished_ms integer not null, record text not null)"
    )
    connection.close()
    assert store.begin(make_start())
    assert store.history() == []


def make_record(run_id: str, table: str, started_ms: int, effort: Effort) -> run_record.RunRecord:
    outcome = Outcome(kind=Kind.COMPACTED, table=table, sentence="Done.", run_id=run_id, effort=effort)
    return run_record.RunRecord(
        run_id=run_id, table=table, version="1", started_ms=started_ms, finished_ms=started_ms + 1, outcome=outcome
    )


def test_what_runs_took_is_remembered(store: RunStore, state: Path) -> None:
    assert store.efforts("db.t") == ([], [])
    assert not state.exists()  # looking leaves nothing behind
    took = [
        Effort(copied_bytes=size, copy_seconds=1.5, encoded_bytes=size // 2, encode_seconds=2.25)
        for size in (100, 200, 300, 400)
    ]
    for number, (table, effort) in enumerate(zip(["db.t", "db.u", "db.t", "db.v"], took, strict=True)):
        store.save(make_record(f"r{number}", table, 10 * number, effort))
    store.save(make_record("idle", "db.t", 99, Effort()))
    assert store.efforts("db.t") == ([took[2], took[0]], [took[3], took[1]])
    assert store.efforts("db.t", limit=1) == ([took[2]], [took[3]])
    assert store.history("db.t")[1].outcome.effort == took[2]


def test_records_of_before_tell_nothing_of_efforts(store: RunStore, state: Path) -> None:
    entry = make_record("r", "db.t", 1, Effort(copied_bytes=5, copy_seconds=1))
    store.save(entry)
    told = entry.model_dump(mode="json")
    del told["outcome"]["effort"]
    connection = sqlite3.connect(state)
    with connection:
        connection.execute("update runs set record = ?", (json.dumps(told),))
    connection.close()
    assert store.efforts("db.t") == ([], [])
    assert store.history()[0].outcome.effort == Effort()


def test_a_run_learns_from_those_before(store: RunStore, state: Path, caplog: pytest.LogCaptureFixture) -> None:
    run = Run(run_id="new", clock=lambda: 1, store=store)
    assert run.rates("db.t") == Run(run_id="new", clock=lambda: 1).rates("db.t") == Rates()
    store.save(make_record("r", "db.t", 1, Effort(encoded_bytes=10**9, encode_seconds=20)))
    assert run.rates("db.t").encoding == Rate(bytes_per_second=50e6, origin=Origin.TABLE, runs=1)
    assert run.rates("db.u").encoding == Rate(bytes_per_second=50e6, origin=Origin.OTHERS, runs=1)
    state.write_text("no database" * 1000)
    assert run.rates("db.t") == Rates()
    assert "file is not a database" in caplog.text


def test_a_store_that_is_none_is_told(tmp_path: Path) -> None:
    (tmp_path / "runs.db").write_text("this is no database, however long one looks at it" * 100)
    with pytest.raises(errors.StoreError, match=r"runs\.db cannot be written: file is not a database"):
        wiring.run_store(tmp_path / "runs.db").begin(make_start())


def test_many_may_write_at_once(store: RunStore, state: Path) -> None:
    def work(number: int) -> None:
        own = wiring.run_store(state)
        own.begin(make_start(str(number)))
        own.heartbeat(str(number), 50)
        if number % 2:
            own.finish(str(number))

    with futures.ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(16)))
    assert sorted(int(run.start.run_id) for run in store.unfinished("t")) == list(range(0, 16, 2))


def test_a_run_recognises_its_files_by_name() -> None:
    run_id = uuid.uuid4().hex
    assert run_names.is_distinct(run_id)
    assert not run_names.is_distinct("run-1")
    assert run_names.is_of(run_id, f"s3://b/t/data/00000-0-ab-{run_id}-00000.parquet")
    assert run_names.is_of(run_id, f"s3://b/t/metadata/00003-{str(uuid.UUID(run_id))[:28]}00000000.metadata.json")
    assert not run_names.is_of(run_id, f"s3://b/{run_id}/data/other.parquet")
    assert not run_names.is_of(run_id, f"s3://b/t/metadata/00003-{uuid.uuid4()}.metadata.json")
