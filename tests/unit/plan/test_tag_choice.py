"""Which tags are made: one for each period that has ended, for the snapshot that the branch had at its end."""

from __future__ import annotations

import itertools
from datetime import datetime, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.model.snapshot_retention import SnapshotFacts
from iceberg_compaction.model.tag_plan import Every, TagGoal
from iceberg_compaction.plan.tagging import choose_tags

HOUR, DAY = 3_600_000, 86_400_000


def ms(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp() * 1000)


def line(*moments: str) -> list[SnapshotFacts]:
    """Snapshots 1, 2, … of these moments, the newest first."""
    made = [
        SnapshotFacts(snapshot_id=number, parent_id=None, timestamp_ms=ms(moment))
        for number, moment in enumerate(moments, 1)
    ]
    return made[::-1]


SNAPSHOTS = line("2026-01-30T08:00", "2026-01-30T20:00", "2026-02-01T03:00", "2026-02-03T11:00")
NOW = ms("2026-02-03T12:00")


def tags(now: int = NOW, refs: tuple[str, ...] = (), **goal: Any) -> dict[str, int]:
    choice = choose_tags.choose(SNAPSHOTS, refs, TagGoal(**goal), now)
    return {each.name: each.snapshot_id for each in choice.tags}


def test_a_day_has_the_last_snapshot_before_its_end_also_if_it_had_none_of_its_own() -> None:
    assert tags() == {"daily-2026-01-30": 2, "daily-2026-01-31": 2, "daily-2026-02-01": 3, "daily-2026-02-02": 3}


def test_days_without_commits_can_be_left_out() -> None:
    assert tags(only_changed=True) == {"daily-2026-01-30": 2, "daily-2026-02-01": 3}


def test_a_day_may_end_later_or_elsewhere() -> None:
    assert tags(at_minutes=4 * 60)["daily-2026-01-31"] == 3
    assert tags(zone="Asia/Tokyo")["daily-2026-01-30"] == 1


def test_tags_that_exist_are_left_alone() -> None:
    made = tags(refs=("daily-2026-01-30", "daily-2026-01-31", "daily-2026-02-01", "daily-2026-02-02"))
    assert made == {}


def test_periods_before_the_first_snapshot_or_too_long_ago_are_passed_over() -> None:
    choice = choose_tags.choose(SNAPSHOTS, (), TagGoal(), NOW)
    assert choice.passed_over == {choose_tags.UNKNOWN: 3}
    assert list(tags(max_delay_ms=36 * HOUR)) == ["daily-2026-02-01", "daily-2026-02-02"][1:]
    assert list(tags(keep_ms=DAY)) == ["daily-2026-02-02"]


def test_hours_and_months() -> None:
    assert tags(every=Every.HOUR, max_delay_ms=2 * HOUR) == {"hourly-2026-02-03T10": 3, "hourly-2026-02-03T11": 4}
    assert tags(every=Every.MONTH) == {"monthly-2026-01": 2}
    assert tags(every=Every.MONTH, pattern="m%m%Y") == {"m012026": 2}


def test_a_tag_lives_so_long_after_the_end_of_its_period() -> None:
    choice = choose_tags.choose(SNAPSHOTS, (), TagGoal(keep_ms=30 * DAY), NOW)
    for each in choice.tags:
        taken = next(fact for fact in SNAPSHOTS if fact.snapshot_id == each.snapshot_id)
        end = ms(each.name.removeprefix("daily-")) + DAY
        assert taken.timestamp_ms + (each.max_ref_age_ms or 0) == end + 30 * DAY


@pytest.mark.parametrize("goal", [{"pattern": "%%d"}, {"pattern": "%a"}, {"pattern": "d-%d", "max_delay_ms": 60 * DAY}])
def test_no_two_days_share_a_name(goal: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigError, match="the same for more than one day"):
        tags(**goal)


def test_a_day_may_be_written_in_any_way_that_strftime_has() -> None:
    assert list(tags(pattern="d-%F")) == ["d-2026-01-30", "d-2026-01-31", "d-2026-02-01", "d-2026-02-02"]


@pytest.mark.parametrize("goal", [{"zone": "Nowhere/At-all"}, {"zone": "../etc"}, {"pattern": "always"}])
def test_goals_that_mean_nothing_are_refused(goal: dict[str, Any]) -> None:
    with pytest.raises(errors.ConfigError):
        tags(**goal)


@examples(60)
@given(
    st.sampled_from(list(Every)),
    st.sampled_from(["UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    st.integers(ms("2025-01-01T00:00"), ms("2027-01-01T00:00")),
    st.integers(0, 1439),
)
def test_periods_follow_each_other_and_have_names_of_their_own(every: Every, zone: str, now: int, at: int) -> None:
    made = list(choose_tags.periods(TagGoal(every=every, zone=zone, at_minutes=at), now))
    assert made
    assert all(each.start_ms < each.end_ms <= now for each in made)
    assert all(one.end_ms <= two.start_ms for one, two in itertools.pairwise(made))
    assert len({each.name for each in made}) == len(made)
