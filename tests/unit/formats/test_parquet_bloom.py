"""Bloom filters that pyarrow wrote are understood: no value that is there is denied, and most others are."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.formats.parquet import bloom, format_fields, parquet_footer

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 2000


def filters(root: Path, table: pa.Table) -> dict[str, bloom.BloomFilter]:
    path = root / "in.parquet"
    options = {name: {"ndv": COUNT, "fpp": 0.01} for name in table.column_names}
    pq.write_table(table, path, bloom_filter_options=options)
    raw = parquet_footer.read(PyArrowFileIO(), str(path))
    found = {}
    for leaf, chunk in zip(raw.leaves, raw.groups[0].chunks, strict=True):
        start = format_fields.integer(chunk.meta, format_fields.Meta.BLOOM)
        length = format_fields.integer(chunk.meta, format_fields.Meta.BLOOM_LENGTH)
        found[leaf.path[0]] = bloom.BloomFilter(path.read_bytes()[start : start + length])
    return found


def test_what_is_there_is_never_denied_and_what_is_not_hardly_ever_found(tmp_path: Path) -> None:
    numbers = [number * 7919 for number in range(COUNT)]
    table = pa.table(
        {
            "long": pa.array(numbers, pa.int64()),
            "int": pa.array(numbers, pa.int32()),
            "text": pa.array([f"value {number}" for number in numbers]),
        }
    )
    found = filters(tmp_path, table)
    plain = {
        "long": lambda number: struct.pack("<q", number),
        "int": lambda number: struct.pack("<i", number),
        "text": lambda number: f"value {number}".encode(),
    }
    for name, encode in plain.items():
        assert all(found[name].may_hold_any([encode(number)]) for number in numbers)
        wrong = sum(found[name].may_hold_any([encode(number + 1)]) for number in numbers)
        assert wrong < 0.05 * COUNT
        assert found[name].may_hold_any([encode(1), encode(numbers[-1])])
    assert not found["long"].may_hold_any([])


@given(st.binary(max_size=80))
def test_other_bytes_are_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r".+"):
        bloom.BloomFilter(data)
