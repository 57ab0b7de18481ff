"""Comparisons with NaN as Spark makes them: NaN is equal to itself, and greater than every number."""

from __future__ import annotations

from typing import Any

from pyiceberg import expressions, types
from pyiceberg.expressions import literals

from iceberg_compaction.metadata.filter import predicates
from iceberg_compaction.metadata.filter.bucketed import Unknown


def is_nan(literal: Any, kind: types.IcebergType) -> bool:
    """Whether a value, compared with a column of this type, is NaN."""
    is_float = isinstance(kind, types.FloatType | types.DoubleType)
    return is_float and isinstance(literal, literals.StringLiteral) and literal.value.strip().lower() == "nan"


def compared(operator: str, name: str) -> expressions.BooleanExpression:
    """The column compared with NaN."""
    match operator:
        case "=" | ">=":
            return predicates.make("is-nan", name)
        case "<>" | "<":
            return predicates.both(predicates.make("not-nan", name), unless_null(name))
        case "<=":
            return unless_null(name)
        case _:
            return predicates.none_of(unless_null(name))


def joined(operator: str, name: str, numbers: expressions.BooleanExpression) -> expressions.BooleanExpression:
    """The column among numbers and NaN, or not among them."""
    if operator == "in":
        return predicates.either(numbers, compared("=", name))
    return predicates.both(numbers, compared("<>", name))


def unless_null(name: str) -> expressions.BooleanExpression:
    """Matches all rows but nulls, of which neither it nor its opposite is true."""
    return predicates.either(predicates.make("not-null", name), Unknown())
