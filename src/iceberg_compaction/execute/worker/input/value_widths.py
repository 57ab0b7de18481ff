"""The bytes of rows once they are decoded, and decoding piece by piece. Arrow arrays come in, whose texts may be
dictionaries at any level: a few bytes that stand for many. Bytes of each row go out, or plain arrays."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.formats import arrow_buffers

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    Widths = NDArray[np.int64] | int  # of every row, or the same for all

_OFFSET = 8  # bytes at most


def row_bytes(batch: pa.RecordBatch) -> Widths:
    """Arrow bytes of each row, as if there were no dictionaries."""
    total: Widths = 0
    for column in batch.columns:
        total = total + array_bytes(column)
    return total


def most_bytes(batch: pa.RecordBatch) -> float:
    """More bytes than the batch has without dictionaries, known at little cost."""
    total = 0.0
    for column in batch.columns:
        if not has_dictionary(column.type):
            total += column.nbytes
        elif pa.types.is_dictionary(column.type):
            total += len(column) * (column.dictionary.nbytes + _OFFSET)
        else:
            return math.inf
    return total


def array_bytes(array: pa.Array) -> Widths:
    """Arrow bytes of each value, as if there were no dictionaries."""
    kind = array.type
    if isinstance(kind, pa.BaseExtensionType):
        return array_bytes(array.storage)
    if pa.types.is_dictionary(kind):
        each = array_bytes(array.dictionary)
        if isinstance(each, int) or not len(each):
            return each if isinstance(each, int) else 4
        indices = arrow_buffers.fixed(array.indices)
        widths: NDArray[np.int64] = each.take(indices, mode="clip")  # a null may hold any index
        return widths
    if _is_text(kind):
        return np.diff(arrow_buffers.offsets(array, _offset_type(kind))).astype(np.int64) + 4
    if pa.types.is_struct(kind):
        total: Widths = 1
        for position in range(kind.num_fields):
            total = total + array_bytes(array.field(position))
        return total
    if pa.types.is_map(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _list_bytes(array)
    return max(1, kind.bit_width // 8) if not pa.types.is_null(kind) else 0


def _list_bytes(array: pa.Array) -> Widths:
    offsets = arrow_buffers.offsets(array, _offset_type(array.type)).astype(np.int64)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    each: Widths = 0
    for values in (array.keys, array.items) if pa.types.is_map(array.type) else (array.values,):
        each = each + array_bytes(values.slice(first, count))
    if isinstance(each, int):
        return np.diff(offsets) * each + 4
    sums = np.concatenate(([0], np.cumsum(each)))
    return np.diff(sums[offsets - first]) + 4


def _is_text(kind: pa.DataType) -> bool:
    return any(
        test(kind)
        for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_large_string, pa.types.is_large_binary)
    )


def _offset_type(kind: pa.DataType) -> str:
    large = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind) or pa.types.is_large_list(kind)
    return "<i8" if large else "<i4"


def cuts(each: Widths, rows: int, most: int) -> Iterator[tuple[int, int]]:
    """The rows in slices of at most so many bytes, or of one row: where each starts, and how many rows it has."""
    if isinstance(each, int):
        step = max(1, most // max(1, each))
        yield from ((start, min(step, rows - start)) for start in range(0, rows, step))
        return
    reach = np.cumsum(each)
    start = 0
    while start < rows:
        before = int(reach[start - 1]) if start else 0
        stop = max(start + 1, int(np.searchsorted(reach, before + most, side="right")))
        yield start, stop - start
        start = stop


def decoded(array: pa.Array) -> pa.Array:
    """The same values without dictionaries; of a slice no more is decoded than it shows."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        return array.dictionary_decode()
    if not has_dictionary(kind):
        return array
    if pa.types.is_struct(kind):
        below = [decoded(array.field(position)) for position in range(kind.num_fields)]
        fields = [kind.field(position).with_type(child.type) for position, child in enumerate(below)]
        return pa.Array.from_buffers(pa.struct(fields), len(array), [_bitmap(array)], children=below)
    offset_type = _offset_type(kind)
    offsets = arrow_buffers.offsets(array, offset_type)
    first, count = int(offsets[0]), int(offsets[-1] - offsets[0])
    buffers = [_bitmap(array), pa.py_buffer((offsets - offsets[0]).astype(offset_type))]
    if pa.types.is_map(kind):
        pair = [decoded(values.slice(first, count)) for values in (array.keys, array.items)]
        fields = [field.with_type(c.type) for field, c in zip((kind.key_field, kind.item_field), pair, strict=True)]
        entries = pa.StructArray.from_arrays(pair, fields=fields)
        return pa.Array.from_buffers(pa.map_(*fields), len(array), buffers, children=[entries])
    child = decoded(array.values.slice(first, count))
    make = pa.large_list if pa.types.is_large_list(kind) else pa.list_
    return pa.Array.from_buffers(make(kind.value_field.with_type(child.type)), len(array), buffers, children=[child])


def has_dictionary(kind: pa.DataType) -> bool:
    """Whether there is a dictionary at any level of a type."""
    if pa.types.is_dictionary(kind):
        return True
    return pa.types.is_nested(kind) and any(
        has_dictionary(kind.field(position).type) for position in range(kind.num_fields)
    )


def _bitmap(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(arrow_buffers.validity(array), bitorder="little"))
