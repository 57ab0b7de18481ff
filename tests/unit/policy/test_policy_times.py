"""Quiet hours and due times, on the clock of the wall."""

from __future__ import annotations

from datetime import datetime, timezone

import pytest
from tests.factories.policies import policy_of

from iceberg_compaction.model.table_policy import QuietHours
from iceberg_compaction.policy import decline, due_times, quiet_time


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc)


@pytest.mark.parametrize(
    ("hours", "now", "until"),
    [
        ("8:00-18:00", "2026-11-17 07:59", None),
        ("8:00-18:00", "2026-11-17 08:00", "2026-11-17 18:00"),
        ("8:00-18:00", "2026-11-17 18:00", None),
        ("22:00-06:00", "2026-11-17 23:00", "2026-11-18 06:00"),
        ("22:00-06:00", "2026-11-18 05:59", "2026-11-18 06:00"),
        ("mon-fri 8:00-18:00 Europe/Berlin", "2026-11-17 07:30", "2026-11-17 17:00"),
        ("mon-fri 8:00-18:00 Europe/Berlin", "2026-07-17 06:30", "2026-07-17 16:00"),  # summer time
        ("mon-fri 8:00-18:00", "2026-11-21 12:00", None),  # a Saturday
        ("fri 22:00-06:00", "2026-11-21 05:00", "2026-11-21 06:00"),  # it began on Friday
        ("sat,sun 0:00-24:00", "2026-11-21 05:00", "2026-11-23 00:00"),  # both days follow each other
        ("fri-mon 0:00-24:00", "2026-11-17 05:00", None),  # a Tuesday
    ],
)
def test_quiet_hours(hours: str, now: str, until: str | None) -> None:
    windows = policy_of(f"quiet_hours: {hours}").policy.quiet_hours
    assert quiet_time.quiet_until(windows, utc(now)) == (None if until is None else utc(until))


def test_quiet_hours_in_all_their_forms() -> None:
    expected = (QuietHours(start="22:00", end="06:00", days=("sat", "sun"), time_zone="Europe/Berlin"),)
    forms = (
        "sat-sun 22:00-06:00 Europe/Berlin",
        "[sat-sun 22:00-06:00 Europe/Berlin]",
        "{start: '22:00', end: '06:00', days: [sat, sun], time_zone: Europe/Berlin}",
        "[{start: 22:00, end: 06:00, days: sat-sun, time-zone: Europe/Berlin}]",
    )
    assert [policy_of(f"quietHours: {form}").policy.quiet_hours for form in forms] == [expected] * len(forms)
    assert policy_of("quiet_hours: off").policy.quiet_hours == ()
    assert policy_of("quiet_hours: []").policy.quiet_hours == ()


@pytest.mark.parametrize(
    ("text", "now", "due"),
    [
        ("schedule: '0 * * * *'", "2026-11-17 22:40", "2026-11-17 23:00"),
        ("schedule: {cron: '30 2 * * *', time_zone: Europe/Berlin}", "2026-11-17 22:40", "2026-11-18 01:30"),
        ("schedule: '0 * * * *'\nquiet_hours: 23:00-04:00", "2026-11-17 22:40", "2026-11-18 04:00"),
        ("schedule: '0 2 * * *'\nquiet_hours: 1:00-3:00", "2026-11-17 22:40", None),
        ("owner: a", "2026-11-17 22:40", None),
    ],
)
def test_when_a_table_is_next_due(text: str, now: str, due: str | None) -> None:
    policy = policy_of(text).policy
    assert due_times.next_due(policy, utc(now)) == (None if due is None else utc(due))


def test_the_reason_to_decline_names_origin_and_way_out() -> None:
    now_ms = round(utc("2026-11-17 12:00").timestamp() * 1000)
    assert decline.reason(policy_of("owner: a"), now_ms) is None
    off = decline.reason(policy_of("", properties={"self-optimizing.enabled": "false"}), now_ms)
    assert off == (
        "Its policy says enabled: false (table property self-optimizing.enabled); --option enabled=true compacts it "
        "nevertheless."
    )
    quiet = decline.reason(policy_of("quiet_hours: 8:00-18:00"), now_ms)
    assert quiet is not None
    assert quiet.startswith("It has quiet hours until 2026-11-17 18:00 UTC (policy.yaml:1);")
    ours = {"self-optimizing.enabled": "false", "compaction.enabled": "true"}
    assert decline.reason(policy_of("", properties=ours), now_ms) is None, "our own switch wins"
