"""When something happens to tables next, for people: from the run store alone, so that any process can answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.interfaces.service.scheduling import ended_work
from iceberg_compaction.model.table_schedule import NextTimes
from iceberg_compaction.policy import quiet_time
from iceberg_compaction.record.service import schedule_book
from iceberg_compaction.schedule import due_moments, spread_times, suspension

if TYPE_CHECKING:
    from iceberg_compaction.interfaces.service.service_house import ServiceHouse
    from iceberg_compaction.model.table_schedule import SchedulePause, TableWatch


def next_times(house: ServiceHouse, catalog: str, table: str, now_ms: int) -> NextTimes | None:
    """Of one table; None: the scheduler has not seen it. ConfigError: its policy cannot be used."""
    book = schedule_book.ScheduleBook(house.store.entries)
    watch = book.watch(catalog, table)
    return None if watch is None else _of(house, catalog, watch, book.pauses(), now_ms)


def all_next_times(house: ServiceHouse, catalog: str, now_ms: int) -> list[NextTimes]:
    """Of all tables of a catalog."""
    book = schedule_book.ScheduleBook(house.store.entries)
    pauses = book.pauses()
    return [_of(house, catalog, watch, pauses, now_ms) for watch in book.watches(catalog).values()]


def _of(house: ServiceHouse, catalog: str, watch: TableWatch, pauses: list[SchedulePause], now_ms: int) -> NextTimes:
    settings = house.settings.scheduler
    policy = house.policies.followed().effective(watch.table, watch.properties).policy
    pause = schedule_book.paused_by(pauses, catalog, watch.table)
    quiet = quiet_time.quiet_until(policy.quiet_hours, quiet_time.moment(now_ms))
    next_ms: int | None = watch.trigger_ms or None
    if policy.schedule.cron is not None:
        delay = spread_times.delay_ms(round(settings.jitter * 1000), catalog, watch.table)
        moment = due_moments.check(policy, watch.scheduled_ms or now_ms, now_ms, delay)
        first = moment.next_ms if moment.due_ms is None else moment.due_ms
        next_ms = None if first is None else first + delay
    is_suspended = suspension.is_suspended(watch.failures, settings.suspend_after) and watch.again_ms > now_ms
    schedule = None if policy.schedule.cron is None else f"{policy.schedule.cron} {policy.schedule.time_zone}"
    return NextTimes(
        catalog=catalog,
        table=watch.table,
        schedule=schedule,
        next_run_ms=next_ms if policy.enabled and pause is None else None,
        next_look_ms=watch.look_ms or None,
        quiet_until_ms=None if quiet is None else round(quiet.timestamp() * 1000),
        paused_by=None if pause is None else pause.pattern,
        suspended_until_ms=watch.again_ms if is_suspended else None,
        failures=watch.failures,
        work_id=watch.work_id or None,
        sentence=ended_work.words(watch, settings.suspend_after),
    )
