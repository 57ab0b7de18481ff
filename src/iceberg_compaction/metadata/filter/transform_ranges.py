"""Conditions on Iceberg's transforms of a column as conditions on the column itself: `days(ts) >= '2026-01-01'` is a
range of ts, and `truncate(4, name) = 'abcd'` a prefix. So files are chosen by every partition spec and by bounds, also
where the table is partitioned otherwise. Buckets are no ranges, and stay what they are."""

from __future__ import annotations

import decimal
import re
from typing import TYPE_CHECKING, Any

from pyiceberg import expressions, transforms, types
from pyiceberg.expressions import literals

from iceberg_compaction.metadata.filter import predicates, typed_literals
from iceberg_compaction.metadata.filter.bucketed import Bucketed
from iceberg_compaction.metadata.filter.filter_words import FilterError
from iceberg_compaction.model import times

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.metadata.filter.filter_tree import Condition, LiteralTerm, TransformTerm

    Range = Callable[[str, LiteralTerm], expressions.BooleanExpression]

_UNITS = {
    **{name: name.rstrip("s") for name in ("year", "years", "month", "months", "day", "days", "hour", "hours")},
    "date": "day",
    "to_date": "day",
}
FUNCTIONS = ("bucket", "truncate", *_UNITS)
_MOST_BUCKETS = 100_000  # that are counted one by one
_DAY = 86_400_000_000  # microseconds
_HOUR = 3_600_000_000
_FIRST_CALENDAR_YEAR = 1000  # a smaller number is one of years since 1970
_FORMS = {
    "year": re.compile(r"(-?\d{4,})", re.ASCII),
    "month": re.compile(r"(-?\d{4,})-(\d\d)", re.ASCII),
    "hour": re.compile(r"(-?\d{4,}-\d\d-\d\d)[-T ](\d\d)", re.ASCII),
}
_IN_WORDS = {"year": "'2026'", "month": "'2026-01'", "day": "'2026-01-31'", "hour": "'2026-01-31-08'"}


def expand(condition: Condition, term: TransformTerm, field: types.NestedField, name: str) -> Any:
    """The condition on the column. FilterError, ValueError: the transform does not take it, or the value is none of
    its values."""
    if condition.operator in ("is-null", "not-null"):
        return predicates.make(condition.operator, name)
    if condition.operator not in ("=", "<>", "<", "<=", ">", ">=", "in", "not-in", "between", "not-between"):
        raise FilterError(f"{term.function}(...) cannot be compared so; use =, <, >, IN or BETWEEN", term.at)
    return _joined(condition, _range_of(term, field, name))


def _joined(condition: Condition, compare: Range) -> expressions.BooleanExpression:
    """All values of the condition compared, and joined as its operator says."""
    values = condition.values
    match condition.operator:
        case "between":
            return predicates.both(compare(">=", values[0]), compare("<=", values[1]))
        case "not-between":
            return predicates.either(compare("<", values[0]), compare(">", values[1]))
        case "in":
            return predicates.either(*(compare("=", value) for value in values))
        case "not-in":
            return predicates.both(*(compare("<>", value) for value in values))
        case operator:
            return compare(operator, values[0])


def _range_of(term: TransformTerm, field: types.NestedField, name: str) -> Range:
    kind = field.field_type
    if term.function in _UNITS:
        if term.width is not None:
            raise FilterError(f"{term.function} takes a column only", term.at)
        unit = _UNITS[term.function]
        if not isinstance(kind, types.TimestampType | types.TimestamptzType) and not (
            isinstance(kind, types.DateType) and unit != "hour"
        ):
            raise ValueError(f"it has no {unit}s")
        return lambda operator, value: _time(operator, _ordinal(value, term, unit), unit, kind, name)
    if term.function not in FUNCTIONS:
        raise FilterError(f"there is no function {term.function}; there are {', '.join(FUNCTIONS)}", term.at)
    width = term.width
    if width is None or not 0 < width <= types.IntegerType.max:
        raise FilterError(f"{term.function} takes a number above 0 and a column", term.at)
    if term.function == "bucket":
        return lambda operator, value: _bucket(operator, value, width, field, name)
    return _truncated(width, kind, name)


def _bucket(operator: str, value: LiteralTerm, width: int, field: types.NestedField, name: str) -> Bucketed:
    if not transforms.BucketTransform(width).can_transform(field.field_type):
        raise ValueError("it has no buckets")
    if not isinstance(value.literal, literals.LongLiteral):
        raise FilterError(f"a bucket is a number from 0 to {width - 1}", value.at)
    number = value.literal.value
    if operator in ("=", "<>") and not 0 <= number < width:
        raise FilterError(f"there is no bucket {number}; they are 0 to {width - 1}", value.at)
    if width > _MOST_BUCKETS:
        raise FilterError(f"at most {_MOST_BUCKETS} buckets are possible", value.at)
    holds = {
        "=": lambda each: each == number,
        "<>": lambda each: each != number,
        "<": lambda each: each < number,
        "<=": lambda each: each <= number,
        ">": lambda each: each > number,
        ">=": lambda each: each >= number,
    }[operator]
    return Bucketed(name=name, field_id=field.field_id, width=width, buckets=frozenset(filter(holds, range(width))))


def _ordinal(value: LiteralTerm, term: TransformTerm, unit: str) -> int:
    """The number of a year, month, day or hour since 1970."""
    if isinstance(value.literal, literals.StringLiteral):
        try:
            return _of_text(value.literal.value.strip(), unit)
        except ValueError:
            words = f"{term.function}(...) is compared with a {unit} such as {_IN_WORDS[unit]}"
            raise FilterError(words, value.at) from None
    if not isinstance(value.literal, literals.LongLiteral):
        raise FilterError(f"{term.function}(...) is compared with a {unit} such as {_IN_WORDS[unit]}", value.at)
    number = value.literal.value
    if term.function == "year" and number >= _FIRST_CALENDAR_YEAR:
        return number - 1970
    if not term.function.endswith("s") or (term.function == "years" and number >= _FIRST_CALENDAR_YEAR):
        words = f"{number} is ambiguous here; write a {unit} such as {_IN_WORDS[unit]}"
        raise FilterError(f"{words}, or {unit}s(...) with the number since 1970", value.at)
    return number


def _of_text(text: str, unit: str) -> int:
    if unit != "day" and (match := _FORMS[unit].fullmatch(text)):
        if unit == "hour":
            if int(match[2]) > 23:
                raise ValueError
            return times.to_days(match[1]) * 24 + int(match[2])
        month = int(match[2]) if unit == "month" else 1
        if not 1 <= month <= 12:
            raise ValueError
        years = int(match[1]) - 1970
        return years if unit == "year" else years * 12 + month - 1
    return _exactly(typed_literals.moment_micros(text), unit)


def _exactly(micros: int, unit: str) -> int:
    """The number of the unit that begins at this moment. ValueError: none does."""
    if unit == "hour":
        number, rest = divmod(micros, _HOUR)
    else:
        days, rest = divmod(micros, _DAY)
        year, month, day = (int(part) for part in times.day(days).rsplit("-", 2))
        rest += (0 if unit == "day" else day - 1) + (month - 1 if unit == "year" else 0)
        number = {"day": days, "month": (year - 1970) * 12 + month - 1, "year": year - 1970}[unit]
    if rest:
        raise ValueError
    return number


def _time(operator: str, ordinal: int, unit: str, kind: types.IcebergType, name: str) -> Any:
    return _between(operator, name, lambda number: _moment(ordinal + number, unit, kind))


def _between(operator: str, name: str, bound: Callable[[int], Any]) -> expressions.BooleanExpression:
    """A comparison with what begins at bound(0) and ends before bound(1)."""
    match operator:
        case "=":
            return predicates.both(predicates.make(">=", name, bound(0)), predicates.make("<", name, bound(1)))
        case "<>":
            return predicates.either(predicates.make("<", name, bound(0)), predicates.make(">=", name, bound(1)))
        case "<" | ">=":
            return predicates.make(operator, name, bound(0))
        case _:
            return predicates.make("<" if operator == "<=" else ">=", name, bound(1))


def _moment(ordinal: int, unit: str, kind: types.IcebergType) -> Any:
    """The first moment of a unit as a literal of the column."""
    if unit == "hour":
        micros = ordinal * _HOUR
    else:
        year, month = divmod(ordinal, 12) if unit == "month" else (ordinal, 0)
        days = ordinal if unit == "day" else times.to_days(f"{1970 + year:04d}-{month + 1:02d}-01")
        if isinstance(kind, types.DateType):
            return typed_literals.day_literal(days)
        micros = days * _DAY
    return typed_literals.micros_literal(micros, kind)


def _truncated(width: int, kind: types.IcebergType, name: str) -> Range:
    match kind:
        case types.StringType():
            return lambda operator, value: _prefix(operator, value, width, name)
        case types.IntegerType() | types.LongType():
            return lambda operator, value: _step(operator, _whole(value, 0), width, name, 0)
        case types.DecimalType(scale=scale):
            return lambda operator, value: _step(operator, _whole(value, scale), width, name, scale)
    raise ValueError("it cannot be cut off by truncate here")


def _whole(value: LiteralTerm, scale: int) -> int:
    """The number in units of the last digit that the column has."""
    number = getattr(value.literal, "value", None)
    if isinstance(number, bool) or not isinstance(number, int | decimal.Decimal):
        raise FilterError("truncate of a number is compared with a number", value.at)
    fitted = decimal.Decimal(number).scaleb(scale)
    if fitted != fitted.to_integral_value():
        raise FilterError("the number is not exact in the column", value.at)
    return int(fitted)


def _step(operator: str, number: int, width: int, name: str, scale: int) -> expressions.BooleanExpression:
    """Truncated numbers are multiples of the width: a comparison with any number is one with a multiple."""
    below = number - number % width
    exact = below == number
    if operator in ("=", "<>") and not exact:
        return expressions.AlwaysFalse() if operator == "=" else predicates.make("not-null", name)

    def bound(steps: int) -> Any:
        at = below + (steps + (not exact and operator in ("<", ">="))) * width
        return literals.LongLiteral(at) if not scale else literals.DecimalLiteral(decimal.Decimal(at).scaleb(-scale))

    return _between(operator, name, bound)


def _prefix(operator: str, value: LiteralTerm, width: int, name: str) -> expressions.BooleanExpression:
    """Truncated texts are prefixes."""
    if not isinstance(value.literal, literals.StringLiteral):
        raise FilterError("truncate of a text is compared with a text", value.at)
    text = value.literal.value
    short, cut = len(text) < width, literals.StringLiteral(text[:width])
    begins = predicates.make("starts-with" if text else "=", name, cut)
    if operator in ("=", "<>"):
        if len(text) > width:
            return expressions.AlwaysFalse() if operator == "=" else predicates.make("not-null", name)
        same = predicates.make("=", name, cut) if short else begins
        return same if operator == "=" else predicates.none_of(same)
    if short or (len(text) == width and operator in ("<", ">=")):
        return predicates.make(operator, name, cut)
    # All texts that begin so are equal to the cut one, and below or above every longer text.
    if operator in ("<", "<="):
        return predicates.either(predicates.make("<", name, cut), begins)
    return predicates.both(predicates.make(">=", name, cut), predicates.none_of(begins))
