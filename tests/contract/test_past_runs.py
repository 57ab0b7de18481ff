"""Past runs by table, outcome and time, and a run that is followed, in every place that a store may be in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories.stores import begin_with_checkpoint, make_record, make_start

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.record import past_runs, processes
from iceberg_compaction.record.reports import follow_run, report_run

if TYPE_CHECKING:
    from tests.factories.stores import Place

    from iceberg_compaction.record.store import RunStore


@pytest.fixture
def store(every_place: Place) -> RunStore:
    """Runs on tables with plain and awkward names."""
    store = every_place.open()
    tables = ["shop.events", "shop.orders", 'shop."a.b"', "lager.größen", "shop.events"]
    for number, table in enumerate(tables):
        kind = Kind.FAILED if table == "shop.orders" else Kind.COMPACTED
        store.save(make_record(f"run{number}", table, started_ms=1000 * number, kind=kind))
    return store


def ids(store: RunStore, **wanted: object) -> list[str]:
    return [record.run_id for record in past_runs.select(store, past_runs.HistoryFilter(**wanted))]  # type: ignore[arg-type]


def test_runs_are_selected_by_patterns_of_names(store: RunStore) -> None:
    assert ids(store) == ["run4", "run3", "run2", "run1", "run0"]
    assert ids(store, tables=("shop.*",)) == ["run4", "run2", "run1", "run0"]
    assert ids(store, tables=("lager.gr*",)) == ["run3"]
    assert ids(store, tables=("*",), limit=2) == ["run4", "run3"]
    assert ids(store, tables=("shop.o*", "shop.events")) == ["run4", "run1", "run0"]
    assert ids(store, tables=("shop.o*", "shop.*"), kinds=frozenset({Kind.FAILED})) == ["run1"]


def test_runs_of_many_tables_are_selected_as_those_of_few(store: RunStore) -> None:
    for number in range(30):
        kind = Kind.FAILED if number % 10 == 0 else Kind.COMPACTED
        store.save(make_record(f"many{number:02d}", f"many.t{number}", started_ms=10_000 + number, kind=kind))
    assert ids(store, tables=("many.*",), limit=3) == ["many29", "many28", "many27"]
    assert ids(store, tables=("many.*",), kinds=frozenset({Kind.FAILED})) == ["many20", "many10", "many00"]
    assert ids(store, tables=("many.*",), since_ms=10_003, until_ms=10_005) == ["many05", "many04", "many03"]
    assert ids(store, tables=("many.*", "shop.orders"), until_ms=10_000) == ["many00", "run1"]
    assert ids(store, tables=("many.t2?", "none.*")) == [f"many{number}" for number in range(29, 19, -1)]


def test_runs_are_selected_by_time_both_ends_included(store: RunStore) -> None:
    assert ids(store, since_ms=1000, until_ms=3000) == ["run3", "run2", "run1"]
    assert ids(store, tables=("shop.*",), since_ms=1000, until_ms=3000) == ["run2", "run1"]
    assert ids(store, tables=("shop.events", "shop.orders"), until_ms=1000) == ["run1", "run0"]


def test_a_run_that_ended_and_left_files_is_listed_once(store: RunStore) -> None:
    store.begin(make_start("run4", table="shop.events"))
    store.end("run4", 5000)
    assert past_runs.unfinished(store, past_runs.HistoryFilter(), now_ms=6000) == []


def test_a_follower_takes_silence_by_its_own_clock_for_death(store: RunStore) -> None:
    elsewhere = make_start().process
    begin_with_checkpoint(store, make_start("far", started_ms=10, process=elsewhere))
    follower = follow_run.RunFollower(store=store, run_id="far")
    now = 10**9  # the other machine's clock is far behind
    silent = make_start().silent_ms
    assert follower.end(now) is None
    store.heartbeat("far", 20)
    assert follower.end(now + silent - 1) is None
    assert follower.end(now + silent + 1) is None
    end = follower.end(now + 3 * silent)
    assert end is not None
    assert end.record is None
    assert end.command == "iceberg-compact resume far"


def test_a_run_between_its_last_sign_and_its_record_has_not_ended(store: RunStore) -> None:
    store.begin(make_start("here", process=processes.this_process()))
    follower = follow_run.RunFollower(store=store, run_id="here")
    store.finish("here")
    assert follower.end(1000) is None
    store.save(make_record("here"))
    end = follower.end(2000)
    assert end is not None
    assert end.record == make_record("here")
    store.finish("gone")
    lost = follow_run.RunFollower(store=store, run_id="gone")
    assert lost.end(0) is None
    end = lost.end(follow_run.GRACE_MS + 1)
    assert end is not None
    assert end.record is None


def test_a_report_names_the_runs_that_followed(store: RunStore) -> None:
    report = report_run.report(store, "run0", 10**6)
    assert [run.run_id for run in report.followed_by] == ["run4"]
    assert report.unknown
