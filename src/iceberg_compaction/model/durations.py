"""Durations as people write them: 90, 90s, 15m, 2h, 1d."""

from __future__ import annotations

import math
import re
from typing import Annotated

from pydantic import BeforeValidator

from iceberg_compaction import errors
from iceberg_compaction.model import plurals

_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}
_NAMES = {"day": 86_400, "hour": 3600, "minute": 60, "second": 1}
_LONGEST_DAYS = 365_000  # a thousand years: calendars and clocks in whole numbers end somewhere
_TEXT = re.compile(r"(\d+(?:\.\d+)?)\s*([smhd]?)", re.ASCII)


def parse_seconds(value: float | str) -> float:
    """The seconds of a duration; ConfigError: it is none, not positive, or longer than any calendar."""
    match = _TEXT.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2]] if match else value
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < math.inf:
        raise errors.ConfigError(f"{value!r} is not a duration; write it as 90s, 15m, 2h or 1d.")
    if seconds > _LONGEST_DAYS * _UNITS["d"]:
        raise errors.ConfigError(f"{value!r} is too long for a duration; write {_LONGEST_DAYS}d at most.")
    return seconds


def words(seconds: float) -> str:
    """A duration for people, in the largest unit that has whole numbers: 7 days, 90 minutes."""
    for name, unit in _NAMES.items():
        if seconds and seconds % unit == 0:
            return plurals.count(int(seconds // unit), name)
    return f"{seconds:g} seconds"


def _validate(value: object) -> str:
    """The duration as a text that `parse_seconds` reads; a number is in seconds."""
    text = f"{value:g}s" if isinstance(value, int | float) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        raise ValueError("it must be a duration, such as 90s, 15m, 2h or 1d")
    try:
        parse_seconds(text)
    except errors.ConfigError as error:
        raise ValueError(str(error).rstrip(".")) from None
    return text.strip().lower()


Duration = Annotated[str, BeforeValidator(_validate)]  # in a value: as people write it
