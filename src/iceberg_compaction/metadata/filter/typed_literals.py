"""Fits a literal of a filter to the type of its column: exactly that value, or a ValueError with the reason."""

from __future__ import annotations

import decimal
import math
import re
from typing import TYPE_CHECKING, Any

from pyiceberg import types
from pyiceberg.expressions import literals

from iceberg_compaction.model import times

if TYPE_CHECKING:
    from iceberg_compaction.metadata.filter.filter_tree import LiteralTerm

_NUMBERS = (types.IntegerType, types.LongType, types.DecimalType, types.FloatType, types.DoubleType)
_EXACT = decimal.Context(prec=100)
_FAR = re.compile(r"-|\d{5,}-|0000-", re.ASCII)  # how a date begins that is not within the years 1 to 9999
# Spark's own forms: parts that are missing are the first ones, and numbers need no leading zeros.
_DAY = r"(?P<year>-\d{3,}|\d{4,})-(?P<month>\d\d?)-(?P<day>\d\d?)|(?P<only_year>\d{4})(?:-(?P<of_year>\d\d?))?"
_TIME = r"(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:\.(?P<fraction>\d*))?)?"
_ZONE = r" *(?P<zone>Z|(?:UTC|GMT)?(?:(?P<sign>[+-])(?P<hours>\d\d?)(?::?(?P<minutes>\d\d))?)?)"
_MOMENT = re.compile(rf"(?:{_DAY})(?:[T ](?:{_TIME}{_ZONE})?)?", re.ASCII)
_DATE = re.compile(rf"(?:{_DAY})(?:[T ].*)?", re.ASCII)
_INFINITY = re.compile(r"[+-]?inf(inity)?", re.ASCII | re.IGNORECASE)
_TIMES = (types.TimestampType, types.TimestamptzType)
_DIGITS = 38  # that a decimal may have, in Iceberg and in Arrow


def fit_term(value: LiteralTerm, kind: types.IcebergType) -> Any:
    """The same for a value of a filter, before which its type may stand. ValueError: the column has another type."""
    if (
        value.typed
        and not isinstance(kind, _TIMES)
        and not (value.typed == "date" and isinstance(kind, types.DateType))
    ):
        raise ValueError(f"it cannot be compared with a {value.typed}")
    return fit(value.literal, kind)


def moment_text(text: str, *, zoned: bool) -> str:
    """A moment as people write it, in full: midnight where it has no time, and UTC where it has no zone and needs
    one. ValueError: it is none."""
    parts = _MOMENT.fullmatch(text.strip())
    if parts is None:
        example = "'2026-01-31 08:00+02:00'" if zoned else "'2026-01-31 08:00'"
        raise ValueError(f"{text!r} is no moment such as '2026-01-31' or {example}")
    at = f"{int(parts['hour'] or 0):02d}:{int(parts['minute'] or 0):02d}:{int(parts['second'] or 0):02d}"
    fraction = f".{parts['fraction'][:6]:0<6}" if parts["fraction"] else ""  # more digits are cut off, as by Spark
    zone = "+00:00" if zoned or parts["zone"] else ""
    if parts["sign"]:
        zone = f"{parts['sign']}{int(parts['hours']):02d}:{parts['minutes'] or '00'}"
    return f"{_day_text(parts)}T{at}{fraction}{zone}"


def _day_text(parts: re.Match[str]) -> str:
    month, day = parts["month"] or parts["of_year"] or "1", parts["day"] or "1"
    return f"{parts['year'] or parts['only_year']}-{int(month):02d}-{int(day):02d}"


def _day_number(text: str) -> int:
    """The number of a day since 1970. What stands after it is not looked at, as by Spark. ValueError: it is none."""
    try:
        parts = _DATE.fullmatch(text.strip())
        return times.to_days(_day_text(parts) if parts else text)
    except ValueError:
        raise ValueError(f"{text!r} is no date such as '2026-01-31'") from None


def moment_micros(text: str) -> int:
    """The microseconds since 1970 of a moment in UTC. ValueError: it is none, or has another offset."""
    return times.to_micros(moment_text(text, zoned=False))


def day_literal(days: int) -> Any:
    """A day by its number since 1970."""
    return literals.DateLiteral(_within(days, types.IntegerType, f"day {days}"))


def micros_literal(micros: int, kind: types.IcebergType) -> Any:
    """A moment by its number of microseconds since 1970."""
    number = _within(micros, types.LongType, f"the moment {micros}")
    return (
        literals.TimestampLiteral(number)
        if isinstance(kind, types.TimestampType)
        else literals.LongLiteral(number).to(kind)
    )


def fit(literal: Any, kind: types.IcebergType) -> Any:
    """Keeps a number exactly or refuses it, because a rounded one would match other rows: PyIceberg rounds to a whole
    number and refuses a decimal of another scale."""
    if isinstance(literal, literals.StringLiteral):
        if isinstance(kind, types.TimestampType | types.TimestamptzType):
            moment = moment_text(literal.value, zoned=isinstance(kind, types.TimestamptzType))
            return _far_moment(moment, kind) if _FAR.match(moment) else literals.StringLiteral(moment)
        if isinstance(kind, types.DateType):
            return literals.DateLiteral(_within(_day_number(literal.value), types.IntegerType, literal.value))
        if not isinstance(kind, _NUMBERS):
            return literal
        if isinstance(kind, types.FloatType | types.DoubleType) and _INFINITY.fullmatch(literal.value.strip()):
            return _infinity(kind, -1 if literal.value.strip().startswith("-") else 1)
        literal = literals.DecimalLiteral(_number(literal.value))
    if isinstance(literal, literals.DecimalLiteral | literals.LongLiteral):
        return _fit_number(literal, kind)
    return literal


def _far_moment(text: str, kind: types.TimestampType | types.TimestamptzType) -> Any:
    """A moment in a year that Python's own dates do not have."""
    zoned = isinstance(kind, types.TimestamptzType)
    if text.endswith(("Z", "+00:00")) is not zoned:
        raise ValueError(f"{text!r} has {'no' if zoned else 'a'} zone")
    micros = _within(times.to_micros(text), types.LongType, text)
    return literals.TimestampLiteral(micros) if not zoned else literals.LongLiteral(micros).to(kind)


def _within(number: int, kind: type[types.IntegerType | types.LongType], text: str) -> int:
    if not kind.min <= number <= kind.max:
        raise ValueError(f"{text!r} is out of its range")
    return number


def _fit_number(literal: literals.DecimalLiteral | literals.LongLiteral, kind: types.IcebergType) -> Any:
    match kind:
        case types.DoubleType():
            return literals.DoubleLiteral(_double(literal.value))
        case types.FloatType():
            # Beyond the type there is still infinity, which a constant answer would forget.
            number = _double(literal.value)
            return literals.FloatLiteral(max(min(number, types.FloatType.max), types.FloatType.min))
        case types.DecimalType():
            return literals.DecimalLiteral(_exact(literal.value, kind.scale))
        case types.IntegerType() | types.LongType() if isinstance(literal, literals.DecimalLiteral):
            return literals.DecimalLiteral(_exact(literal.value, 0))
        case types.TimeType() | types.TimestampType() | types.TimestamptzType():  # counted in microseconds
            if not types.LongType.min <= literal.value <= types.LongType.max:
                raise ValueError(f"{literal.value} is out of its range")
    return literal


def _infinity(kind: types.IcebergType, sign: int) -> Any:
    """In single precision the greatest number stands for it, see above."""
    if isinstance(kind, types.DoubleType):
        return literals.DoubleLiteral(sign * math.inf)
    return literals.FloatLiteral(types.FloatType.max if sign > 0 else types.FloatType.min)


def _double(value: decimal.Decimal | int) -> float:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if math.isinf(number):
        raise ValueError(f"{value} is out of its range")
    return number


def _exact(value: decimal.Decimal | int, scale: int) -> decimal.Decimal:
    """The value with this scale."""
    number = decimal.Decimal(value)
    if number.adjusted() + 1 + scale > _DIGITS:
        raise ValueError(f"{value} is out of its range")
    fitted = number.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
    if fitted != number:
        raise ValueError(f"{value} is not exact in it")
    return fitted


def _number(text: str) -> decimal.Decimal:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        number = decimal.Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{text!r} is not a number to compare with")
    return number
