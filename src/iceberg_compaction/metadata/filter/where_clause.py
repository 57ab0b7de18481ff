"""Parses `where`: text and schema come in, a bound filter goes out that marks the files which may hold matching rows.
Inclusive everywhere (R47): a doubt keeps the file, so that no file with a matching row is ever left out."""

from __future__ import annotations

import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyparsing
from pyiceberg import expressions, types
from pyiceberg.expressions import literals, parser, visitors
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.metadata.filter import pruning, typed_literals
from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec

_DEPTH = 100  # conditions inside conditions; Python's own limit is met at some hundreds
_SHOWN = 160  # characters of a filter, or of what is wrong with it, that a sentence repeats


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter bound to a table's schema."""

    text: str
    schema: Schema  # with every field optional: a required field inside a null struct is null all the same
    expression: expressions.BooleanExpression  # bound, without NOT
    unbound: expressions.BooleanExpression  # the same by names, for projection to partition specs

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The fields whose metrics `select` needs."""
        return tuple(sorted(visitors.extract_field_ids(self.expression)))

    def select(self, files: pa.Table, specs: Mapping[int, PartitionSpec]) -> pa.BooleanArray:
        """Which rows may match. `files` has the metrics of `field_ids`, see metadata.manifest.live_files."""
        by_partition = pruning.by_partition(files, self.unbound, specs, self.schema)
        return pruning.as_array(by_partition & pruning.by_metrics(files, self.expression, self.schema))


def parse(text: str, schema: Schema) -> Filter:
    """The filter for files of a table with this schema; ConfigError says what is wrong with it."""
    try:
        text.encode()  # half a character of a damaged argument makes libraries crash
        parsed = parser.parse(text)
    except (pyparsing.ParseBaseException, ValueError, ArithmeticError) as error:
        raise errors.ConfigError(
            f"The filter {_short(repr(text))} cannot be read{_position(error)}: "
            "write conditions such as day >= '2026-01-31' and (region in ('eu', 'us') or name like 'a%')."
        ) from error
    except RecursionError:
        raise _too_deep(text) from None
    if _depth(parsed) > _DEPTH:
        raise _too_deep(text)
    optional = _all_optional(schema)
    return _bound(_fit_all(parsed, lambda predicate: _fit(predicate, optional, text)), optional, text)


def bind(unbound: expressions.BooleanExpression, schema: Schema) -> Filter:
    """The same for an expression of AND, OR and predicates whose names and literals fit the schema."""
    return _bound(unbound, _all_optional(schema), str(unbound))


def _bound(unbound: expressions.BooleanExpression, optional: Schema, text: str) -> Filter:
    bound = visitors.bind(optional, unbound, case_sensitive=True)
    return Filter(text=text, schema=optional, expression=bound, unbound=unbound)


def _position(error: Exception) -> str:
    return f" from character {error.column} on" if isinstance(error, pyparsing.ParseBaseException) else ""


def _short(text: str) -> str:
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _too_deep(text: str) -> errors.ConfigError:
    return errors.ConfigError(
        f"The filter {_short(repr(text))} has conditions inside conditions more than {_DEPTH} deep; "
        "write it with fewer parentheses."
    )


def _depth(expression: expressions.BooleanExpression) -> int:
    """How deep conditions are inside others; no recursion, as this is what guards against it."""
    level, depth = [expression], 0
    while level:
        depth += 1
        level = [
            child
            for parent in level
            for child in (getattr(parent, side, None) for side in ("child", "left", "right"))
            if isinstance(child, expressions.BooleanExpression)
        ]
    return depth


def _all_optional(schema: Schema) -> Schema:
    def relax(node: Any) -> Any:
        if isinstance(node, dict):
            return {key: False if key == "required" else relax(value) for key, value in node.items()}
        return [relax(item) for item in node] if isinstance(node, list) else node

    return Schema.model_validate(relax(json.loads(schema.model_dump_json())) | {"identifier-field-ids": []})


def _fit_all(
    expression: expressions.BooleanExpression, fit: Callable[[Any], Any], *, negate: bool = False
) -> expressions.BooleanExpression:
    """The expression with every predicate fitted and every NOT taken into the predicates."""
    match expression:
        case expressions.Not():
            return _fit_all(expression.child, fit, negate=not negate)
        case expressions.And() | expressions.Or():
            left, right = (_fit_all(side, fit, negate=negate) for side in (expression.left, expression.right))
            is_and = isinstance(expression, expressions.And) is not negate
            return expressions.And(left, right) if is_and else expressions.Or(left, right)
        case expressions.UnboundPredicate():
            fitted = fit(expression)
            return _negated(fitted) if negate else fitted
    return ~expression if negate else expression


def _negated(predicate: Any) -> expressions.BooleanExpression:
    """Where NaN is not greater than a number, NOT makes it match, and the opposite comparison does not."""
    is_float = isinstance(getattr(predicate, "literal", None), literals.FloatLiteral | literals.DoubleLiteral)
    if is_float and isinstance(predicate, expressions.GreaterThan | expressions.GreaterThanOrEqual):
        return expressions.Or(~predicate, expressions.IsNaN(term=predicate.term))
    inverted: expressions.BooleanExpression = ~predicate
    return inverted


def _fit(predicate: Any, schema: Schema, text: str) -> expressions.BooleanExpression:
    """The predicate with the column's own spelling and literals that the column's type holds exactly; it binds."""
    field, name = _find(predicate.term.name, schema, text)
    kind = field.field_type
    fitted: expressions.UnboundPredicate
    try:
        match predicate:
            case expressions.LiteralPredicate():
                fitted = type(predicate)(name, typed_literals.fit(predicate.literal, kind))
            case expressions.SetPredicate():
                values = [typed_literals.fit(literal, kind) for literal in predicate.literals]
                fitted = type(predicate)(name, [value for value in values if not _beyond(value, kind)])
            case _:
                fitted = type(predicate)(name)
        visitors.bind(schema, fitted, case_sensitive=True)
    except (ValueError, TypeError, ArithmeticError) as error:
        hint = " (write it as '2026-01-31T00:00:00+00:00')" if isinstance(kind, types.TimestamptzType) else ""
        raise errors.ConfigError(
            f"The filter {_short(repr(text))} does not fit column {name} of type {kind}{hint}: "
            f"{_short(str(error).rstrip('.'))}."
        ) from error
    return fitted


def _find(name: str, schema: Schema, text: str) -> tuple[types.NestedField, str]:
    columns = schema.column_names
    matches = [name] if name in columns else [column for column in columns if column.lower() == name.lower()]
    if len(matches) == 1:
        return schema.find_field(matches[0]), matches[0]
    near = matches or difflib.get_close_matches(name, columns, n=3) or columns[:10]
    problem = "more than one column is named" if matches else "there is no column"
    be = plurals.form(len(near), "is", "are")
    raise errors.ConfigError(
        f"The filter {_short(repr(text))} cannot be applied: {problem} {_short(name)}; there {be} {', '.join(near)}."
    )


def _beyond(literal: Any, kind: types.IcebergType) -> bool:
    return isinstance(literal.to(kind), literals.AboveMax | literals.BelowMin)
