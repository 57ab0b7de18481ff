"""Times that a filter computes, such as current_date() - interval 7 days. Words come in, a day or a moment goes out.
The clock is an argument, and everything is in UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.metadata.filter import filter_words, intervals, typed_literals, word_cursor
from iceberg_compaction.metadata.filter.filter_words import FilterError
from iceberg_compaction.model import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.metadata.filter.word_cursor import WordCursor

TYPED = ("timestamp", "timestamp_ntz", "timestamp_ltz", "date")
_TODAY = ("current_date", "curdate")
_NOW = ("current_timestamp", "now", "localtimestamp")
_BARE = (
    "current_date",
    "current_timestamp",
    "localtimestamp",
)  # also without parentheses, unless a column has the name
_CASTS = {"to_date": "date", "date": "date", "to_timestamp": "timestamp", "timestamp": "timestamp"}
_SHIFTS = ("date_sub", "date_add", "add_months")
FUNCTIONS = (*_TODAY, *_NOW, *_CASTS, *_SHIFTS, "cast", "date_trunc", "trunc")
_DAY = intervals.DAY
_UNITS = {"year": "year", "yyyy": "year", "yy": "year", "month": "month", "mon": "month", "mm": "month"} | {
    name: name for name in ("week", "day", "hour", "minute", "second")
}
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeValue:
    """A day or a moment. `from_clock`: it would be another one at another time."""

    kind: str  # date or timestamp
    micros: int  # since 1970
    from_clock: bool = False

    @property
    def text(self) -> str:
        return times.day(self.micros // _DAY) if self.kind == "date" else times.timestamp(self.micros).replace("T", " ")

    def to(self, kind: str) -> TimeValue:
        micros = self.micros - self.micros % _DAY if kind == "date" else self.micros
        return TimeValue(kind=kind, micros=micros, from_clock=self.from_clock)


def is_next(words: WordCursor, is_column: Callable[[str], bool]) -> bool:
    """Whether a computed time begins here. Not so: a date as it stands, and functions of columns."""
    if words.peek().plain in TYPED and words.peek(1).kind == "text":
        return _goes_on(words, 2)
    return _begins(words, 0, is_column)


def _begins(words: WordCursor, further: int, is_column: Callable[[str], bool]) -> bool:
    name, after = words.peek(further).plain, words.peek(further + 1)
    if name in TYPED and after.kind == "text":
        return True
    if not after.is_mark("("):
        return name in _BARE and not is_column(name)
    if name in (*_CASTS, "cast"):  # of a column it is a transform
        return words.peek(further + 2).kind == "text" or _begins(words, further + 2, is_column)
    return name in FUNCTIONS


def read(words: WordCursor, now_ms: int | None) -> TimeValue:
    """The computed time that begins here. FilterError: it cannot be computed. `now_ms`: None if it is not known."""
    start = words.peek()
    try:
        value = _base(words, now_ms)
        while _goes_on(words, 0):
            value = _moved(value, words)
    except (ValueError, ArithmeticError) as error:
        if isinstance(error, FilterError):
            raise
        raise FilterError(f"the time cannot be computed: {error}", start.at) from None
    return value


def compute(text: str, now_ms: int) -> TimeValue:
    """The time that a text alone stands for. FilterError: it cannot be computed."""
    words = word_cursor.WordCursor(text)
    value = read(words, now_ms)
    if words.peek().kind != "end":
        raise word_cursor.unexpected(words.peek(), "the end")
    return value


def _goes_on(words: WordCursor, further: int) -> bool:
    word = words.peek(further)
    return word.is_mark("+") or word.is_mark("-") or (word.kind == "number" and word.text[0] in "+-")


def _base(words: WordCursor, now_ms: int | None) -> TimeValue:
    word = words.next()
    if word.plain in TYPED and words.peek().kind == "text":
        return _of_text(words, "date" if word.plain == "date" else "timestamp")
    if word.plain in (*_TODAY, *_NOW):
        if words.peek().is_mark("(") or word.plain not in _BARE:
            words.expect("(")
            words.expect(")")
        if now_ms is None:
            raise FilterError(f"{word.text} asks for the time, which is not known here; write a time", word.at)
        now = TimeValue(kind="timestamp", micros=now_ms * 1000, from_clock=True)
        return now.to("date") if word.plain in _TODAY else now
    words.expect("(")
    value = _called(word.plain, words, now_ms)
    words.expect(")")
    return value


def _called(function: str, words: WordCursor, now_ms: int | None) -> TimeValue:
    """The value of a function whose parenthesis is open."""
    match function:
        case "cast":
            value = _argument(words, now_ms)
            words.expect_name(("as",), "AS")
            kind = words.expect_name(TYPED, "DATE or TIMESTAMP")
            return value.to("date" if kind == "date" else "timestamp")
        case "date_trunc":
            unit = _unit(words)
            words.expect(",")
            return _cut(_argument(words, now_ms).to("timestamp"), unit)
        case "trunc":
            value = _argument(words, now_ms).to("date")
            words.expect(",")
            return _cut(value, _unit(words))
        case "date_sub" | "date_add" | "add_months":
            value = _argument(words, now_ms).to("date")
            words.expect(",")
            number = _number(words) * (-1 if function == "date_sub" else 1)
            return _shifted(value, intervals.of("month" if function == "add_months" else "day", number))
        case _ if function in _CASTS:
            return _argument(words, now_ms).to(_CASTS[function])
    raise word_cursor.unexpected(words.last(), f"a function of time: {', '.join(FUNCTIONS)}")


def _argument(words: WordCursor, now_ms: int | None) -> TimeValue:
    if words.peek().kind == "text":
        return _of_text(words, "timestamp")
    if _begins(words, 0, lambda _: False):
        return read(words, now_ms)
    raise word_cursor.unexpected(words.peek(), "a time")


def _of_text(words: WordCursor, kind: str) -> TimeValue:
    word = words.next()
    text = filter_words.text_of(word)
    try:
        micros = typed_literals.moment_micros(text)
    except ValueError:
        raise FilterError(f"{text!r} is no {kind} in UTC such as '2026-01-31'", word.at) from None
    return TimeValue(kind="timestamp", micros=micros).to(kind)


def _moved(value: TimeValue, words: WordCursor) -> TimeValue:
    """The time after a sign and an interval, or a number of days."""
    word = words.peek()
    sign = -1 if word.text.startswith("-") else 1
    if word.kind == "mark":
        words.next()
    if words.peek().plain == "interval":
        words.next()
        interval = intervals.read(words)
        return _shifted(value, interval if sign > 0 else interval.opposite)
    if value.kind != "date":
        raise word_cursor.unexpected(words.peek(), "an interval such as INTERVAL 7 DAYS")
    number = _number(words)
    return _shifted(value, intervals.of("day", number if word.kind == "number" else sign * number))


def _number(words: WordCursor) -> int:
    sign = 1
    while words.peek().is_mark("-") or words.peek().is_mark("+"):
        sign *= -1 if words.next().text == "-" else 1
    word = words.next()
    if word.kind != "number" or not _WHOLE.fullmatch(word.text) or len(word.text) > intervals.DIGITS:
        raise word_cursor.unexpected(word, "a whole number, or INTERVAL")
    return sign * int(word.text)


def _shifted(value: TimeValue, interval: intervals.Interval) -> TimeValue:
    """A day moved by hours is a moment, as in Spark."""
    kind = value.kind if interval.of_days else "timestamp"
    days, within = divmod(value.micros, _DAY)
    moved = intervals.add_months(days, interval.months) * _DAY + within + interval.micros
    return TimeValue(kind=kind, micros=moved, from_clock=value.from_clock)


def _unit(words: WordCursor) -> str:
    word = words.next()
    name = filter_words.text_of(word).lower() if word.kind == "text" else ""
    if name not in _UNITS:
        raise FilterError(f"{word.shown} is no unit of time; there are {', '.join(sorted(_UNITS))}", word.at)
    return _UNITS[name]


def _cut(value: TimeValue, unit: str) -> TimeValue:
    """The beginning of the unit that a time is in."""
    if unit in ("year", "month"):
        day = times.day(value.micros // _DAY)
        first = f"{day[:-3]}-01" if unit == "month" else f"{day[:-6]}-01-01"
        micros = times.to_days(first) * _DAY
    else:
        start = -3 * _DAY if unit == "week" else 0  # weeks begin on Mondays, as the one of 1969-12-29
        micros = value.micros - (value.micros - start) % intervals.UNITS[unit]
    return TimeValue(kind=value.kind, micros=micros, from_clock=value.from_clock)
