"""Moments as people write them: a date, a date with a time, or a duration that reaches back from now."""

from __future__ import annotations

import re
from datetime import datetime, time, timedelta, timezone

from iceberg_compaction import errors
from iceberg_compaction.model import durations

_DURATION = re.compile(r"\d+(\.\d+)?\s*[smhdw]", re.ASCII)
_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_WEEK_DAYS = 7


def parse_ms(text: str, now_ms: int, *, end: bool = False) -> int:
    """The milliseconds since 1970 of a moment, in UTC unless it has an offset; ConfigError: it is none. `end`: a date
    alone means the last moment of that day, not its first."""
    stated = text.strip()
    if _DURATION.fullmatch(stated.lower()):
        return now_ms - round(_seconds(stated.lower()) * 1000)
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", stated))
    except ValueError:
        raise errors.ConfigError(
            f"{text!r} is not a moment; write a duration back from now such as 12h or 7d, a date such as 2026-01-31 "
            "or 2026-01-31T08:00 (UTC)."
        ) from None
    if end and _DAY.fullmatch(stated):
        moment = datetime.combine(moment.date(), time()) + timedelta(days=1, milliseconds=-1)
    moment = moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)
    return int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) / timedelta(milliseconds=1))


def _seconds(text: str) -> float:
    if text.endswith("w"):
        return _WEEK_DAYS * durations.parse_seconds(text[:-1] + "d")
    return durations.parse_seconds(text)
