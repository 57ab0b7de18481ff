"""Whole columns against one value at a time: digests of paths, keys of bounds, and values picked out of maps."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import conversions, types
from tests.factories.examples import examples

from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_maps
from iceberg_compaction.metadata import cluster_column

RELAXED = examples(100)
TEXTS = st.lists(st.text(max_size=40), max_size=30)


@RELAXED
@given(TEXTS, st.integers(0, 30))
def test_equal_texts_have_equal_digests_and_others_have_others(texts: list[str], start: int) -> None:
    array = pa.array(texts, pa.string())
    found = hash64.text_digests(array)
    assert len({*zip(texts, found.tolist(), strict=True)}) == len(set(texts)) == len(set(found.tolist()))
    assert hash64.text_digests(array.slice(start)).tolist() == found[start:].tolist()


def test_digests_tell_many_similar_paths_apart() -> None:
    texts = [
        f"s3://lake/db/t/data/day={day:03d}/part-{number:05d}.parquet" for day in range(100) for number in range(1000)
    ]
    found = hash64.text_digests(pa.array(texts))
    assert hash64.repeated(found) is None
    assert hash64.text_digests(pa.array(["ab" * 8, "ba" * 8, "a" * 8, "a" * 16, "a" * 24, ""])).size == 6


def test_rows_with_the_same_digest_are_marked() -> None:
    assert hash64.repeated(np.array([3, 1, 2, 3], np.uint64)).to_pylist() == [True, False, False, True]
    assert hash64.repeated(np.zeros(0, np.uint64)) is None


VALUES: list[tuple[types.PrimitiveType, st.SearchStrategy[Any]]] = [
    (types.IntegerType(), st.integers(-(2**31), 2**31 - 1)),
    (types.LongType(), st.integers(-(2**63), 2**63 - 1)),
    (types.DateType(), st.integers(-1000, 100_000)),
    (types.TimestampType(), st.integers(-(2**60), 2**60)),
    (types.FloatType(), st.floats(allow_nan=False, width=32)),
    (types.DoubleType(), st.floats(allow_nan=False)),
]


@pytest.mark.parametrize(
    ("kind", "values"), VALUES, ids=lambda value: str(value) if isinstance(value, types.IcebergType) else ""
)
@RELAXED
@given(data=st.data())
def test_keys_have_the_order_of_the_values(
    kind: types.PrimitiveType, values: st.SearchStrategy[Any], data: st.DataObject
) -> None:
    drawn = data.draw(st.lists(values, min_size=1, max_size=20))
    found = cluster_column.keys(pa.array([conversions.to_bytes(kind, value) for value in drawn], pa.binary()), kind)
    keys = found.to_pylist()
    assert [(a < b) for a in drawn for b in drawn] == [(a < b) for a in keys for b in keys]


@RELAXED
@given(st.lists(st.one_of(st.none(), st.text(max_size=12)), max_size=20))
def test_text_counts_by_its_first_bytes(drawn: list[str | None]) -> None:
    found = cluster_column.keys(
        pa.array([None if text is None else text.encode() for text in drawn], pa.binary()), types.StringType()
    )
    expected = [
        None if text is None else int.from_bytes(text.encode()[:8].ljust(8, b"\0"), "big") - 2**63 for text in drawn
    ]
    assert found.to_pylist() == expected


def test_bounds_without_an_order_have_no_key() -> None:
    bounds = pa.array([struct.pack("<d", float("nan")), None, b"123", struct.pack("<d", -0.0)], pa.binary())
    assert cluster_column.keys(bounds, types.DoubleType()).to_pylist() == [None, None, None, 0]
    assert cluster_column.keys(bounds, types.DecimalType(9, 2)).null_count == 4
    assert cluster_column.keys(bounds, types.UUIDType()).null_count == 4


MAPS = st.lists(st.one_of(st.none(), st.dictionaries(st.integers(1, 5), st.integers(0, 99), max_size=5)), max_size=12)


@RELAXED
@given(MAPS, st.integers(1, 6), st.integers(0, 12), st.integers(0, 12))
def test_a_value_is_picked_out_of_every_map(
    drawn: list[dict[int, int] | None], field_id: int, start: int, count: int
) -> None:
    pair = pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.int64(), False)])
    rows = [None if row is None else [{"key": key, "value": value} for key, value in row.items()] for row in drawn]
    column = pa.chunked_array([pa.array(rows, pa.list_(pair)).slice(start, count)])
    expected = [(row or {}).get(field_id) for row in drawn[start : start + count]]
    assert avro_maps.pick(column, field_id).to_pylist() == expected
