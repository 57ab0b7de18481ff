"""PyIceberg's predicates by their operators in one place, as filters are built of them."""

from __future__ import annotations

from typing import Any

from pyiceberg import expressions

_MAKERS: dict[str, Any] = {
    "<": expressions.LessThan,
    "<=": expressions.LessThanOrEqual,
    ">": expressions.GreaterThan,
    ">=": expressions.GreaterThanOrEqual,
    "=": expressions.EqualTo,
    "<>": expressions.NotEqualTo,
    "in": expressions.In,
    "not-in": expressions.NotIn,
    "starts-with": expressions.StartsWith,
    "is-null": expressions.IsNull,
    "not-null": expressions.NotNull,
    "is-nan": expressions.IsNaN,
    "not-nan": expressions.NotNaN,
}
COMPARISONS = ("<", "<=", ">", ">=", "=", "<>")
CHECKS = ("is-null", "not-null", "is-nan", "not-nan")
_AND: Any = expressions.And
_OR: Any = expressions.Or


def make(operator: str, name: str, *value: Any) -> expressions.BooleanExpression:
    """The predicate on a column. `value`: a literal, a list of them, or nothing."""
    made: expressions.BooleanExpression = _MAKERS[operator](name, *value)
    return made


def both(*parts: expressions.BooleanExpression) -> expressions.BooleanExpression:
    """AND of one or more."""
    joined: expressions.BooleanExpression = parts[0] if len(parts) == 1 else _AND(*parts)
    return joined


def either(*parts: expressions.BooleanExpression) -> expressions.BooleanExpression:
    """OR of one or more."""
    joined: expressions.BooleanExpression = parts[0] if len(parts) == 1 else _OR(*parts)
    return joined


def none_of(part: expressions.BooleanExpression) -> expressions.BooleanExpression:
    """The opposite of a predicate."""
    inverted: expressions.BooleanExpression = ~part
    return inverted
