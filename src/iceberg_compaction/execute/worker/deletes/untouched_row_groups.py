"""Row groups that equality deletes cannot reach, by statistics and Bloom filters alone. The keys of an index come in
once; then, for the extents of each row group, the answer goes out whether a key may lie in it. In doubt it may."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from iceberg_compaction.execute.worker.deletes import equality_keys, key_columns
    from iceberg_compaction.formats.parquet import bloom

# Types whose statistics are plain signed integers, and those that are bytes in the order of bytes.
_NUMBERS = (
    iceberg.IntegerType,
    iceberg.LongType,
    iceberg.DateType,
    iceberg.TimeType,
    iceberg.TimestampType,
    iceberg.TimestamptzType,
)
_BYTES = (iceberg.StringType, iceberg.BinaryType)
_LISTED = 1 << 16  # keys; of more only the range is kept
_PROBED = 1 << 10  # keys that a Bloom filter is probed for; of more, one is likely to match by mistake


@dataclass(frozen=True, slots=True, kw_only=True)
class Extent:
    """The statistics of one column in one row group; None means unknown."""

    values: int  # nulls included
    nulls: int | None
    low: bytes | None
    high: bytes | None
    width: int = 0  # bytes of a number in plain encoding
    bloom: Callable[[], bloom.BloomFilter | None] | None = None  # reads the Bloom filter, if there is one


class KeyRanges:
    """The keys of one index, column by column."""

    def __init__(self, index: equality_keys.EqualityIndex) -> None:
        self._columns = [_KeyRange(field, array) for field, array in zip(index.fields, index.values, strict=True)]

    def may_touch(self, extents: Mapping[int, Extent]) -> bool:
        """Whether a row group may hold a key, given the extents of its columns by field id; a column that is not among
        them may hold anything."""
        return all(column.may_touch(extents[column.field_id]) for column in self._columns if column.field_id in extents)


class _KeyRange:
    def __init__(self, field: key_columns.KeyField, array: pa.Array) -> None:
        self.field_id = field.field_id
        self._is_number = isinstance(field.kind, _NUMBERS)
        self._is_comparable = self._is_number or isinstance(field.kind, _BYTES)
        self._nulls = array.null_count > 0
        self._any = array.null_count < len(array)
        self._sorted: Sequence[Any] = ()
        if self._is_comparable and self._any:
            plain = array.drop_null()
            plain = plain.view(pa.int32() if plain.type.bit_width == 32 else pa.int64()) if self._is_number else plain
            plain = plain if self._is_number else plain.cast(pa.binary())
            if len(plain) <= _LISTED:
                self._sorted = sorted(plain.to_pylist())
            else:
                ends = pc.min_max(plain).as_py()
                self._sorted = (ends["min"], ends["max"])
            self._is_range = len(plain) > _LISTED

    def may_touch(self, extent: Extent) -> bool:
        if self._nulls and extent.nulls != 0:
            return True
        return self._any and extent.nulls != extent.values and self._has_between(extent)

    def _has_between(self, extent: Extent) -> bool:
        if not self._is_comparable or extent.low is None or extent.high is None:
            return True
        low, high = self._value(extent.low), self._value(extent.high)
        if self._is_range:
            return bool(self._sorted[0] <= high and self._sorted[1] >= low)
        between = self._sorted[bisect.bisect_left(self._sorted, low) : bisect.bisect_right(self._sorted, high)]
        if not between or len(between) > _PROBED or extent.bloom is None:
            return bool(between)
        bloom_filter = extent.bloom()
        return bloom_filter is None or bloom_filter.may_hold_any(self._plain(value, extent.width) for value in between)

    def _value(self, raw: bytes) -> Any:
        return int.from_bytes(raw, "little", signed=True) if self._is_number else raw

    def _plain(self, value: Any, width: int) -> bytes:
        return int(value).to_bytes(width, "little", signed=True) if self._is_number else bytes(value)
