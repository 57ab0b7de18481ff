"""Random tables, rewritten: the same rows come out, and every metric is true."""

from __future__ import annotations

import datetime as dt
import math
import struct
import tempfile
import uuid
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    TimeType,
    UUIDType,
)
from tests.factories import tasks
from tests.factories.examples import examples

from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.policies import ProofLevel

_EPOCH = dt.datetime(1970, 1, 1)


def _decimals(scale: int) -> Callable[[int], Decimal]:
    return lambda unscaled: Decimal((int(unscaled < 0), tuple(map(int, str(abs(unscaled)))), -scale))


_PRIMITIVES: list[tuple[IcebergType, st.SearchStrategy[Any]]] = [
    (BooleanType(), st.booleans()),
    (IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (LongType(), st.integers(-(2**63), 2**63 - 1)),
    (FloatType(), st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, float("nan")]))),
    (DoubleType(), st.one_of(st.floats(), st.sampled_from([0.0, -0.0, float("nan")]))),
    (DateType(), st.dates()),
    (TimeType(), st.times()),
    (TimestampType(), st.datetimes()),
    (TimestamptzType(), st.datetimes(timezones=st.just(dt.timezone.utc))),
    (
        StringType(),
        st.one_of(st.text(max_size=40), st.sampled_from(["a", "b", "\U0010ffff" * 20, "x" * 600, "\0" * 4097])),
    ),
    (BinaryType(), st.one_of(st.binary(max_size=40), st.sampled_from([b"\xff" * 30, b"y" * 300, b"\xfe" * 5000]))),
    (UUIDType(), st.binary(min_size=16, max_size=16)),
    (FixedType(5), st.binary(min_size=5, max_size=5)),
    (FixedType(16), st.binary(min_size=16, max_size=16)),
    *[
        (DecimalType(digits, digits // 3), st.integers(1 - 10**digits, 10**digits - 1).map(_decimals(digits // 3)))
        for digits in (1, 7, 9, 10, 18, 19, 28, 38)
    ],
]
_KEYS = [_PRIMITIVES[1], _PRIMITIVES[9], _PRIMITIVES[14]]


@st.composite
def _types(draw: st.DrawFn, ids: Any, depth: int = 0) -> tuple[IcebergType, st.SearchStrategy[Any]]:
    shape = draw(st.sampled_from(["leaf", "leaf", "leaf", "struct", "list", "map"] if depth < 2 else ["leaf"]))
    if shape == "leaf":
        return draw(st.sampled_from(_PRIMITIVES))
    if shape == "struct":
        fields, values = [], {}
        for index in range(draw(st.integers(1, 3))):
            kind, value = draw(_types(ids, depth + 1))
            required = draw(st.booleans())
            fields.append(NestedField(next(ids), f"f{index}", kind, required=required))
            values[f"f{index}"] = value if required else st.one_of(st.none(), value)
        return StructType(*fields), st.fixed_dictionaries(values)
    if shape == "list":
        kind, value = draw(_types(ids, depth + 1))
        required = draw(st.booleans())
        values = st.lists(value if required else st.one_of(st.none(), value), max_size=4)
        return ListType(next(ids), kind, element_required=required), values
    kind, value = draw(_types(ids, depth + 1))
    key_kind, key = draw(st.sampled_from(_KEYS))
    entries = st.dictionaries(key, st.one_of(st.none(), value), max_size=3).map(lambda found: list(found.items()))
    if draw(st.booleans()):
        return MapType(next(ids), key_kind, next(ids), kind, value_required=False), entries
    inner = StructType(NestedField(next(ids), "k", key_kind, required=draw(st.booleans())))
    wrapped = entries.map(lambda found: [({"k": below}, each) for below, each in found])
    return MapType(next(ids), inner, next(ids), kind, value_required=False), wrapped


@st.composite
def _tables(draw: st.DrawFn) -> tuple[Schema, list[list[dict[str, Any]]]]:
    ids = iter(range(1, 1000))
    fields, values = [], {}
    for index in range(draw(st.integers(1, 5))):
        kind, value = draw(_types(ids))
        required = draw(st.booleans())
        fields.append(NestedField(next(ids), f"c{index}", kind, required=required))
        values[f"c{index}"] = value if required else st.one_of(st.none(), value)
    rows = st.fixed_dictionaries(values)
    return Schema(*fields), draw(st.lists(st.lists(rows, max_size=12), min_size=1, max_size=4))


@examples(60, suppress_health_check=list(HealthCheck))
@given(_tables(), st.sampled_from([1, 3, 100]), st.sampled_from([600, 5000, 2**20]), st.sampled_from(list(ProofLevel)))
def test_a_rewrite_keeps_every_row_and_its_metrics_are_true(
    table: tuple[Schema, list[list[dict[str, Any]]]], group_rows: int, target: int, level: ProofLevel
) -> None:
    schema, files = table
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        paths = [
            tasks.write_input(root / f"in-{index}.parquet", rows, schema, row_group_size=group_rows)
            for index, rows in enumerate(files)
        ]
        properties = {"write.parquet.row-group-size-bytes": str(target // 2)}
        context = tasks.make_context(root, schema, target=target, verify=level, properties=properties)
        result = execute_task.rewrite(tasks.make_task(paths), context, "0")
        written = [row for rows in files for row in rows]
        expected = [row for path in paths for row in tasks.comparable(pq.read_table(path).to_pylist())]
        assert len(expected) == len(written)
        assert tasks.read_rows(result) == expected
        assert result.proof.failures == ()
        assert (result.proof.stored is not None) == (level is ProofLevel.DEEP)
        for file in result.staged:
            _check_metrics(schema, file)


def _check_metrics(schema: Schema, file: Any) -> None:
    rows = pq.read_table(file.file_path).to_pylist()
    assert file.record_count == len(rows) > 0
    assert file.file_size_in_bytes == Path(file.file_path).stat().st_size
    assert list(file.split_offsets) == sorted(file.split_offsets)
    assert file.split_offsets[-1] < file.file_size_in_bytes
    for number, values in _leaf_values(schema, rows).items():
        kind = schema.find_type(number)
        assert file.column_sizes[number] > 0
        assert file.value_counts[number] == len(rows)
        assert file.null_value_counts[number] == sum(value is None for value in values)
        present = [value for value in values if value is not None]
        if isinstance(kind, (FloatType, DoubleType)):
            assert file.nan_value_counts[number] == sum(value != value for value in present)
            present = [value for value in present if value == value]
        else:
            assert number not in file.nan_value_counts
        _check_bounds(kind, present, file.lower_bounds.get(number), file.upper_bounds.get(number))
    repeated = set(file.column_sizes) - set(_leaf_values(schema, rows))
    assert not repeated & (set(file.value_counts) | set(file.lower_bounds) | set(file.null_value_counts))


def _leaf_values(schema: Schema, rows: list[dict[str, Any]]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}

    def walk(fields: Any, values: list[Any]) -> None:
        for field in fields:
            below = [None if value is None else value[field.name] for value in values]
            if isinstance(field.field_type, StructType):
                walk(field.field_type.fields, below)
            elif field.field_type.is_primitive:
                found[field.field_id] = below

    walk(schema.fields, rows)
    return found


def _check_bounds(kind: Any, present: list[Any], low: bytes | None, high: bytes | None) -> None:
    if not present:
        assert low is None
        assert high is None
        return
    if low is not None:
        assert all(_decoded(kind, low) <= _ordered(kind, value) for value in present)
    if high is not None:
        assert all(_ordered(kind, value) <= _decoded(kind, high) for value in present)
    if isinstance(kind, (FloatType, DoubleType)):
        order = sorted(present, key=lambda value: (value, math.copysign(1.0, value)))
        assert (low, high) == (conversions.to_bytes(kind, order[0]), conversions.to_bytes(kind, order[-1]))
    elif isinstance(kind, (StringType, BinaryType)):
        assert low is not None
    else:
        assert low == conversions.to_bytes(kind, _internal(kind, min(present, key=lambda v: _ordered(kind, v))))
        assert high == conversions.to_bytes(kind, _internal(kind, max(present, key=lambda v: _ordered(kind, v))))


def _ordered(kind: Any, value: Any) -> Any:
    if isinstance(kind, StringType):
        return value.encode("utf-8")
    return _internal(kind, value)


def _decoded(kind: Any, data: bytes) -> Any:
    if isinstance(kind, (StringType, BinaryType, FixedType, UUIDType)):
        return data
    return conversions.from_bytes(kind, data)


def _internal(kind: Any, value: Any) -> Any:
    if isinstance(kind, UUIDType):
        return value.bytes
    if isinstance(kind, DateType):
        return (value - _EPOCH.date()).days
    if isinstance(kind, TimeType):
        return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond
    if isinstance(kind, (TimestampType, TimestamptzType)):
        return (value.replace(tzinfo=None) - _EPOCH) // dt.timedelta(microseconds=1)
    return value


Change = Callable[[Any], Any]


def _same(value: Any) -> Any:
    return value


@st.composite
def _evolved(draw: st.DrawFn, kind: IcebergType, ids: Any) -> tuple[IcebergType, Change]:
    """What may become of a type, and of a value with it."""
    if isinstance(kind, StructType):
        fields, change = draw(_evolved_fields(kind.fields, ids))
        return StructType(*fields), change
    if isinstance(kind, ListType):
        element, below = draw(_evolved(kind.element_type, ids))
        change = _unless_null(lambda found: [_unless_null(below)(each) for each in found])
        return ListType(kind.element_id, element, element_required=kind.element_required), change
    if isinstance(kind, MapType):
        value, below = draw(_evolved(kind.value_type, ids))
        change = _unless_null(lambda found: [(key, _unless_null(below)(each)) for key, each in found])
        return MapType(kind.key_id, kind.key_type, kind.value_id, value, value_required=kind.value_required), change
    if isinstance(kind, IntegerType) and draw(st.booleans()):
        return LongType(), _same
    if isinstance(kind, FloatType) and draw(st.booleans()):
        return DoubleType(), _same
    if isinstance(kind, DecimalType) and draw(st.booleans()):
        return DecimalType(min(38, kind.precision + draw(st.integers(0, 20))), kind.scale), _same
    return kind, _same


@st.composite
def _evolved_fields(draw: st.DrawFn, fields: Any, ids: Any) -> tuple[list[NestedField], Change]:
    """Some fields go, all may get another name, some are new, with and without a default; in any order."""
    kept, changes = [], {}
    for field in fields:
        if draw(st.sampled_from(["keep", "keep", "keep", "drop"])) == "drop" and len(fields) > 1:
            continue
        kind, change = draw(_evolved(field.field_type, ids))
        name = draw(st.sampled_from([field.name, f"n{field.field_id}"]))
        kept.append(NestedField(field.field_id, name, kind, required=field.required))
        changes[name] = (field.name, change)
    for _ in range(draw(st.integers(0 if kept else 1, 2))):
        number, default = next(ids), draw(st.sampled_from([None, "then"]))
        required = default is not None and draw(st.booleans())
        kept.append(NestedField(number, f"a{number}", StringType(), required=required, initial_default=default))
        changes[f"a{number}"] = (None, lambda _, default=default: default)
    order = draw(st.permutations(kept))

    def change(row: Any) -> Any:
        return {
            field.name: below(None if (old := changes[field.name][0]) is None else row[old])
            for field in order
            for below in [_unless_null(changes[field.name][1]) if changes[field.name][0] else changes[field.name][1]]
        }

    return order, change


def _unless_null(change: Change) -> Change:
    return lambda value: None if value is None else change(value)


@st.composite
def _evolutions(draw: st.DrawFn) -> tuple[Schema, Schema, list[dict[str, Any]], list[dict[str, Any]]]:
    schema, files = draw(_tables())
    fields, change = draw(_evolved_fields(schema.fields, iter(range(2000, 3000))))
    rows = [row for rows in files for row in rows]
    return schema, Schema(*fields), rows, [change(row) for row in rows]


@examples(40, suppress_health_check=list(HealthCheck))
@given(_evolutions())
def test_evolution_at_every_level_keeps_values_by_id(
    case: tuple[Schema, Schema, list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    """R27-R29: rename, reorder, drop, add and promote, anywhere; compared with a model that knows nothing of Arrow."""
    old, new, rows, expected = case
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        path = tasks.write_input(root / "in.parquet", rows, old, row_group_size=5)
        context = tasks.make_context(root, new, verify=ProofLevel.DEEP)
        result = execute_task.rewrite(tasks.make_task([path]), context, "0")
        found = [row for file in result.staged for row in pq.read_table(file.file_path).to_pylist()]
        assert [_plain(row) for row in found] == [_plain(row) for row in expected]


def _plain(value: Any) -> Any:
    """Floats by their bits, but NaNs as one; UUIDs by their bytes."""
    if isinstance(value, float):
        return ("nan",) if value != value else struct.pack(">d", value)
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dict):
        return {key: _plain(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(below) for below in value]
    return value
