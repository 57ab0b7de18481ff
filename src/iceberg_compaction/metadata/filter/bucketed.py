"""Conditions that no range of a column can express: on its bucket, those that nothing of the metadata can decide, and
those that are neither true nor false. They are leaves of an expression beside PyIceberg's own. Partitions of the same
transform answer for buckets."""

from __future__ import annotations

from typing import Any

from pydantic import ConfigDict
from pyiceberg import expressions
from pyiceberg.transforms import BucketTransform

from iceberg_compaction.metadata.filter import predicates


class Bucketed(expressions.BooleanExpression):
    """Rows whose column `field_id` is in one of `buckets` of `width`. Nulls are in none."""

    model_config = ConfigDict(frozen=True, arbitrary_types_allowed=True)

    name: str
    field_id: int
    width: int
    buckets: frozenset[int]

    def __invert__(self) -> Bucketed:
        return self.model_copy(update={"buckets": frozenset(range(self.width)) - self.buckets})

    def of_partition(self, spec: Any) -> expressions.BooleanExpression:
        """The condition on the tuples of a partition spec."""
        for field in spec.fields:
            same = isinstance(field.transform, BucketTransform) and field.transform.num_buckets == self.width
            if same and field.source_id == self.field_id:
                return predicates.make("in", field.name, sorted(self.buckets))
        return expressions.AlwaysTrue()


class Undecided(expressions.BooleanExpression):
    """Every row may match it, and may match its opposite, too."""

    def __invert__(self) -> Undecided:
        return self


class Unknown(expressions.BooleanExpression):
    """A comparison with NULL: no row matches it, nor its opposite."""

    def __invert__(self) -> Unknown:
        return self


def without(expression: Any) -> expressions.BooleanExpression:
    """The expression with all such conditions taken for true, of nulls none, and unknown ones for false, as no row is
    selected by them. It has no NOT, so that no match is lost."""
    match expression:
        case expressions.And() | expressions.Or():
            joined: expressions.BooleanExpression = type(expression)(
                without(expression.left), without(expression.right)
            )
            return joined
        case Bucketed():
            return predicates.make("not-null", expression.name)
        case Undecided():
            return expressions.AlwaysTrue()
        case Unknown():
            return expressions.AlwaysFalse()
    kept: expressions.BooleanExpression = expression
    return kept
