"""A plain model of a table: a list of rows, each a dictionary by field id. It knows nothing of files, snapshots or
delete files; what a table says is right when it says the same as this."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from pyiceberg import types

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable

    from pyiceberg.schema import Schema

KEY = 1  # the field id of a column that numbers the rows: never null, never dropped
Row = dict[int, Any]


def values(kind: types.IcebergType, rng: random.Random) -> Any:
    """A made-up value, or none."""
    if rng.random() < 0.15:
        return None
    if isinstance(kind, types.StructType):
        return {field.field_id: values(field.field_type, rng) for field in kind.fields}
    if isinstance(kind, types.ListType):
        return [values(kind.element_type, rng) for _ in range(rng.randrange(3))]
    if isinstance(kind, types.MapType):
        return [(f"k{n}", values(kind.value_type, rng)) for n in range(rng.randrange(3))]
    return _PRIMITIVES[type(kind)](kind, rng)


_PRIMITIVES: dict[type, Callable[[Any, random.Random], Any]] = {
    types.BooleanType: lambda _, rng: rng.random() < 0.5,
    types.IntegerType: lambda _, rng: rng.choice([0, 1, -5, 2**31 - 1, rng.randrange(10)]),
    types.LongType: lambda _, rng: rng.choice([0, 1, -(2**63), 2**63 - 1, rng.randrange(10)]),
    types.FloatType: lambda _, rng: rng.choice([0.0, -0.0, float("nan"), float("inf"), rng.randrange(8) / 4]),
    types.DoubleType: lambda _, rng: rng.choice([0.0, -0.0, float("nan"), float("-inf"), rng.randrange(8) / 4]),
    types.DecimalType: lambda kind, rng: Decimal(rng.randrange(-9, 9)).scaleb(-kind.scale),
    types.StringType: lambda _, rng: rng.choice(["", "a", "b", "\u00e9", "\U0001f600" * 20, "long " * 9]),
    types.BinaryType: lambda _, rng: rng.choice([b"", b"\x00", b"\xff" * 20, b"ab"]),
    types.DateType: lambda _, rng: rng.randrange(-2, 40),  # days
    types.TimestampType: lambda _, rng: rng.randrange(-2, 40) * 3_600_000_001,  # microseconds
    types.TimestamptzType: lambda _, rng: rng.randrange(-2, 40) * 3_600_000_001,
}


def named(value: Any, kind: types.IcebergType) -> Any:
    """A value with the field names of today; fields that it does not know are none."""
    if value is None:
        return None
    if isinstance(kind, types.StructType):
        return {field.name: named(value.get(field.field_id), field.field_type) for field in kind.fields}
    if isinstance(kind, types.ListType):
        return [named(each, kind.element_type) for each in value]
    if isinstance(kind, types.MapType):
        return [(key, named(each, kind.value_type)) for key, each in value]
    return value


class Model:
    """The rows that a table should have."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}  # by key
        self._next = 1

    def make(self, schema: Schema, count: int, rng: random.Random, fixed: Callable[[int], Row]) -> list[Row]:
        """New rows; `fixed` gives the columns whose values are not left to chance."""
        first, self._next = self._next, self._next + count
        made = []
        for key in range(first, first + count):
            row = {field.field_id: values(field.field_type, rng) for field in schema.fields}
            made.append(row | fixed(key) | {KEY: key})
        return made

    def add(self, rows: Iterable[Row]) -> None:
        self.rows |= {row[KEY]: row for row in rows}

    def remove(self, keys: Iterable[int]) -> None:
        for key in keys:
            self.rows.pop(key, None)

    def expected(self, schema: Schema) -> Counter[str]:
        """As `java_rows.multiset` tells a table."""
        return Counter(repr(tuple(by_name(row, schema).values())) for row in self.rows.values())


def by_name(row: Row, schema: Schema) -> dict[str, Any]:
    return {field.name: named(row.get(field.field_id), field.field_type) for field in schema.fields}
