"""The scheduler of a service over real tables: what changed, what is due, who leads, and what it learns from ends."""

from __future__ import annotations

import socket
import time
import uuid
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import service_houses
from tests.factories.service_work import NO_LIMITS

from iceberg_compaction.catalog.changes import table_pointers
from iceberg_compaction.interfaces.service.scheduling import next_times
from iceberg_compaction.interfaces.service.scheduling.catalog_schedule import LostLeadError
from iceberg_compaction.interfaces.service.scheduling.scheduler_loop import SchedulerLoop
from iceberg_compaction.interfaces.service.service_settings import ServedCatalog
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.table_schedule import SchedulePause
from iceberg_compaction.model.work import WorkKind, WorkOrigin, WorkState
from iceberg_compaction.record.health_log import HealthLog
from iceberg_compaction.record.rules.work_book import WorkBook, WorkEnd
from iceberg_compaction.record.service.schedule_book import ScheduleBook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.lake import Lake

    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.table_schedule import NextTimes
    from iceberg_compaction.model.work import Work

MINUTE, HOUR, DAY = 60_000, 3_600_000, 24 * 3_600_000
NOW = 1_800_000_000_000  # a Friday, at 08:00 UTC
DONE = WorkEnd(outcome=Kind.COMPACTED)
HEALTHY = WorkEnd(outcome=Kind.HEALTHY)
FAILED = WorkEnd(state=WorkState.FAILED, outcome=Kind.FAILED, sentence="A file is damaged.")


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = lakes.file_lake(tmp_path)
    yield made
    lakes.close(made)


@pytest.fixture
def make(lake: Lake, tmp_path: Path) -> Iterator[Callable[..., SchedulerLoop]]:
    loops: list[SchedulerLoop] = []

    def loop(monotonic: Callable[[], float] = time.monotonic, **more: Any) -> SchedulerLoop:
        scheduler = {"jitter": 0, **more.pop("scheduler", {})}
        house = service_houses.make_house(lake, str(tmp_path / "runs.db"), scheduler=scheduler, **more)
        made = SchedulerLoop(house=house, member=uuid.uuid4().hex, monotonic=monotonic, patience_s=60)
        loops.append(made)
        return made

    yield loop
    for each in loops:
        each.stop()


def works(loop: SchedulerLoop) -> dict[str, Work]:
    """Open work by table."""
    return {each.request.table: each for each in loop._book.list(limit=1000) if each.state.is_open}


def end(loop: SchedulerLoop, now_ms: int, how: WorkEnd) -> list[str]:
    """End all work that waits; the tables of it."""
    tables = []
    while (claimed := loop._book.claim("w", now_ms, NO_LIMITS)) is not None:
        loop._book.done(claimed, how, now_ms)
        tables.append(claimed.work.request.table)
    return sorted(tables)


def times(loop: SchedulerLoop, table: str, now_ms: int) -> NextTimes:
    found = next_times.next_times(loop.house, "lake", table, now_ms)
    assert found is not None
    return found


def test_a_sick_table_is_asked_for_once_and_a_quiet_one_is_left_alone(
    lake: Lake, make: Callable[..., SchedulerLoop]
) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.sick"), 8)
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.well"), 1)
    loop = make()
    report = loop.tick(NOW).turns["lake"]
    assert (report.tables, report.changed, report.looks, report.requested) == (2, 2, 2, 1)
    work = works(loop)["db.sick"]
    assert (work.request.kind, work.request.origin, work.request.reason) == (
        WorkKind.COMPACT,
        WorkOrigin.TRIGGER,
        "sick",
    )
    assert len(HealthLog(entries=loop.house.store.entries).latest()) == 2
    again = loop.tick(NOW + 10_000).turns["lake"]
    assert (again.changed, again.looks, again.requested) == (0, 0, 0)
    assert end(loop, NOW + 11_000, DONE) == ["db.sick"]
    assert loop.tick(NOW + 20_000).turns["lake"].requested == 0
    lakes.append_small_files(lake.catalog.load_table("db.sick"), 1)
    busy = loop.tick(NOW + 30_000).turns["lake"]
    assert (busy.changed, busy.looks, busy.requested) == (1, 1, 1)
    lake.catalog.drop_table("db.well")
    assert loop.tick(NOW + 40_000).turns["lake"].tables == 1
    assert next_times.next_times(loop.house, "lake", "db.well", NOW) is None


def test_schedules_with_time_zones_are_caught_up_with_once_and_paused(
    lake: Lake, make: Callable[..., SchedulerLoop], tmp_path: Path
) -> None:
    for name in ("a", "b"):
        lakes.make_table(lake.catalog, f"db.{name}")
    file = tmp_path / "policy.yaml"
    file.write_text("tables:\n  'db.*':\n    schedule: {cron: '0 2 * * *', time-zone: Europe/Berlin}\n")
    loop = make(policy_file=str(file))
    assert loop.tick(NOW).turns["lake"].requested == 0
    shown = times(loop, "db.a", NOW)
    assert (shown.schedule, shown.next_run_ms) == ("0 2 * * * Europe/Berlin", NOW + 17 * HOUR)
    assert loop.tick(NOW + 17 * HOUR - 1000).turns["lake"].requested == 0
    assert loop.tick(NOW + 17 * HOUR).turns["lake"].requested == 2
    assert {each.request.origin for each in works(loop).values()} == {WorkOrigin.SCHEDULE}
    book = ScheduleBook(loop.house.store.entries)
    book.pause(SchedulePause(pattern="db.b", by="ann"))
    end(loop, NOW + 17 * HOUR, HEALTHY)
    later = NOW + 10 * DAY  # nobody was there for nine days
    assert loop.tick(later).turns["lake"].requested == 1
    assert works(loop).keys() == {"db.a"}
    assert times(loop, "db.b", later).paused_by == "db.b"
    assert loop.tick(later + MINUTE).turns["lake"].requested == 0
    assert book.resume("db.b")
    assert loop.tick(later + 2 * MINUTE).turns["lake"].requested == 0  # what came while it was paused is over
    end(loop, later + 3 * MINUTE, HEALTHY)
    assert loop.tick(later + DAY).turns["lake"].requested == 2


def test_a_table_that_fails_is_tried_later_and_later_and_then_suspended(
    lake: Lake, make: Callable[..., SchedulerLoop]
) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    loop, now, waits = make(), NOW, []
    loop.tick(now)
    for _ in range(4):
        assert end(loop, now, FAILED) == ["db.t"]
        began = now
        loop.tick(now)  # the end is heard of
        while not works(loop):
            now += 5 * MINUTE
            loop.tick(now)
        waits.append((now - began) // MINUTE)
    assert waits == [5, 10, 60, 120]
    end(loop, now, FAILED)
    loop.tick(now + MINUTE)
    shown = times(loop, "db.t", now + MINUTE)
    assert shown.failures == 5
    assert shown.suspended_until_ms == now + MINUTE + 4 * HOUR
    assert "Suspended after 5 failures in a row, until" in shown.sentence
    assert shown.sentence.endswith("The last one: A file is damaged.")
    now += 5 * HOUR
    loop.tick(now)
    end(loop, now, DONE)
    loop.tick(now + MINUTE)
    assert times(loop, "db.t", now + MINUTE).failures == 0


def test_quiet_hours_put_work_off(lake: Lake, make: Callable[..., SchedulerLoop], tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    file = tmp_path / "policy.yaml"
    file.write_text("tables:\n  'db.*':\n    quiet-hours: '06:00-18:00 UTC'\n")
    loop = make(policy_file=str(file))
    assert loop.tick(NOW).turns["lake"].requested == 0
    assert times(loop, "db.t", NOW).quiet_until_ms == NOW + 10 * HOUR
    assert loop.tick(NOW + 10 * HOUR - MINUTE).turns["lake"].requested == 0
    assert loop.tick(NOW + 10 * HOUR).turns["lake"].requested == 1


def test_upkeep_that_is_turned_on_is_done_once_a_day(
    lake: Lake, make: Callable[..., SchedulerLoop], tmp_path: Path
) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 1)
    file = tmp_path / "policy.yaml"
    file.write_text("tables:\n  'db.*':\n    maintenance: {expire: {enabled: true}}\n")
    loop, asked = make(policy_file=str(file)), []
    for hour in range(0, 73, 4):
        now = NOW + hour * HOUR
        loop.tick(now)
        asked += [(hour, each.request.kind) for each in works(loop).values()]
        end(loop, now, HEALTHY)
    assert [kind for _, kind in asked] == [WorkKind.MAINTAIN] * 3
    assert [hour for hour, _ in asked] == [24, 48, 72]


def test_one_process_leads_and_another_takes_its_place(lake: Lake, make: Callable[..., SchedulerLoop]) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    clock = {"now": 0.0}
    first, second = make(), make(monotonic=lambda: clock["now"])
    second._watch.is_alive = lambda process: None  # as if it were on another machine
    assert first.tick(NOW).leads
    assert not second.tick(NOW).leads
    clock["now"] = 1.9
    assert not second.tick(NOW + 5 * HOUR).leads  # clocks of the day do not count
    first.tick(NOW)
    clock["now"] = 3.0
    assert not second.tick(NOW).leads
    clock["now"] = 5.1
    report = second.tick(NOW)
    assert report.leads
    assert report.turns["lake"].requested == 0  # the first one has asked already
    first._catalogs["lake"]._set(first._catalogs["lake"].watches["db.t"])
    first._turns = {}
    with pytest.raises(LostLeadError):
        first._catalogs["lake"]._save()
    first._watch.is_alive = lambda process: None
    assert not first.tick(NOW).leads
    second.stop()
    assert first.tick(NOW).leads
    assert len(works(first)) == 1


def test_r80_a_leader_that_dies_before_it_saved_what_it_asked_for_asks_once(
    lake: Lake, make: Callable[..., SchedulerLoop], monkeypatch: pytest.MonkeyPatch
) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    first = make()
    saved = ScheduleBook.save

    def die(self: ScheduleBook, catalog: str, watches: Any, gone: Any, fence: Any) -> bool:
        kept = [watch for watch in watches if not watch.work_id]
        return saved(self, catalog, kept, gone, fence)

    monkeypatch.setattr(ScheduleBook, "save", die)
    assert first.tick(NOW).turns["lake"].requested == 1
    monkeypatch.undo()
    first.stop()
    second = make()
    assert second.tick(NOW + 1000).turns["lake"].requested == 1
    assert len(second._book.list()) == 1
    assert end(second, NOW + 2000, DONE) == ["db.t"]
    second.stop()
    third = make()
    third.tick(NOW + 3000)
    assert times(third, "db.t", NOW).work_id is None


def test_a_catalog_that_is_down_does_not_stop_the_others(lake: Lake, make: Callable[..., SchedulerLoop]) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    down = ServedCatalog(name="down", uri="http://127.0.0.1:9/", type="rest")
    good = service_houses.settings(lake, "x").catalogs["lake"]
    loop = make(catalogs={"down": down, "lake": good})
    turns = loop.tick(NOW).turns
    assert turns["down"].error is not None
    assert turns["lake"].requested == 1


def test_a_catalog_that_is_down_is_left_alone_for_a_while_and_said_once(
    lake: Lake, make: Callable[..., SchedulerLoop], caplog: pytest.LogCaptureFixture
) -> None:
    seconds = [0.0]
    down = ServedCatalog(name="down", uri="http://127.0.0.1:9/", type="rest")
    loop = make(monotonic=lambda: seconds[0], catalogs={"down": down})

    def rests(after: float) -> bool:
        seconds[0] += after
        turn = loop.tick(NOW + round(1000 * seconds[0])).turns["down"]
        assert turn.error is not None
        return turn.rests

    assert [rests(0), rests(1), rests(8), rests(2), rests(15), rests(6)] == [False, True, True, False, True, False]
    said = [record for record in caplog.records if "are not looked after now" in record.message]
    assert len(said) == 3


def test_a_catalog_that_hangs_does_not_hold_up_the_others(lake: Lake, make: Callable[..., SchedulerLoop]) -> None:
    lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 8)
    good = service_houses.settings(lake, "x").catalogs["lake"]
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and never answers
        uri, limit = f"http://127.0.0.1:{silent.getsockname()[1]}/", {"rest.client.socket-timeout-ms": "20000"}
        hangs = ServedCatalog(name="hangs", uri=uri, type="rest", properties=limit)
        loop = make(catalogs={"hangs": hangs, "lake": good})
        loop.patience_s = 5.0
        began = time.monotonic()
        turns = loop.tick(NOW).turns
        assert (turns.keys(), turns["lake"].requested) == ({"lake"}, 1)
        end(loop, NOW, HEALTHY)
        lakes.append_small_files(lake.catalog.load_table("db.t"), 1)
        assert loop.tick(NOW + 2 * MINUTE).turns.keys() == {"lake"}
        assert time.monotonic() - began < 15


def test_a_full_queue_is_waited_for(lake: Lake, make: Callable[..., SchedulerLoop]) -> None:
    for number in range(3):
        lakes.append_small_files(lakes.make_table(lake.catalog, f"db.t{number}"), 8)
    loop = make(limits={"queued_runs": 2})
    assert loop.tick(NOW).turns["lake"].requested == 2
    end(loop, NOW, HEALTHY)
    assert loop.tick(NOW + 10_000).turns["lake"].requested == 1


def test_a_worker_and_a_scheduler_together_heal_tables(lake: Lake, tmp_path: Path) -> None:
    for name in ("a", "b"):
        lakes.append_small_files(lakes.make_table(lake.catalog, f"db.{name}"), 8)
    house: ServiceHouse = service_houses.make_house(lake, str(tmp_path / "runs.db"), scheduler={"tick": 0.2})
    book = WorkBook(house.store.entries)
    with service_houses.working(house) as worker:
        loop = SchedulerLoop(house=house, member=worker.member, on_asked=worker.wake)
        loop.start()
        try:
            service_houses.wait_until(lambda: book.last_ended() >= 2, 60)
        finally:
            loop.stop()
    for name in ("a", "b"):
        assert lake.catalog.load_table(f"db.{name}").inspect.files().num_rows == 1


def test_a_database_says_in_one_query_where_all_metadata_is(lake: Lake) -> None:
    for name in ("a", '"odd.name"'):
        lakes.make_table(lake.catalog, ("db", name.strip('"')))  # type: ignore[arg-type]
    pointers = table_pointers.pointers(lake.catalog)
    assert pointers is not None
    assert sorted(pointers) == ['db."odd.name"', "db.a"]
    assert pointers["db.a"] == lake.catalog.load_table("db.a").metadata_location
