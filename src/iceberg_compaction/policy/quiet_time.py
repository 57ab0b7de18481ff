"""Whether a moment lies in quiet hours, and when they end. Moments and time zones are arguments; summer time is that of
the zone: hours are those on the clock of the wall."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

from iceberg_compaction import errors
from iceberg_compaction.model import table_policy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.table_policy import QuietHours

_MOST_STEPS = 50  # windows that follow one another without a gap


def zone(name: str) -> ZoneInfo:
    """The time zone of a name; ConfigError: there is none, or this machine does not know it."""
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; names may be paths of anything
        raise errors.ConfigError(
            f"{name[:60]!r} is no time zone that this machine knows; write it like UTC or Europe/Berlin."
        ) from None


def moment(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def quiet_until(windows: Sequence[QuietHours], now: datetime) -> datetime | None:
    """The end of the quiet hours that a moment lies in, in UTC; None: it lies in none."""
    until = None
    for _ in range(_MOST_STEPS):
        ends = [end for window in windows if (end := _end(window, until or now)) is not None]
        if not ends:
            return until
        until = max(ends)
    return until


def _end(window: QuietHours, now: datetime) -> datetime | None:
    """The end of one window that the moment lies in. It may have begun on the day before."""
    local = now.astimezone(zone(window.time_zone))
    start, end = table_policy.minutes(window.start), table_policy.minutes(window.end)
    length = (end - start) % table_policy.MINUTES_A_DAY or table_policy.MINUTES_A_DAY
    for back in (0, 1):
        day = local.replace(hour=0, minute=0, second=0, microsecond=0, tzinfo=None) - timedelta(days=back)
        if window.days and table_policy.DAYS[day.weekday()] not in window.days:
            continue
        begins = (day + timedelta(minutes=start)).replace(tzinfo=local.tzinfo)
        ends = (day + timedelta(minutes=start + length)).replace(tzinfo=local.tzinfo)
        if begins.astimezone(timezone.utc) <= now.astimezone(timezone.utc) < ends.astimezone(timezone.utc):
            return ends.astimezone(timezone.utc)
    return None
