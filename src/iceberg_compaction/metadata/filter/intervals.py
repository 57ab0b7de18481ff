"""Intervals as Spark writes them: interval 7 days, interval '7' day, interval '1 month 2 hours'. Words come in; months
and microseconds go out."""

from __future__ import annotations

import calendar
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.metadata.filter import filter_words, word_cursor
from iceberg_compaction.metadata.filter.filter_words import FilterError
from iceberg_compaction.model import times

if TYPE_CHECKING:
    from iceberg_compaction.metadata.filter.word_cursor import WordCursor

DAY = 86_400_000_000  # microseconds
UNITS = {
    "microsecond": 1,
    "millisecond": 1_000,
    "second": 1_000_000,
    "minute": 60_000_000,
    "hour": 3_600_000_000,
    "day": DAY,
    "week": 7 * DAY,
}
_MONTHS = {"month": 1, "year": 12}
_NAMES = {name + ending: name for name in (*UNITS, *_MONTHS) for ending in ("", "s")}
DIGITS = 9  # of a number of units: more are beyond every calendar
_PART = re.compile(r"\s*([+-]?)\s*(\d{1,9})\s+([a-z]+)\s*", re.ASCII | re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Interval:
    """Months first, because they differ in length, and then microseconds."""

    months: int = 0
    micros: int = 0

    @property
    def opposite(self) -> Interval:
        return Interval(months=-self.months, micros=-self.micros)

    @property
    def of_days(self) -> bool:
        return self.micros % DAY == 0

    def plus(self, other: Interval) -> Interval:
        return Interval(months=self.months + other.months, micros=self.micros + other.micros)


def of(unit: str, number: int) -> Interval:
    """So many units."""
    if unit in _MONTHS:
        return Interval(months=number * _MONTHS[unit])
    return Interval(micros=number * UNITS[unit])


def read(words: WordCursor) -> Interval:
    """What stands after INTERVAL. FilterError: it is no interval."""
    if words.peek().kind == "text" and words.peek(1).plain not in _NAMES:
        return _of_text(words.next())
    interval = _pair(words)
    while words.peek(1).plain in _NAMES and words.peek().kind in ("number", "text"):
        interval = interval.plus(_pair(words))
    return interval


def add_months(days: int, months: int) -> int:
    """The day so many months later; the last one of its month where that is shorter."""
    if not months:
        return days
    year, month, day = (int(part) for part in times.day(days).rsplit("-", 2))
    years, month = divmod(year * 12 + month - 1 + months, 12)
    last = calendar.monthrange(2000 + years % 400, month + 1)[1]  # the calendar repeats itself
    return times.to_days(f"{years:04d}-{month + 1:02d}-{min(day, last):02d}")


def _pair(words: WordCursor) -> Interval:
    """A number and its unit: 7 days, '7' days, -7 days."""
    sign = -1 if words.peek().is_mark("-") else 1
    if words.peek().is_mark("-"):
        words.next()
    word = words.next()
    text = filter_words.text_of(word) if word.kind == "text" else word.text
    if word.kind not in ("number", "text") or not _NUMBER.fullmatch(text.strip()):
        raise word_cursor.unexpected(word, "an interval such as INTERVAL 7 DAYS")
    return of(_NAMES[words.expect_name(_NAMES, "a unit such as DAYS")], sign * int(text))


def _of_text(word: filter_words.Word) -> Interval:
    """All of it in one text: '7 days', '1 month 2 hours'."""
    text, at, interval = filter_words.text_of(word), 0, Interval()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None or part[3].lower() not in _NAMES:
            raise FilterError(f"{text!r} is no interval such as '7 days'", word.at)
        interval = interval.plus(of(_NAMES[part[3].lower()], int(part[1] + part[2])))
        at = part.end()
    if not text.strip():
        raise FilterError("the interval is empty", word.at)
    return interval
