"""A tree of conditions becomes an expression of PyIceberg for one schema: every column exists, every value is exactly
one of its type, NOT is taken into the conditions, and functions of columns are ranges of them."""

from __future__ import annotations

import difflib
import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pyiceberg import expressions, types
from pyiceberg.expressions import literals, visitors
from typing_extensions import assert_never

from iceberg_compaction.metadata.filter import (
    filter_tree,
    intervals,
    nan_conditions,
    predicates,
    transform_ranges,
    typed_literals,
)
from iceberg_compaction.metadata.filter.bucketed import Undecided, Unknown
from iceberg_compaction.metadata.filter.filter_words import FilterError
from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.schema import Schema

    from iceberg_compaction.metadata.filter.filter_tree import ColumnTerm, Condition, LiteralTerm, Node

_SHOWN = 160


def fit(node: Node, schema: Schema, *, negate: bool = False) -> expressions.BooleanExpression:
    """The expression of a tree, without NOT. FilterError: it does not fit the schema."""
    match node:
        case filter_tree.Combined():
            negate ^= node.negated
            parts = [fit(part, schema, negate=negate) for part in node.parts]
            join = predicates.both if (node.operator == "and") is not negate else predicates.either
            return join(*parts)
        case filter_tree.Negated():
            return fit(node.part, schema, negate=not negate)
        case filter_tree.Condition():
            fitted = _null_aware(node, schema)
            return _negated(fitted) if negate else fitted
        case _:
            assert_never(node)


def _negated(expression: Any) -> expressions.BooleanExpression:
    """Where NaN is not greater than a number, NOT makes it match, and the opposite comparison does not."""
    if isinstance(expression, expressions.And | expressions.Or):
        join = predicates.either if isinstance(expression, expressions.And) else predicates.both
        return join(_negated(expression.left), _negated(expression.right))
    literal = getattr(expression, "literal", None)
    if isinstance(literal, literals.BooleanLiteral) and isinstance(expression, expressions.EqualTo):
        column: Any = expression.term
        return predicates.make("=", column.name, literals.BooleanLiteral(not literal.value))
    is_float = isinstance(literal, literals.FloatLiteral | literals.DoubleLiteral)
    if is_float and isinstance(expression, expressions.GreaterThan | expressions.GreaterThanOrEqual):
        return predicates.either(~expression, expressions.IsNaN(term=expression.term))
    return predicates.none_of(expression)


def _null_aware(condition: Condition, schema: Schema) -> expressions.BooleanExpression:
    """A condition whose values may be NULL, by SQL's logic of three values: a row that is not in (1, NULL) is not known
    not to be in it. `<=>` alone takes NULL for a value."""
    values = tuple(value for value in condition.values if value.literal is not None)
    if condition.operator in ("<=>", "not-<=>"):
        same = _same(condition, schema, is_null=not values)
        return same if condition.operator == "<=>" else _negated(same)
    if len(values) == len(condition.values):
        return _condition(condition, schema)
    _condition(replace(condition, operator="is-null", values=()), schema)  # the column exists
    if not values:
        return Unknown()
    join = predicates.either if condition.operator == "in" else predicates.both
    return join(_condition(replace(condition, values=values), schema), Unknown())


def _same(condition: Condition, schema: Schema, *, is_null: bool) -> expressions.BooleanExpression:
    """True or false for every row, whether it is null or not."""
    if is_null:
        return _condition(replace(condition, operator="is-null", values=()), schema)
    not_null = _condition(replace(condition, operator="not-null", values=()), schema)
    return predicates.both(_condition(replace(condition, operator="="), schema), not_null)


def _condition(condition: Condition, schema: Schema) -> expressions.BooleanExpression:
    match condition.term:
        case None:
            return expressions.AlwaysTrue() if condition.operator == "is-true" else expressions.AlwaysFalse()
        case filter_tree.ColumnTerm() as column:
            field, name = find(column, schema)
            return _fitting(condition, field, name, schema, lambda: _of_column(condition, field.field_type, name))
        case filter_tree.TransformTerm() as called:
            field, name = find(called.column, schema)
            expand = functools.partial(transform_ranges.expand, condition, called, field, name)
            return _fitting(condition, field, name, schema, expand)
        case filter_tree.LiteralTerm() as literal:
            raise FilterError("a condition needs a column", literal.at)


def _fitting(
    condition: Condition, field: types.NestedField, name: str, schema: Schema, make: Callable[[], Any]
) -> expressions.BooleanExpression:
    """The expression that is made, if it can be bound to the schema."""
    try:
        made: expressions.BooleanExpression = make()
        _bind(made, schema)
    except FilterError:
        raise
    except (ValueError, TypeError, ArithmeticError) as error:
        words = str(error).rstrip(".")
        words = words if len(words) <= _SHOWN else f"{words[:_SHOWN]}…"
        at = condition.values[0].at if condition.values else condition.at
        raise FilterError(words, at, f"does not fit column {name} of type {field.field_type}") from error
    return made


def _bind(expression: Any, schema: Schema) -> None:
    if isinstance(expression, expressions.And | expressions.Or):
        _bind(expression.left, schema)
        _bind(expression.right, schema)
    elif isinstance(expression, expressions.UnboundPredicate):
        visitors.bind(schema, expression, case_sensitive=True)


def _of_column(condition: Condition, kind: types.IcebergType, name: str) -> expressions.BooleanExpression:
    operator, values = condition.operator, condition.values
    if operator in predicates.CHECKS:
        return predicates.make(operator, name)
    if operator in predicates.COMPARISONS:
        return _compared(operator, name, values[0], kind)
    match operator:
        case "between" | "not-between":
            low, high = _compared(">=", name, values[0], kind), _compared("<=", name, values[1], kind)
            between = predicates.both(low, high)
            return between if operator == "between" else _negated(between)
        case "in" | "not-in":
            numbers = [value for value in values if not nan_conditions.is_nan(value.literal, kind)]
            fitted = [typed_literals.fit_term(value, kind) for value in numbers]
            held = [value for value in fitted if not _beyond(value, kind)]
            among = predicates.make(operator, name, held) if held else _beside(operator, name)
            return among if len(numbers) == len(values) else nan_conditions.joined(operator, name, among)
    if not isinstance(kind, types.StringType):
        raise FilterError("LIKE compares texts only", condition.at, f"does not fit column {name} of type {kind}")
    like = _like(values[0], name)
    return like if operator == "like" else _negated(like)


def _compared(operator: str, name: str, value: LiteralTerm, kind: types.IcebergType) -> expressions.BooleanExpression:
    if nan_conditions.is_nan(value.literal, kind):
        return nan_conditions.compared(operator, name)
    if isinstance(kind, types.DateType) and value.typed.startswith("timestamp"):
        return _day_compared(operator, name, value)
    if isinstance(kind, types.BooleanType) and operator == "<>":  # there is one other value, and bounds may lack it
        return _negated(_compared("=", name, value, kind))
    fitted = typed_literals.fit_term(value, kind)
    if _beyond(fitted, kind):
        above = isinstance(fitted.to(kind), literals.AboveMax)
        return _beside(operator, name, matches=operator in (("<", "<=", "<>") if above else (">", ">=", "<>")))
    return predicates.make(operator, name, fitted)


def _beside(operator: str, name: str, *, matches: bool | None = None) -> expressions.BooleanExpression:
    """A comparison with values that the column cannot hold: all rows match, or none; nulls never do."""
    all_rows = nan_conditions.unless_null(name)
    return all_rows if (operator == "not-in" if matches is None else matches) else _negated(all_rows)


def _day_compared(operator: str, name: str, value: LiteralTerm) -> expressions.BooleanExpression:
    """Days compared with a moment, as in dt >= now() - interval 7 days: a day is its midnight."""
    days, rest = divmod(typed_literals.moment_micros(value.literal.value), intervals.DAY)
    if rest and operator in ("=", "<>"):
        return _beside(operator, name, matches=operator == "<>")
    if rest:
        operator = {"<": "<=", ">=": ">"}.get(operator, operator)
    return predicates.make(operator, name, typed_literals.day_literal(days))


def _like(value: LiteralTerm, name: str) -> expressions.BooleanExpression:
    """A pattern that ends with %, or has no wildcard. A single _ is any letter: nothing after it is looked at."""
    if not isinstance(value.literal, literals.StringLiteral):
        raise FilterError("LIKE takes a text in quotes", value.at)
    prefix, pattern = "", value.literal.value
    at = 0
    while at < len(pattern):
        letter = pattern[at]
        if letter == "\\" and pattern[at + 1 : at + 2] in ("%", "_", "\\"):
            at += 1
            letter = pattern[at]
        elif letter == "%":
            if at != len(pattern) - 1:
                raise FilterError("LIKE knows % at the end of a text only, as in LIKE 'a%'", value.at)
            return _prefixed(prefix, name)
        elif letter == "_":
            # It may or may not match, so that neither it nor its opposite can leave a file out by more than this.
            return predicates.both(_prefixed(prefix, name), Undecided())
        prefix, at = prefix + letter, at + 1
    return predicates.make("=", name, literals.StringLiteral(prefix))


def _prefixed(prefix: str, name: str) -> expressions.BooleanExpression:
    if not prefix:
        return predicates.make("not-null", name)
    return predicates.make("starts-with", name, literals.StringLiteral(prefix))


def find(term: ColumnTerm, schema: Schema) -> tuple[types.NestedField, str]:
    """The column, and its own spelling. FilterError: there is none, or there are several."""
    columns, name = schema.column_names, term.name
    matches = [name] if name in columns else [column for column in columns if column.lower() == name.lower()]
    if len(matches) == 1:
        return schema.find_field(matches[0]), matches[0]
    near = matches or difflib.get_close_matches(name, columns, n=3) or columns[:10]
    problem = "more than one column is named" if matches else "there is no column"
    be = plurals.form(len(near), "is", "are")
    shown = name if len(name) <= _SHOWN else f"{name[:_SHOWN]}…"
    raise FilterError(f"{problem} {shown}; there {be} {', '.join(near)}", term.at, "cannot be applied")


def _beyond(literal: Any, kind: types.IcebergType) -> bool:
    return isinstance(literal.to(kind), literals.AboveMax | literals.BelowMin)
