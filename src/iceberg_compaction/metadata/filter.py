"""`where` as a value: text and schema come in, a bound filter goes out that marks the files which may hold matching
rows. Inclusive everywhere (R47): a doubt keeps the file, so that no file with a matching row is ever left out."""

from __future__ import annotations

import decimal
import difflib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyparsing
from pyiceberg import expressions, types
from pyiceberg.expressions import literals, parser, visitors
from pyiceberg.schema import Schema

from iceberg_compaction import errors
from iceberg_compaction.metadata import pruning

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import pyarrow as pa
    from pyiceberg.partitioning import PartitionSpec

_WHOLE = (types.IntegerType, types.LongType)
_NUMBERS = (*_WHOLE, types.DecimalType, types.FloatType, types.DoubleType)
_EXACT = decimal.Context(prec=100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """A filter bound to a table's schema."""

    text: str
    schema: Schema  # with every field optional: a required field inside a null struct is null all the same
    expression: expressions.BooleanExpression  # bound, without NOT
    unbound: expressions.BooleanExpression  # the same by names, for projection to partition specs

    @property
    def field_ids(self) -> tuple[int, ...]:
        """The fields whose metrics `select` looks at."""
        return tuple(sorted(visitors.extract_field_ids(self.expression)))

    def select(self, files: pa.Table, specs: Mapping[int, PartitionSpec]) -> pa.BooleanArray:
        """Which rows may match. `files` has the metrics of `field_ids`, see metadata.files."""
        by_partition = pruning.by_partition(files, self.unbound, specs, self.schema)
        return pruning.as_array(by_partition & pruning.by_metrics(files, self.expression, self.schema))


def parse(text: str, schema: Schema) -> Filter:
    """The filter for files of a table with this schema; ConfigError says what is wrong with it."""
    try:
        parsed = parser.parse(text)
    except (pyparsing.ParseBaseException, ValueError, ArithmeticError) as error:
        raise errors.ConfigError(
            f"The filter {text!r} cannot be read{_place(error)}: "
            "write conditions such as day >= '2026-01-31' and (region in ('eu', 'us') or name like 'a%')."
        ) from error
    optional = _all_optional(schema)
    unbound = _fit_all(parsed, lambda predicate: _fit(predicate, optional, text))
    bound = visitors.bind(optional, unbound, case_sensitive=True)
    return Filter(text=text, schema=optional, expression=bound, unbound=unbound)


def _place(error: Exception) -> str:
    return f" from character {error.column} on" if isinstance(error, pyparsing.ParseBaseException) else ""


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
                fitted = type(predicate)(name, _fit_literal(predicate.literal, kind))
            case expressions.SetPredicate():
                values = [_fit_literal(literal, kind) for literal in predicate.literals]
                fitted = type(predicate)(name, [value for value in values if not _beyond(value, kind)])
            case _:
                fitted = type(predicate)(name)
        visitors.bind(schema, fitted, case_sensitive=True)
    except (ValueError, TypeError, ArithmeticError) as error:
        hint = " (write it as '2026-01-31T00:00:00+00:00')" if isinstance(kind, types.TimestamptzType) else ""
        raise errors.ConfigError(
            f"The filter {text!r} does not fit column {name} of type {kind}{hint}: {str(error).rstrip('.')}."
        ) from error
    return fitted


def _find(name: str, schema: Schema, text: str) -> tuple[types.NestedField, str]:
    known = schema.column_names
    found = [name] if name in known else [column for column in known if column.lower() == name.lower()]
    if len(found) == 1:
        return schema.find_field(found[0]), found[0]
    near = found or difflib.get_close_matches(name, known, n=3) or known[:10]
    problem = "more than one column is named" if found else "there is no column"
    raise errors.ConfigError(f"The filter {text!r} cannot be applied: {problem} {name}; there is {', '.join(near)}.")


def _fit_literal(literal: Any, kind: types.IcebergType) -> Any:
    """PyIceberg rounds a number to a whole one and refuses a decimal of another scale; here a number is kept exactly or
    refused, as a rounded one would match other rows."""
    if isinstance(literal, literals.StringLiteral):
        if isinstance(kind, types.TimestampType | types.TimestamptzType):
            moment = literal.value.strip().replace(" ", "T", 1)
            return literals.StringLiteral(moment if "T" in moment else f"{moment}T00:00:00")
        if not isinstance(kind, _NUMBERS):
            return literal
        literal = literals.DecimalLiteral(_number(literal.value))
    if isinstance(kind, types.DoubleType) and isinstance(literal, literals.DecimalLiteral | literals.LongLiteral):
        return literals.DoubleLiteral(float(literal.value))
    if isinstance(kind, types.FloatType) and isinstance(literal, literals.DecimalLiteral | literals.LongLiteral):
        # Beyond the type there is still infinity, which a constant answer would forget.
        return literals.FloatLiteral(max(min(float(literal.value), types.FloatType.max), types.FloatType.min))
    if isinstance(literal, literals.DecimalLiteral) and isinstance(kind, (*_WHOLE, types.DecimalType)):
        scale = kind.scale if isinstance(kind, types.DecimalType) else 0
        fitted = literal.value.quantize(decimal.Decimal(1).scaleb(-scale), context=_EXACT)
        if fitted != literal.value:
            raise ValueError(f"{literal.value} is not exact in it")
        return literals.DecimalLiteral(fitted)
    return literal


def _number(text: str) -> decimal.Decimal:
    try:
        number = decimal.Decimal(text)
    except decimal.InvalidOperation:
        number = decimal.Decimal("NaN")
    if not number.is_finite():
        raise ValueError(f"{text!r} is not a number to compare with")
    return number


def _beyond(literal: Any, kind: types.IcebergType) -> bool:
    return isinstance(literal.to(kind), literals.AboveMax | literals.BelowMin)
