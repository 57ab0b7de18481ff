"""Old entries leave the store, for every place that a store may be in."""

from __future__ import annotations

import pytest
from tests.factories import stores
from tests.factories.stores import make_record, make_start

from iceberg_compaction.model.retention_periods import DAY_MS, RetentionPeriods
from iceberg_compaction.model.run_figures import HealthEntry, TableFigures
from iceberg_compaction.record import health_log
from iceberg_compaction.record.checkpoint import checkpoints
from iceberg_compaction.record.entries import keys
from iceberg_compaction.record.entries.memory import MemoryEntries
from iceberg_compaction.record.rules import retention
from iceberg_compaction.record.store import RunStore

DAY = DAY_MS
NOW = 1000 * DAY
KEPT = RetentionPeriods(history_ms=100 * DAY, events_ms=10 * DAY, health_ms=50 * DAY)


@pytest.fixture
def store(every_place: stores.Place) -> RunStore:
    return RunStore(every_place.entries(), KEPT)


def add_run(store: RunStore, run_id: str, started_ms: int, events: int = 3) -> None:
    store.save(make_record(run_id, started_ms=started_ms))
    for first in range(0, events, 90):
        numbers = range(first, min(events, first + 90))
        store.entries.change({keys.key("event", run_id, number): "{}" for number in numbers})
    store.entries.change({keys.key("progress", run_id): "{}"})


def look(table: str, at_ms: int) -> HealthEntry:
    figures = TableFigures(snapshot_id=1, data_files=1, small_files=0, bytes=1)
    return HealthEntry(catalog="c", table=table, at_ms=at_ms, figures=figures)


def run_ids_with_events(store: RunStore) -> set[str]:
    return {keys.words(entry.key)[1] for entry in store.entries.scan("event/")}


def test_old_runs_go_with_their_events_and_newer_ones_lose_their_events_first(store: RunStore) -> None:
    for age in (300, 101, 99, 11, 9, 0):
        add_run(store, f"r{age}", NOW - age * DAY)
    store.begin(make_start("new", started_ms=NOW))
    assert [record.run_id for record in store.history()] == ["r0", "r9", "r11", "r99"]
    assert [record.run_id for record in store.history("db.t", "compacted")] == ["r0", "r9", "r11", "r99"]
    assert run_ids_with_events(store) == {"r0", "r9"}
    assert {entry.key for entry in store.entries.scan("progress/")} == {"progress/r0", "progress/r9"}
    assert not [entry for entry in store.entries.scan("") if "r300" in entry.key or "r101" in entry.key]


def test_old_events_of_runs_that_are_nowhere_else_go(store: RunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """They died before they were in the journal, or their journal was recovered and forgotten."""
    monkeypatch.setattr(retention, "_STRAYS", 2)
    add_run(store, "in-history", NOW - 9 * DAY)
    store.begin(make_start("in-journal", started_ms=NOW - 900 * DAY))
    for run_id, age in {"died-early": 11, "died-long-ago": 300, "young": 9, "in-journal": 900}.items():
        events = {keys.key("event", run_id, number): f'{{"at_ms": {NOW - age * DAY + number}}}' for number in range(3)}
        store.entries.change({**events, keys.key("progress", run_id): "{}"})
    store.entries.change({"event/damaged/0000000000000000": "?"})
    for turn in range(3):
        store.begin(make_start(f"new{turn}", started_ms=NOW + turn * retention.EVERY_MS))
    assert run_ids_with_events(store) == {"in-history", "in-journal", "young"}
    names = {"in-history", "in-journal", "young"}
    assert {keys.words(entry.key)[1] for entry in store.entries.scan("progress/")} == names


def test_checkpoints_are_kept_for_the_period_that_is_set() -> None:
    store = RunStore(MemoryEntries(), KEPT.model_copy(update={"checkpoints_ms": 2 * DAY}))
    kept = checkpoints.Checkpoints(store.entries)
    for age in (3, 1):
        head = stores.make_head(f"r{age}", saved_ms=NOW - age * DAY)
        kept.create(head, stores.StoredPlan())  # type: ignore[arg-type]
    store.begin(make_start("new", started_ms=NOW))
    assert [held.head.run_id for held in kept.heads()] == ["r1"]


def test_the_journal_stays_and_looks_at_health_go(store: RunStore) -> None:
    store.begin(make_start("dead", started_ms=NOW - 900 * DAY))
    health = health_log.HealthLog(entries=store.entries)
    health.save([look(table, NOW - age * DAY) for table in ("db.a", "db.b") for age in (500, 51, 49, 1)])
    store.begin(make_start("new", started_ms=NOW))
    assert [run.start.run_id for run in store.unfinished("t")] == ["dead", "new"]
    for table in ("db.a", "db.b"):
        assert [(NOW - each.at_ms) // DAY for each in health.of_table("c", table)] == [1, 49]


def test_a_run_with_very_many_events_is_removed_in_several_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retention, "_EVENTS", 100)
    store = RunStore(MemoryEntries(), KEPT)
    add_run(store, "big", NOW - 200 * DAY, events=250)
    for turn in range(4):
        removal = retention.Removal(store.entries, KEPT, NOW + turn * retention.EVERY_MS, _events_left=100)
        removal.perform()
    assert (store.history(), run_ids_with_events(store)) == ([], set())


def test_removal_rests_between_two_turns_and_goes_on_where_it_was() -> None:
    store = RunStore(MemoryEntries(), KEPT)
    store.begin(make_start("a", started_ms=NOW))
    for number in range(250):
        add_run(store, f"r{number:03}", NOW - 200 * DAY + number)
    store.begin(make_start("b", started_ms=NOW + retention.EVERY_MS - 1))
    assert len(store.history(limit=1000)) == 250
    for turn in range(1, 4):
        store.begin(make_start(f"c{turn}", started_ms=NOW + turn * retention.EVERY_MS))
        assert len(store.history(limit=1000)) == max(0, 250 - 100 * turn)
    assert run_ids_with_events(store) == set()
