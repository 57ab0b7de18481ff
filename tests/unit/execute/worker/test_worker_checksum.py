"""The checksum: pinned values, equality with a slow reading of its definition, and what it must see."""

from __future__ import annotations

import datetime as dt
import struct
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BinaryType,
    BooleanType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimeType,
    UUIDType,
)

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.proof import checksum, measure
from iceberg_compaction.model.policies import ProofLevel

MASK = 2**64 - 1
G, K1, K2 = 0x9E3779B97F4A7C15, 0xD6E8FEB86659FD93, 0xC2B2AE3D27D4EB4F
L, N, R = 0x165667B19E3779F9, 0x27D4EB2F165667C5, 0x85EBCA77C2B2AE63


def fin(x: int) -> int:
    x = x * K1 & MASK
    x ^= x >> 32
    x = x * K2 & MASK
    return x ^ x >> 29


def mix(x: int, j: int) -> int:
    return (x ^ x >> 32) * (fin((j + 1) * G & MASK) | 1) & MASK


def bytes_digest(data: bytes) -> int:
    words = [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data), 8)]
    return (L * len(data) + sum(mix(word, j) for j, word in enumerate(words))) & MASK


def slow_digest(kind: Any, value: Any) -> int:
    if isinstance(kind, (FloatType, DoubleType)):
        return struct.unpack("<Q", struct.pack("<d", value))[0]
    if isinstance(kind, DecimalType):
        unscaled = int(value.scaleb(kind.scale))
        return unscaled & MASK if kind.precision <= 18 else bytes_digest(unscaled.to_bytes(16, "little", signed=True))
    if isinstance(kind, StringType):
        return bytes_digest(value.encode())
    if isinstance(kind, (BinaryType, FixedType, UUIDType)):
        return bytes_digest(value)
    if isinstance(kind, StructType):
        return (N + sum(slow_hash(field.field_id, field.field_type, value[field.name]) for field in kind.fields)) & MASK
    if isinstance(kind, ListType):
        entries = [slow_hash(kind.element_id, kind.element_type, below) for below in value]
    elif isinstance(kind, MapType):
        entries = [
            slow_hash(kind.key_id, kind.key_type, key) + slow_hash(kind.value_id, kind.value_type, below) + N & MASK
            for key, below in value
        ]
    else:
        return int(value) & MASK
    return (L * len(value) + sum(mix(entry, j) for j, entry in enumerate(entries))) & MASK


def slow_hash(field_id: int, kind: Any, value: Any) -> int:
    if value is None:
        return 0
    salt = fin(field_id * G & MASK)
    x = (slow_digest(kind, value) ^ salt) * (fin(salt) | 1) & MASK
    return x ^ x >> 32


NESTED = StructType(
    NestedField(21, "a", LongType(), required=False), NestedField(22, "b", StringType(), required=False)
)
SAMPLES: list[tuple[Any, list[Any]]] = [
    (BooleanType(), [True, False, None]),
    (IntegerType(), [1, -1, None, 2**31 - 1]),
    (LongType(), [0, -(2**63), None, 2**63 - 1]),
    (FloatType(), [0.5, -0.0, None, float("inf")]),
    (DoubleType(), [0.1, -0.0, 0.0, None, float("nan")]),
    (DecimalType(30, 3), [Decimal("1.234"), Decimal("-987654321098765432109.876"), None]),
    (DecimalType(9, 2), [Decimal("1.23"), Decimal("-9999999.99"), None]),
    (StringType(), ["", "a", None, "12345678", "123456789", "äöü" * 20, "x" * 32, "y" * 33, "z" * 2000, "w" * 256]),
    (BinaryType(), [b"", b"\0", b"\0" * 8, b"\0" * 9, None, b"\xff" * 300]),
    (FixedType(3), [b"abc", None, b"\0\0\0"]),
    (UUIDType(), [bytes(range(16)), None]),
    (NESTED, [{"a": 1, "b": "x"}, None, {"a": None, "b": None}, {"a": None, "b": "1"}]),
    (ListType(31, LongType(), element_required=False), [[], None, [1], [None], [1, None, 2], [2, None, 1], [7] * 50]),
    (ListType(32, NESTED, element_required=False), [[{"a": 1, "b": "q"}, None], [], None]),
    (MapType(33, StringType(), 34, DoubleType(), value_required=False), [[("k", 1.5), ("l", None)], [], None]),
]


def as_array(kind: Any, values: list[Any]) -> pa.Array:
    return pa.array(values, arrow_schemas.plain(arrow_schemas.arrow_type(kind)))


@pytest.mark.parametrize(("kind", "values"), SAMPLES, ids=lambda sample: str(sample)[:20])
def test_fast_hashes_are_those_of_the_definition(kind: Any, values: list[Any]) -> None:
    many = values * 7
    expected = [slow_hash(5, kind, value) for value in many]
    array = as_array(kind, many)
    function = checksum.hasher(5, kind, array.type)
    assert checksum.all_hashes(function, array).tolist() == expected
    for start, count in [(1, 5), (3, len(many) - 4), (len(many) - 1, 1), (2, 0)]:
        assert checksum.all_hashes(function, array.slice(start, count)).tolist() == expected[start : start + count]


def test_layouts_of_the_same_value_hash_the_same() -> None:
    text = pa.array(["a", None, "longer than a word", "a", ""])
    expected = checksum.all_hashes(checksum.hasher(1, StringType(), text.type), text).tolist()
    for kind in (pa.large_string(), pa.binary(), pa.large_binary(), pa.dictionary(pa.int8(), pa.string())):
        other = text.cast(kind)
        function = checksum.hasher(1, StringType(), kind)
        assert checksum.all_hashes(function, other).tolist() == expected, kind
        assert checksum.all_hashes(function, other.slice(1, 3)).tolist() == expected[1:4], kind
    for kind, narrow, wide in [
        (LongType(), pa.int32(), pa.int64()),
        (LongType(), pa.int8(), pa.int64()),
        (DoubleType(), pa.float32(), pa.float64()),
        (TimestampType(), pa.timestamp("ms"), pa.timestamp("us", tz="UTC")),
        (TimeType(), pa.time32("ms"), pa.time64("us")),
        (DecimalType(9, 2), pa.decimal32(5, 2), pa.decimal128(9, 2)),
        (DecimalType(20, 2), pa.decimal32(5, 2), pa.decimal128(20, 2)),
        (DecimalType(20, 2), pa.decimal64(5, 2), pa.decimal128(20, 2)),
    ]:
        values: list[Any] = [1, None, -2, 3]
        if pa.types.is_decimal(wide):
            values = [Decimal("1.50"), None, Decimal("-2.25")]
        elif pa.types.is_time(wide):
            values = [dt.time(1), None]
        elif pa.types.is_timestamp(wide):
            values = [dt.datetime(2020, 1, 1, 1), None, dt.datetime(1960, 1, 1)]
        small, large = pa.array(values, narrow), pa.array(values, narrow).cast(wide)
        one = checksum.all_hashes(checksum.hasher(1, kind, narrow), small)
        two = checksum.all_hashes(checksum.hasher(1, kind, wide), large)
        assert one.tolist() == two.tolist(), (kind, narrow)


def test_dictionaries_are_told_apart_even_when_memory_is_reused() -> None:
    function = checksum.hasher(1, StringType(), pa.dictionary(pa.int32(), pa.string()))
    for index in range(50):
        values = pa.array([f"v{index}", "w"])
        array = pa.DictionaryArray.from_arrays(pa.array([0, None, 1], pa.int32()), values)
        assert checksum.all_hashes(function, array).tolist() == [
            slow_hash(1, StringType(), value) for value in (f"v{index}", None, "w")
        ]


def test_many_values_in_several_chunks() -> None:
    count = 3 * checksum.CHUNK + 17
    values = np.random.default_rng(3).integers(-100, 100, count)
    lists = pa.ListArray.from_arrays(pa.array(np.append(np.arange(0, count, 5), count), pa.int32()), pa.array(values))
    function = checksum.hasher(1, ListType(2, LongType(), element_required=False), lists.type)
    hashes = checksum.all_hashes(function, lists)
    for place in (0, 77, len(lists) - 1):
        kind = ListType(2, LongType(), element_required=False)
        assert int(hashes[place]) == slow_hash(1, kind, lists[place].as_py())


ALL = Schema(*[NestedField(100 + index, f"c{index}", kind, required=False) for index, (kind, _) in enumerate(SAMPLES)])


def _sample_batch() -> pa.RecordBatch:
    columns = [as_array(kind, (values * 10)[:10]) for kind, values in SAMPLES]
    fields = [field.with_type(arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(ALL)]
    return pa.RecordBatch.from_arrays(columns, schema=pa.schema(fields))


def _side(*batches: pa.RecordBatch) -> Any:
    meter = measure.Meter(ALL, ProofLevel.CHECKSUM)
    for batch in batches:
        meter.add(batch)
    return meter.side


GOLDEN_ROWS = 0x3941B563199994D0
GOLDEN_COLUMNS = [
    0x588DEF02ECDA4093,
    0x81D92102339EC8AF,
    0x57D7DB6285705F84,
    0xB8C0E35AC9F6ED70,
    0x8A25EC3B18DBD51C,
    0xC60D34DF9150AD48,
    0x8B2FD08633C342E1,
    0x21E5A94CD1532C7D,
    0x4B5989ADE85AC80C,
    0x08417B149D158389,
    0xA2BE1BD32D5DDF14,
    0x408F8DCFF4D22831,
    0xB0AAD126DD65A9B2,
    0x7D3667353470DAA4,
    0xE048EEC5D9781A2A,
]


def test_pinned_values() -> None:
    """Stored in snapshot summaries: if this fails, the algorithm changed and old checksums mean nothing any more."""
    side = _side(_sample_batch())
    assert side.rows == 10
    assert side.row_checksum == GOLDEN_ROWS
    assert list(side.checksums.values()) == GOLDEN_COLUMNS


def test_order_and_batching_do_not_matter_but_rows_do() -> None:
    batch = _sample_batch()
    side = _side(batch)
    assert _side(batch.slice(4), batch.slice(0, 4)) == side
    assert _side(batch.take(pa.array([9, 8, 7, 6, 5, 4, 3, 2, 1, 0]))) == side
    swapped = batch.set_column(1, batch.schema.field(1), batch.column(1).take(pa.array([1, 0, *range(2, 10)])))
    assert _side(swapped).checksums == side.checksums
    assert _side(swapped).row_checksum != side.row_checksum


INNER = StructType(NestedField(41, "t", NESTED, required=False), NestedField(42, "c", StringType(), required=False))
LISTS = ListType(43, ListType(44, LongType(), element_required=False), element_required=False)
# Values that are easily taken for one another. No two of a list may have the same hash.
NEIGHBOURS: list[tuple[Any, list[Any]]] = [
    (StringType(), [None, "", "\0", "\0\0", "\0" * 8, "\0" * 9, "0", " "]),
    (BinaryType(), [None, b"", b"\0", b"\0" * 8, b"\0" * 16]),
    (LongType(), [None, 0, 1, -1, 2**32, -(2**63)]),
    (DecimalType(9, 2), [None, Decimal("0.00"), Decimal("0.01"), Decimal("0.10"), Decimal("1.00"), Decimal("-0.01")]),
    (NESTED, [None, {"a": None, "b": None}, {"a": 0, "b": None}, {"a": None, "b": ""}, {"a": None, "b": "0"}]),
    (
        INNER,
        [
            None,
            {"t": None, "c": None},
            {"t": {"a": None, "b": None}, "c": None},
            {"t": {"a": None, "b": "x"}, "c": None},
            {"t": None, "c": "x"},
            {"t": {"a": None, "b": None}, "c": "x"},
        ],
    ),
    (LISTS, [None, [], [None], [[]], [[], []], [[], None], [None, []], [[None]], [[None], []], [[], [None]]]),
    (LISTS, [[[1], [2]], [[1, 2]], [[1, 2], []], [[], [1, 2]], [[2], [1]], [[1], [2], None], [[1], [None], [2]]]),
    (ListType(45, NESTED, element_required=False), [None, [], [None], [{"a": None, "b": None}], [None, None]]),
    (
        MapType(46, StringType(), 47, NESTED, value_required=False),
        [
            None,
            [],
            [("k", None)],
            [("k", {"a": None, "b": None})],
            [("", None)],
            [("k", None), ("l", None)],
            [("l", None), ("k", None)],
        ],
    ),
]


@pytest.mark.parametrize(("kind", "values"), NEIGHBOURS, ids=lambda sample: str(sample)[:20])
def test_neighbours_are_told_apart(kind: Any, values: list[Any]) -> None:
    array = as_array(kind, values)
    hashes = checksum.all_hashes(checksum.hasher(5, kind, array.type), array).tolist()
    assert len(set(hashes)) == len(values)


@pytest.mark.parametrize("kind", [FloatType(), DoubleType()], ids=str)
def test_every_bit_of_a_float_counts_whatever_its_layout(kind: Any) -> None:
    """Zeros, and NaNs with their sign, their payload, and whether they are quiet."""
    one_bits = [0, 1 << 31, 0x7FC00000, 0xFFC00000, 0x7F800001, 0x7FC00001, 0x7FBFFFFF, 0x7F800000, 0x7F000000]
    two_bits = [0, 1 << 63, 0x7FF8 << 48, 0xFFF8 << 48, (0x7FF0 << 48) + 1, (0x7FF8 << 48) + 1, 0x7FF0 << 48]
    wide = isinstance(kind, DoubleType)
    bits = np.array(two_bits, np.uint64) if wide else np.array(one_bits, np.uint32)
    array = pa.array(bits).view(pa.float64() if wide else pa.float32())
    hashes = checksum.all_hashes(checksum.hasher(5, kind, array.type), array).tolist()
    assert len({*hashes, 0}) == len(bits) + 1
    lists = pa.ListArray.from_arrays(pa.array(range(len(bits) + 1), pa.int32()), array)
    listed = checksum.hasher(6, ListType(5, kind, element_required=False), lists.type)
    assert len(set(checksum.all_hashes(listed, lists).tolist())) == len(bits)
    places = pa.array(np.arange(len(bits), dtype=np.int32))
    encoded = pa.DictionaryArray.from_arrays(places, array)
    assert checksum.all_hashes(checksum.hasher(5, kind, encoded.type), encoded).tolist() == hashes


def test_a_float_in_a_column_of_doubles_is_the_double_that_it_becomes() -> None:
    array = pa.array(np.array([0x7F800001, 0x7FC00001, 0x80000000, 0x3F000000], np.uint32)).view(pa.float32())
    hashes = checksum.all_hashes(checksum.hasher(5, DoubleType(), array.type), array).tolist()
    assert hashes == checksum.all_hashes(checksum.hasher(5, DoubleType(), pa.float64()), array.cast("double")).tolist()


def test_an_absent_column_equals_one_that_is_all_null() -> None:
    batch = _sample_batch()
    nulls = batch.set_column(7, batch.schema.field(7), pa.nulls(10, pa.string()))
    assert _side(nulls) == _side(batch.remove_column(7))
