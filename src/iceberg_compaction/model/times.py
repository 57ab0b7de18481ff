"""Days, hours and microseconds since 1970 in words, and back, for every number that Iceberg's types hold: Python's own
dates end with the year 9999. Years have four digits or as many as they need, as Iceberg Java writes them in paths."""

from __future__ import annotations

import re
from datetime import date, datetime, time, timedelta

_EPOCH = date(1970, 1, 1)
_CYCLE_YEARS, _CYCLE_DAYS = 400, 146_097  # after which the calendar repeats itself
_DAY = 86_400_000_000  # microseconds
_DAYS = re.compile(r"(-?\d{3,})-(\d\d)-(\d\d)", re.ASCII)
_NANOS = re.compile(r"\d{9}", re.ASCII)
_UTC = "+00:00"


def day(days: int) -> str:
    """2026-01-31"""
    cycles, rest = divmod(days, _CYCLE_DAYS)
    found = _EPOCH + timedelta(days=rest)
    return f"{found.year + cycles * _CYCLE_YEARS:04d}-{found.month:02d}-{found.day:02d}"


def hour(hours: int) -> str:
    """2026-01-31-23"""
    days, rest = divmod(hours, 24)
    return f"{day(days)}-{rest:02d}"


def timestamp(micros: int) -> str:
    """2026-01-31T23:59:59, with microseconds where there are any."""
    days, rest = divmod(micros, _DAY)
    return f"{day(days)}T{(datetime.min + timedelta(microseconds=rest)).time().isoformat()}"


def timestamptz(micros: int) -> str:
    """2026-01-31T23:59:59+00:00"""
    return timestamp(micros) + _UTC


def utc_minute(milliseconds: int) -> str:
    """2026-01-31 23:59 UTC"""
    return f"{timestamp(milliseconds // 60_000 * 60_000_000)[:-3].replace('T', ' ')} UTC"


def timestamp_ns(nanos: int) -> str:
    """2026-01-31T23:59:59, with nanoseconds where there are any."""
    seconds, rest = divmod(nanos, 1_000_000_000)
    return timestamp(seconds * 1_000_000) + (f".{rest:09d}" if rest else "")


def timestamptz_ns(nanos: int) -> str:
    """2026-01-31T23:59:59+00:00"""
    return timestamp_ns(nanos) + _UTC


def to_days(text: str) -> int:
    """The number of a day; ValueError: it is none."""
    if not (found := _DAYS.fullmatch(text)):
        raise ValueError(f"{text!r} is not a date such as 2026-01-31")
    cycles, rest = divmod(int(found[1]) - _EPOCH.year, _CYCLE_YEARS)
    return (date(_EPOCH.year + rest, int(found[2]), int(found[3])) - _EPOCH).days + cycles * _CYCLE_DAYS


def to_micros(text: str) -> int:
    """The number of a moment, whose offset, if it is given, must be zero."""
    days, _, rest = _in_utc(text).partition("T")
    at = time.fromisoformat(rest)
    if at.tzinfo is not None:
        raise ValueError(f"{text!r} is not in UTC")
    within = ((at.hour * 60 + at.minute) * 60 + at.second) * 1_000_000 + at.microsecond
    return to_days(days) * _DAY + within


def to_nanos(text: str) -> int:
    """The same in nanoseconds, of which there are none or nine digits."""
    whole, _, fraction = _in_utc(text).partition(".")
    if fraction and not _NANOS.fullmatch(fraction):
        raise ValueError(f"{text!r} is not a moment with nanoseconds")
    return to_micros(whole) * 1000 + int(fraction or 0)


def _in_utc(text: str) -> str:
    return text.removesuffix("Z").removesuffix(_UTC)
