"""Decides which files a bound expression may match, for all files of a table at once: by partition tuple, each distinct
one decided once, and by column bounds and counts. Absent or doubtful metrics never rule a file out (R24)."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions, transforms, typedef, types
from pyiceberg.expressions import visitors
from pyiceberg.schema import Schema

from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.metadata.filter import bucketed
from iceberg_compaction.metadata.manifest import column_metrics
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import TypeAlias

    from numpy.typing import NDArray
    from pyiceberg.partitioning import PartitionSpec

    Mask: TypeAlias = NDArray[np.bool_]

# Partition values of these types compare otherwise than rows do: NaN and -0.0 in floats, UUID objects with bytes.
_NOT_BY_PARTITION = (types.FloatType, types.DoubleType, types.UUIDType)
_FLOATS = (types.FloatType, types.DoubleType)
_MANY = 200  # literals of an IN that are compared one by one


def as_array(mask: Mask) -> pa.BooleanArray:
    return pa.array(mask)


def by_partition(
    files: pa.Table, expression: expressions.BooleanExpression, specs: Mapping[int, PartitionSpec], schema: Schema
) -> Mask:
    """Rows whose partition tuple may hold matching rows. The expression is unbound and has no NOT."""
    expression = _trusted(expression, schema)
    spec_ids = files["spec_id"].to_numpy()
    column = files["partition"].combine_chunks()
    codes, texts = column.indices.to_numpy(), column.dictionary
    mask = np.ones(files.num_rows, np.bool_)
    for spec_id in np.unique(spec_ids):
        rows = np.flatnonzero(spec_ids == spec_id)
        may_match = _tuple_test(expression, specs[int(spec_id)], schema)
        answers = np.zeros(len(texts), np.bool_)
        for code in np.unique(codes[rows]):
            answers[code] = may_match(texts[int(code)].as_py())
        mask[rows] = answers[codes[rows]]
    return mask


def _trusted(expression: expressions.BooleanExpression, schema: Schema) -> expressions.BooleanExpression:
    match expression:
        case expressions.And() | expressions.Or():
            return type(expression)(_trusted(expression.left, schema), _trusted(expression.right, schema))
        case expressions.UnboundPredicate(term=expressions.Reference(name=name)):
            if isinstance(schema.find_field(name).field_type, _NOT_BY_PARTITION):
                return expressions.AlwaysTrue()
    return expression


def _tuple_test(
    expression: expressions.BooleanExpression, spec: PartitionSpec, schema: Schema
) -> Callable[[str], bool]:
    try:
        projected = _projected(expression, spec, visitors.inclusive_projection(schema, spec))
    except OverflowError:  # PyIceberg counts months and years with Python's dates, which end with the year 9999
        return lambda _: True
    evaluate = visitors.expression_evaluator(
        Schema(*spec.partition_type(schema).fields), projected, case_sensitive=True
    )
    rules = [field.transform for field in spec.fields]

    def may_match(text: str) -> bool:
        values = partition_tuples.decode(text, spec, schema)
        return any(evaluate(variant) for variant in _variants(values, rules))

    return may_match


def _projected(expression: Any, spec: PartitionSpec, project: Any) -> expressions.BooleanExpression:
    """The condition on tuples of the spec. Buckets are looked for in the spec itself."""
    match expression:
        case expressions.And() | expressions.Or():
            left, right = (_projected(side, spec, project) for side in (expression.left, expression.right))
            joined: expressions.BooleanExpression = type(expression)(left, right)
            return joined
        case bucketed.Bucketed():
            return expression.of_partition(spec)
        case bucketed.Undecided() | bucketed.Unknown():
            return bucketed.without(expression)
    projected: expressions.BooleanExpression = project(expression)
    return projected


def _variants(values: typedef.Record, rules: list[transforms.Transform[Any, Any]]) -> Iterator[typedef.Record]:
    """The tuple, and the tuples that its writer may have meant, where writers are known to go wrong."""
    choices = [_meant(values[number], rule) for number, rule in enumerate(rules)]
    return (typedef.Record(*choice) for choice in itertools.product(*choices))


def _meant(value: Any, rule: transforms.Transform[Any, Any]) -> tuple[Any, ...]:
    """Old writers put a time before 1970 one unit too late; Java cuts the least numbers off to the greatest ones."""
    if isinstance(rule, transforms.TimeTransform) and value is not None and value <= 0:
        return value, value - 1
    if isinstance(rule, transforms.TruncateTransform) and isinstance(value, int):
        return value, *(value - 2**bits for bits in (32, 64) if 0 <= 2 ** (bits - 1) - 1 - value < rule.width)
    return (value,)


def by_metrics(files: pa.Table, expression: expressions.BooleanExpression, schema: Schema) -> Mask:
    """Rows whose metrics do not rule a match out. The expression is bound and has no NOT. Delete files have metrics of
    another meaning and are all kept."""
    may_match: Mask = visitors.visit(expression, _MayMatch(files, frozenset(field.field_id for field in schema.fields)))
    deletes: Mask = files["content"].to_numpy() != table_view.DATA
    return may_match | deletes


class _MayMatch(visitors.BoundBooleanExpressionVisitor["Mask"]):
    """Every answer is a mask over the files; False means that no row of the file can match."""

    def __init__(self, files: pa.Table, top_level: frozenset[int]) -> None:
        self._files = files
        self._top_level = top_level

    def visit_true(self) -> Mask:
        return np.ones(self._files.num_rows, np.bool_)

    def visit_false(self) -> Mask:
        return np.zeros(self._files.num_rows, np.bool_)

    def visit_not(self, child_result: Mask) -> Mask:
        raise AssertionError("NOT is rewritten before")

    def visit_and(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result & right_result

    def visit_or(self, left_result: Mask, right_result: Mask) -> Mask:
        return left_result | right_result

    def visit_is_null(self, term: Any) -> Mask:
        if _field(term).field_id not in self._top_level:  # a null parent may not be counted
            return self.visit_true()
        return ~self._no_null(term)

    def visit_not_null(self, term: Any) -> Mask:
        return ~self._all("null_value_counts", term)

    def visit_is_nan(self, term: Any) -> Mask:
        return self.visit_not_null(term) & ~self._surely(pc.equal(self._count("nan_value_counts", term), 0))

    def visit_not_nan(self, term: Any) -> Mask:
        return ~self._all("nan_value_counts", term)

    def visit_less_than(self, term: Any, literal: Any) -> Mask:
        excluded = pc.greater_equal if _is_strict(literal.value, _field(term).field_type) else pc.greater
        return self._has_value(term) & ~self._beyond(excluded, "lower_bounds", term, literal.value)

    def visit_less_than_or_equal(self, term: Any, literal: Any) -> Mask:
        return self._has_value(term) & ~self._beyond(pc.greater, "lower_bounds", term, literal.value)

    def visit_greater_than(self, term: Any, literal: Any) -> Mask:
        excluded = pc.less_equal if _is_strict(literal.value, _field(term).field_type) else pc.less
        above = ~self._beyond(excluded, "upper_bounds", term, literal.value)
        return self.visit_not_null(term) & (above | self._may_hold_nan(term))

    def visit_greater_than_or_equal(self, term: Any, literal: Any) -> Mask:
        above = ~self._beyond(pc.less, "upper_bounds", term, literal.value)
        return self.visit_not_null(term) & (above | self._may_hold_nan(term))

    def visit_equal(self, term: Any, literal: Any) -> Mask:
        return self._has_value(term) & self._within(term, literal.value, literal.value)

    def visit_not_equal(self, term: Any, literal: Any) -> Mask:
        return self.visit_not_in(term, {literal.value})

    def visit_in(self, term: Any, literals: Any) -> Mask:
        values = sorted(literals)
        pairs = [(value, value) for value in values] if len(values) <= _MANY else [(values[0], values[-1])]
        within = self.visit_false()
        for low, high in pairs:
            within = within | self._within(term, low, high)
        return self._has_value(term) & within

    def visit_not_in(self, term: Any, literals: Any) -> Mask:
        """Null matches no comparison, as in SQL: a file has no match if its one value is among those excluded. Iceberg
        Java keeps a file that also has a null."""
        one_value = self._one_of(term, literals) & ~self._may_hold_nan(term) & self._no_null(term)
        return self.visit_not_null(term) & ~one_value

    def visit_starts_with(self, term: Any, literal: Any) -> Mask:
        prefix = _bytes(literal.value)
        lower, upper = self._bounds("lower_bounds", term), self._bounds("upper_bounds", term)
        if lower is None or upper is None:
            return self.visit_true()
        after = self._surely(pc.greater(pc.binary_slice(lower, 0, len(prefix)), prefix))
        before = self._surely(pc.less(pc.binary_slice(upper, 0, len(prefix)), prefix))
        return self.visit_not_null(term) & ~after & ~before

    def visit_not_starts_with(self, term: Any, literal: Any) -> Mask:
        prefix = _bytes(literal.value)
        lower, upper = self._bounds("lower_bounds", term), self._bounds("upper_bounds", term)
        if lower is None or upper is None:
            return self.visit_true()
        within = pc.and_(pc.starts_with(lower, prefix), pc.starts_with(upper, prefix))  # and so is all between them
        # A null does not match either, but Iceberg Java keeps a file that has one.
        return self.visit_not_null(term) & ~(self._surely(within) & self._no_null(term))

    def _has_value(self, term: Any) -> Mask:
        """Where not all is null or NaN: to be below a number, or equal to one, takes a number."""
        counts = [self._count(metric, term) for metric in ("null_value_counts", "nan_value_counts", "value_counts")]
        return self.visit_not_null(term) & ~self._surely(pc.equal(pc.add(counts[0], counts[1]), counts[2]))

    def _one_of(self, term: Any, values: Any) -> Mask:
        """Where both bounds are the same one of these values: an upper bound that was cut is above the lower one."""
        lower, upper = self._bounds("lower_bounds", term), self._bounds("upper_bounds", term)
        if lower is None or upper is None:
            return self.visit_false()
        named = [_plain(value) for value in values if _is_one_value(value, _field(term).field_type)]
        among = pc.is_in(lower, value_set=pa.array(named, lower.type))
        return self._surely(pc.and_(pc.equal(lower, upper), among))

    def _within(self, term: Any, low: Any, high: Any) -> Mask:
        too_high = self._beyond(pc.greater, "lower_bounds", term, high)
        return ~too_high & ~self._beyond(pc.less, "upper_bounds", term, low)

    def _beyond(self, compare: Any, metric: str, term: Any, value: Any) -> Mask:
        """Where there is a bound, and it is beyond the value."""
        bounds = self._bounds(metric, term)
        if bounds is None:
            return self.visit_false()
        return self._surely(compare(bounds, _scalar(value, _field(term).field_type, bounds.type, metric)))

    def _bounds(self, metric: str, term: Any) -> pa.Array | None:
        field = _field(term)
        return column_metrics.comparable(self._files[column_metrics.column(metric, field.field_id)], field.field_type)

    def _count(self, metric: str, term: Any) -> pa.ChunkedArray:
        return self._files[column_metrics.column(metric, _field(term).field_id)]

    def _all(self, metric: str, term: Any) -> Mask:
        """Where every value is one of those that the metric counts."""
        return self._surely(pc.equal(self._count(metric, term), self._count("value_counts", term)))

    def _no_null(self, term: Any) -> Mask:
        return self._surely(pc.equal(self._count("null_value_counts", term), 0))

    def _may_hold_nan(self, term: Any) -> Mask:
        """NaN is no bound, and some engines count it greater than every number."""
        if not isinstance(_field(term).field_type, _FLOATS):
            return self.visit_false()
        return ~self._surely(pc.equal(self._count("nan_value_counts", term), 0))

    def _surely(self, answer: pa.ChunkedArray | pa.Array) -> Mask:
        mask: Mask = np.asarray(pc.fill_null(answer, False))
        return mask


def _field(term: Any) -> types.NestedField:
    field: types.NestedField = term.ref().field
    return field


def _bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)


def _scalar(value: Any, kind: types.IcebergType, like: pa.DataType, metric: str) -> pa.Scalar:
    if isinstance(kind, types.FloatType):
        # An engine may compare in single or in double precision: one step outwards covers both.
        with np.errstate(over="ignore"):  # infinity is right, then
            value = np.nextafter(np.float32(value), np.float32(np.inf if metric == "lower_bounds" else -np.inf))
        return pa.scalar(float(value), like)
    return pa.scalar(_plain(value), like)


def _plain(value: Any) -> Any:
    """A literal's value as bounds are compared with."""
    if isinstance(value, bool):
        return int(value)
    return value.encode() if isinstance(value, str) else value


def _is_strict(value: Any, kind: types.IcebergType) -> bool:
    """Whether a bound that is equal to the value holds no row beyond it, in all engines: not so for the two zeros, nor
    where a comparison may be in single or in double precision."""
    return not isinstance(kind, _FLOATS) or (isinstance(kind, types.DoubleType) and value != 0)


def _is_one_value(value: Any, kind: types.IcebergType) -> bool:
    """Whether all engines take the same rows to be equal to it: not so for the two zeros; and the greatest number of a
    single precision column stands for all that are too great for it."""
    if isinstance(kind, _FLOATS) and value == 0:
        return False
    return not isinstance(kind, types.FloatType) or abs(value) < types.FloatType.max
