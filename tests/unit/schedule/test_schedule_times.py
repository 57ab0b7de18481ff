"""When tables are due and looked at: catch-up, jitter, daylight saving, clocks that jump, looks and suspension."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.model.run_figures import TableFigures
from iceberg_compaction.model.table_policy import TablePolicy
from iceberg_compaction.schedule import due_moments, look_times, spread_times, suspension, urgency

HOUR, DAY = 3_600_000, 24 * 3_600_000
BOUNDS = look_times.LookBounds(60_000, 6 * HOUR)


def policy(cron: str, zone: str = "UTC", **more: Any) -> TablePolicy:
    return TablePolicy.model_validate({"schedule": {"cron": cron, "time-zone": zone}, **more})


def ms(text: str, zone: str = "UTC") -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp() * 1000)


def utc(moment_ms: int | None) -> str | None:
    return None if moment_ms is None else f"{datetime.fromtimestamp(moment_ms / 1000, timezone.utc):%m-%d %H:%M}"


def test_times_that_were_missed_are_caught_up_with_once() -> None:
    daily = policy("0 2 * * *")
    done, now = ms("2026-01-01T02:00"), ms("2026-01-09T12:00")
    late = due_moments.check(daily, done, now)
    assert (utc(late.due_ms), utc(late.next_ms)) == ("01-02 02:00", "01-10 02:00")
    after = due_moments.check(daily, now, now)
    assert (after.due_ms, utc(after.next_ms)) == (None, "01-10 02:00")


@pytest.mark.parametrize(
    ("day", "expected"),
    [
        ("2026-03-28", ["03-28 01:30", "03-29 01:00", "03-30 00:30"]),  # 02:30 does not exist on the 29th
        ("2026-10-24", ["10-24 00:30", "10-25 00:30", "10-26 01:30"]),  # 02:30 comes twice on the 25th
    ],
)
def test_summer_time_neither_loses_nor_doubles_a_day(day: str, expected: list[str]) -> None:
    berlin = policy("30 2 * * *", "Europe/Berlin")
    done, moments = ms(f"{day}T00:00", "Europe/Berlin"), []
    for now in range(done, done + 3 * DAY, 10 * 60_000):
        answer = due_moments.check(berlin, done, now)
        if answer.due_ms is not None:
            moments.append(utc(answer.due_ms))
            done = now
    assert moments == expected


@examples(60)
@given(
    steps=st.lists(st.integers(-2 * HOUR, 30 * HOUR), min_size=1, max_size=30),
    delay=st.integers(0, 30_000),
    cron=st.sampled_from(["*/15 * * * *", "0 2 * * *", "30 2 * * mon"]),
)
def test_each_moment_counts_once_however_the_clock_goes(steps: list[int], delay: int, cron: str) -> None:
    """Whenever a schedule is attended to, the moments before are done with, and a moment is never due twice."""
    plan, now = policy(cron, "America/New_York"), ms("2026-03-07T12:00")
    done, seen = now, set()
    for step in steps:
        now += step
        answer = due_moments.check(plan, done, now, delay)
        if answer.due_ms is not None:
            assert done < answer.due_ms <= now - delay
            assert answer.due_ms not in seen
            seen.add(answer.due_ms)
            done = now - delay
            assert due_moments.check(plan, done, now, delay).due_ms is None


def test_a_state_of_a_wrong_clock_does_not_stop_a_schedule() -> None:
    hourly, now = policy("0 * * * *"), ms("2026-01-01T12:30")
    wrong = now + 10 * 365 * DAY
    assert utc(due_moments.check(hourly, wrong, now).next_ms) == "01-01 13:00"


def test_delays_are_spread_and_always_the_same() -> None:
    delays = [spread_times.delay_ms(30_000, "c", f"db.t{number}") for number in range(1000)]
    assert delays == [spread_times.delay_ms(30_000, "c", f"db.t{number}") for number in range(1000)]
    assert min(delays) < 1000
    assert max(delays) > 29_000
    assert 14_000 < sum(delays) / 1000 < 16_000
    assert len(spread_times.work_id("a", 1)) == 32


def test_tables_are_looked_at_as_often_as_they_change() -> None:
    def interval(rest_ms: int, idle_runs: int = 0) -> int:
        return look_times.interval_ms(BOUNDS, 10 * DAY, 10 * DAY - rest_ms, idle_runs)

    assert [interval(rest) for rest in (0, 5 * 60_000, HOUR, DAY, 9 * DAY)] == [
        60_000,
        60_000,
        6 * 60_000,
        round(2.4 * HOUR),
        6 * HOUR,
    ]
    assert [interval(0, idle) for idle in (1, 3, 50)] == [120_000, 480_000, 60_000 * 256]
    assert interval(DAY, 50) == 6 * HOUR
    later = look_times.next_look_ms(BOUNDS, 0, 0, 0, "db.t")
    assert 60_000 <= later < 66_000


def test_busy_tables_are_seen_however_many_wait_and_others_however_many_are_busy() -> None:
    new = [look_times.WaitingTable(f"new{number}", 0, 0) for number in range(100)]
    busy = [look_times.WaitingTable(f"busy{number}", 990_000, 60_000) for number in range(20)]
    quiet = [look_times.WaitingTable("quiet", 900_000, HOUR)]
    order = look_times.in_order([*new, *busy, *quiet], 1_000_000)
    assert sorted(order) == sorted(each.table for each in (*new, *busy, *quiet))
    assert sum(name.startswith("busy") for name in order[:30]) == 20
    assert sum(name.startswith("new") for name in order[:30]) == 10


@examples(60)
@given(st.lists(st.integers(0, 90_000), max_size=60), st.integers(-(10**9), 10**9), st.integers(1, 20))
def test_looks_keep_their_budget_in_every_minute_and_a_jump_of_the_clock_stops_none(
    steps: list[int], jump: int, most: int
) -> None:
    budget, now, spent = look_times.LookBudget(most), 10**10, []
    for step in steps:
        now += step
        if budget.left(now):
            budget.spend(now)
            spent.append(now)
        assert sum(now - 60_000 < moment <= now for moment in spent) <= most
        assert sum(now - 10_000 < moment <= now for moment in spent) <= -(-most // 6)
    assert budget.left(now + jump) >= 0
    assert budget.left(now + jump + 60_000) == -(-most // 6)


def test_failures_make_the_next_try_later_and_later() -> None:
    waits = [suspension.wait_ms(failures, 3) // 60_000 for failures in range(1, 10)]
    assert waits == [5, 10, 60, 120, 240, 480, 960, 1440, 1440]
    assert [suspension.is_suspended(failures, 3) for failures in (2, 3)] == [False, True]


def figures(small: int, size: int, deletes: int = 0) -> TableFigures:
    return TableFigures(
        snapshot_id=1,
        data_files=max(1, small),
        small_files=small,
        bytes=size,
        delete_files=deletes,
        target_file_bytes=1,
    )


def test_much_gain_for_little_cost_is_urgent() -> None:
    many_tiny, few_large, none = figures(5000, 1 << 20), figures(10, 10 << 30), figures(0, 1 << 40)
    priorities = [urgency.priority(each) for each in (many_tiny, few_large, none)]
    assert priorities == sorted(priorities, reverse=True)
    assert priorities[0] > priorities[2] == urgency.LEAST
    assert urgency.priority(None) == urgency.USUAL
    assert urgency.priority(figures(5, 1 << 20, deletes=500)) > urgency.priority(figures(5, 1 << 20))
    assert urgency.priority(figures(10**9, 1)) == urgency.MOST
