"""Chooses the tags to make: one for each period that has ended, for the snapshot that the branch had at its end. Late
runs catch up; periods whose state is not there any more are passed over and named."""

from __future__ import annotations

import zoneinfo
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.tag_plan import Every, NewTag

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from iceberg_compaction.model.snapshot_retention import SnapshotFacts
    from iceberg_compaction.model.tag_plan import TagGoal

PATTERNS = {Every.HOUR: "hourly-%Y-%m-%dT%H", Every.DAY: "daily-%Y-%m-%d", Every.MONTH: "monthly-%Y-%m"}
_DAY_MS = 86_400_000
MAX_DELAY_MS = {Every.HOUR: _DAY_MS, Every.DAY: 7 * _DAY_MS, Every.MONTH: 62 * _DAY_MS}
_ROUND = {Every.HOUR: 24, Every.DAY: 28, Every.MONTH: 12}  # periods in a row that must have names of their own
EXISTS, UNCHANGED, UNKNOWN = "exists", "unchanged", "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class Period:
    """A period that has ended."""

    name: str  # of its tag
    start_ms: int
    end_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TagChoice:
    """Tags to make, the oldest first, and how many are not made for which reason."""

    tags: tuple[NewTag, ...]
    passed_over: Mapping[str, int]


def choose(line: Sequence[SnapshotFacts], refs: Collection[str], goal: TagGoal, now_ms: int) -> TagChoice:
    """`line`: the snapshots of the branch, the newest first; `refs`: the names of branches and tags there are."""
    tags: list[NewTag] = []
    passed: Counter[str] = Counter()
    for period in periods(goal, now_ms):
        if period.name in refs:
            passed[EXISTS] += 1
            continue
        held = next((each for each in line if each.timestamp_ms < period.end_ms), None)
        if held is None:
            passed[UNKNOWN] += 1
        elif goal.only_changed and held.timestamp_ms < period.start_ms:
            passed[UNCHANGED] += 1
        else:
            keep = None if goal.keep_ms is None else goal.keep_ms + period.end_ms - held.timestamp_ms
            tags.append(NewTag(name=period.name, snapshot_id=held.snapshot_id, max_ref_age_ms=keep))
    return TagChoice(tags=tuple(tags), passed_over=dict(passed))


def periods(goal: TagGoal, now_ms: int) -> Iterator[Period]:
    """The periods that have ended and are not too long ago, the oldest first. Those whose tag would have outlived its
    time already are not among them."""
    zone = _zone(goal.zone)
    pattern = goal.pattern or PATTERNS[goal.every]
    _check_pattern(pattern, goal.every)
    longest = MAX_DELAY_MS[goal.every] if goal.max_delay_ms is None else goal.max_delay_ms
    longest = longest if goal.keep_ms is None else min(longest, goal.keep_ms)
    shift = timedelta(minutes=goal.at_minutes % 60 if goal.every is Every.HOUR else goal.at_minutes)
    start = _floor(_moment(now_ms - longest, zone) - shift, goal.every)
    names: set[str] = set()
    while True:
        end = _next(start, goal.every)
        start_ms, end_ms = (_milliseconds(each + shift, zone) for each in (start, end))
        if end_ms > now_ms:
            return
        if now_ms - end_ms <= longest and end_ms > start_ms:  # an hour that clocks leave out has no end
            name = start.strftime(pattern)
            if name in names:  # a commit would make one tag of both, and call it two
                raise _same_name(pattern, goal.every)
            names.add(name)
            yield Period(name=name, start_ms=start_ms, end_ms=end_ms)
        start = end


def _zone(name: str) -> zoneinfo.ZoneInfo:
    try:
        return zoneinfo.ZoneInfo(name)
    except (zoneinfo.ZoneInfoNotFoundError, ValueError, OSError):
        raise errors.ConfigError(f"There is no time zone {name!r}; write it like UTC or Europe/Berlin.") from None


def _check_pattern(pattern: str, every: Every) -> None:
    """By names as they come out, for strftime has many ways to write a day, and `%%d` is none of them."""
    start, names = datetime(2026, 1, 1), set()
    for _ in range(_ROUND[every]):
        names.add(start.strftime(pattern))
        start = _next(start, every)
    if len(names) < _ROUND[every]:
        raise _same_name(pattern, every)


def _same_name(pattern: str, every: Every) -> errors.ConfigError:
    return errors.ConfigError(
        f"The name {pattern!r} would be the same for more than one {every.value}; write it like {PATTERNS[every]}."
    )


def _moment(milliseconds: int, zone: zoneinfo.ZoneInfo) -> datetime:
    """The time on a clock of that zone."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=milliseconds)
    return moment.astimezone(zone).replace(tzinfo=None)


def _milliseconds(clock: datetime, zone: zoneinfo.ZoneInfo) -> int:
    """Of two moments with the same time on the clock, the first."""
    return round((clock.replace(tzinfo=zone) - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000)


def _floor(clock: datetime, every: Every) -> datetime:
    hour = clock.replace(minute=0, second=0, microsecond=0)
    if every is Every.HOUR:
        return hour
    day = hour.replace(hour=0)
    return day if every is Every.DAY else day.replace(day=1)


def _next(start: datetime, every: Every) -> datetime:
    match every:
        case Every.HOUR:
            return start + timedelta(hours=1)
        case Every.DAY:
            return start + timedelta(days=1)
        case Every.MONTH:
            return (start + timedelta(days=31)).replace(day=1)
