"""Events of runs and the health of tables in a store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from tests.factories.stores import make_record

from iceberg_compaction.model import events
from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome
from iceberg_compaction.model.run_figures import HealthEntry, TableFigures
from iceberg_compaction.record import event_log, health_log, outbox
from iceberg_compaction.record.entries import door, keys
from iceberg_compaction.record.entries.memory import MemoryEntries

if TYPE_CHECKING:
    from tests.factories.stores import Place

    from iceberg_compaction.record.entries.door import StoreEntries

OF = {"table": "db.t", "run_id": "a"}
FIGURES = TableFigures(snapshot_id=1, data_files=4, small_files=3, bytes=400)


@pytest.fixture
def entries(every_place: Place) -> StoreEntries:
    return every_place.entries()


def rewriting(done: int, total: int = 1000) -> events.Rewriting:
    return events.Rewriting(**OF, files_done=0, files_total=4, bytes_done=done, bytes_total=total)


def log(entries: StoreEntries, *steps: tuple[int, events.Event]) -> event_log.EventLog:
    """The log after these events of run `a`."""
    box = outbox.Outbox(entries=entries)
    writer = event_log.EventWriter(outbox=box, run_id="a")
    for at_ms, event in steps:
        writer.put(event, at_ms)
    box.flush()
    return event_log.EventLog(entries=entries)


def test_events_are_read_in_order_with_their_times(entries: StoreEntries) -> None:
    steps = [(10 * number, events.Committing(**OF, groups=number)) for number in range(12)]
    logged = log(entries, *steps).events("a")
    assert [(event.number, event.at_ms, event.event) for event in logged] == [
        (number, at_ms, event) for number, (at_ms, event) in enumerate(steps)
    ]


def test_a_watcher_reads_only_the_events_after_those_it_has(entries: StoreEntries) -> None:
    story = log(entries, (1, events.Planning(**OF)), (2, events.Committing(**OF)), (3, events.Committing(**OF)))
    assert [event.number for event in story.events("a", after=0)] == [1, 2]
    assert story.events("a", after=2) == story.events("b") == []


def test_one_latest_progress_replaces_the_one_before(entries: StoreEntries) -> None:
    story = log(entries, (0, rewriting(0)), (100, rewriting(1)), (600, rewriting(300)), (700, rewriting(400)))
    assert [event.event for event in story.events("a")] == [rewriting(0)]
    assert story.progress("a") == events.LatestProgress(at_ms=600, since_ms=0, event=rewriting(300))
    assert story.progress("b") is None


def test_the_end_of_a_rewrite_is_kept_at_once_and_another_plan_begins_anew(entries: StoreEntries) -> None:
    story = log(entries, (0, rewriting(0)), (10, rewriting(1000)), (20, rewriting(0, total=50)))
    assert [event.event for event in story.events("a")] == [rewriting(0), rewriting(0, total=50)]
    assert story.progress("a") == events.LatestProgress(at_ms=20, since_ms=20, event=rewriting(0, total=50))


def test_the_end_of_a_run_is_kept_without_the_list_of_its_groups(entries: StoreEntries) -> None:
    group = GroupOutcome(id=1, partition="{}", outcome=GroupEnd.COMMITTED)
    outcome = make_record("a").outcome.model_copy(update={"group_outcomes": (group,) * 5000})
    (logged,) = log(entries, (1, events.Finished(**OF, outcome=outcome))).events("a")
    assert isinstance(logged.event, events.Finished)
    assert logged.event.outcome == outcome.model_copy(update={"group_outcomes": ()})


def test_tasks_and_failures_without_end_do_not_fill_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(event_log.MOST, "group-failed", 7)
    entries = MemoryEntries()
    failed = events.GroupFailed(**OF, group_id=1, sentence="No.")
    steps = [(1, failed)] * (event_log.MOST["group-failed"] + 5)
    assert len(log(entries, *steps).events("a")) == event_log.MOST["group-failed"]


def test_an_unreadable_event_is_left_out_with_a_warning(
    entries: StoreEntries, caplog: pytest.LogCaptureFixture
) -> None:
    story = log(entries, (1, events.Planning(**OF)), (2, events.Committing(**OF)))
    entries.change({keys.key("event", "a", 0): '{"kind": "of a newer version"}'})
    assert [event.number for event in story.events("a")] == [1]
    assert "event/a/" in caplog.text


def look(table: str, at_ms: int, files: int = 4, catalog: str = "c") -> HealthEntry:
    figures = FIGURES.model_copy(update={"data_files": files})
    return HealthEntry(at_ms=at_ms, catalog=catalog, table=table, figures=figures)


def test_the_health_of_a_table_is_read_newest_first(entries: StoreEntries) -> None:
    health = health_log.HealthLog(entries=entries)
    looks = [look("db.t", 10), look("db.t", 30), look("db.t", 20), look("db.t2", 40), look("db.t", 50, catalog="d")]
    for entry in looks:
        health.save([entry])
    assert [entry.at_ms for entry in health.of_table("c", "db.t")] == [30, 20, 10]
    assert [entry.at_ms for entry in health.of_table("c", "db.t", limit=1)] == [30]


def test_one_scan_has_the_latest_health_of_all_tables(entries: StoreEntries) -> None:
    health = health_log.HealthLog(entries=entries)
    health.save([look(f"db.t{number}", 10) for number in range(120)])
    health.save([look("db.t7", 20, files=1)])
    latest = {entry.table: entry for entry in health.latest()}
    assert len(latest) == 120
    assert (latest["db.t7"].at_ms, latest["db.t7"].figures.data_files) == (20, 1)


def test_unreadable_health_is_left_out_with_a_warning(entries: StoreEntries, caplog: pytest.LogCaptureFixture) -> None:
    health = health_log.HealthLog(entries=entries)
    health.save([look("db.t", 10), look("db.t", 20)])
    (newest, *_) = entries.scan(keys.prefix("health", "c", "db.t"))
    entries.change({newest.key: "{"})
    assert [entry.at_ms for entry in health.of_table("c", "db.t")] == [10]
    assert "unreadable" in caplog.text


def test_an_outbox_that_is_opened_again_writes_again() -> None:
    entries = MemoryEntries()
    box = outbox.Outbox(entries=entries)
    for key in ("a", "b"):
        with box:
            box.put(key, "1")
            while not entries.get([key]):  # its own thread writes it
                threading.Event().wait(0.01)
    assert [entry.key for entry in entries.scan("")] == ["a", "b"]


def test_an_entry_that_no_store_takes_is_left_out_and_keeps_no_other_waiting(
    entries: StoreEntries, caplog: pytest.LogCaptureFixture
) -> None:
    sentence = "é" * (door.LONGEST_VALUE // 2)
    steps = [events.GroupFailed(**OF, group_id=group_id, sentence=sentence) for group_id in (1, 2)]
    written = log(entries, (0, steps[0]), (1, steps[1]), (2, events.Committing(**OF)))
    assert [event.event for event in written.events("a")] == [events.Committing(**OF)]
    assert [record.getMessage() for record in caplog.records] == [
        f"What happens in this run is not written down in full: the entry {keys.key('event', 'a', 0)} is too large for "
        f"a run store ({door.LONGEST_VALUE + 109} bytes)."
    ]
