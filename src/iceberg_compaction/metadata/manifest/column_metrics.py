"""Column metrics of files, for a few fields: their paths in a manifest entry, a column per field and metric, and bounds
turned from Iceberg's binary form into values that compare."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from pyiceberg import types

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

COUNTS = ("value_counts", "null_value_counts", "nan_value_counts")
BOUNDS = ("lower_bounds", "upper_bounds")
METRICS = (*COUNTS, *BOUNDS)

# A promoted column's older files have bounds in the older, shorter type (R29), so the length decides.
_WIDTHS: dict[type[types.IcebergType], dict[int, str]] = {
    types.BooleanType: {1: "u1"},
    types.IntegerType: {4: "<i4"},
    types.LongType: {4: "<i4", 8: "<i8"},
    types.DateType: {4: "<i4"},
    types.TimeType: {8: "<i8"},
    types.TimestampType: {8: "<i8"},
    types.TimestamptzType: {8: "<i8"},
    types.FloatType: {4: "<f4"},
    types.DoubleType: {4: "<f4", 8: "<f8"},
}
_BYTES = (types.StringType, types.BinaryType, types.FixedType)
_DECIMAL_BYTES = 16


def column(metric: str, field_id: int) -> str:
    """The name of the column of one metric of one field."""
    return f"{metric}:{field_id}"


def paths(metrics: Sequence[str], field_ids: Sequence[int]) -> dict[str, Sequence[str | int]]:
    """The columns of these metrics of these fields, each with its path in a manifest entry."""
    return {column(metric, field_id): ("data_file", metric, field_id) for field_id in field_ids for metric in metrics}


def with_metrics(files: pa.Table, entries: pa.Table, field_ids: Sequence[int]) -> pa.Table:
    """Files plus a column per field and metric; null where the manifest has none."""
    for name, metric in [(column(metric, field_id), metric) for field_id in field_ids for metric in METRICS]:
        kind = pa.int64() if metric in COUNTS else pa.binary()
        values = entries[name].cast(kind) if name in entries.column_names else pa.nulls(files.num_rows, kind)
        files = files.append_column(name, values)
    return files


def comparable(bounds: pa.ChunkedArray | pa.Array, kind: types.IcebergType) -> pa.Array | None:
    """Bounds as values whose order is the type's own: numbers (times as numbers, too), bytes for text and binary. Null
    where a bound is absent, of a length that the type does not have, or NaN. None: the type's bounds are not used."""
    array = bounds.combine_chunks() if isinstance(bounds, pa.ChunkedArray) else bounds
    if isinstance(kind, _BYTES):
        return array
    if isinstance(kind, types.DecimalType):
        return _decimals(array, kind.scale)
    widths = _WIDTHS.get(type(kind))
    if widths is None:
        return None
    return _numbers(array, widths)


def _numbers(array: pa.Array, widths: dict[int, str]) -> pa.Array:
    floating = any("f" in dtype for dtype in widths.values())
    values = np.zeros(len(array), np.float64 if floating else np.int64)
    valid = np.zeros(len(array), np.bool_)
    starts, sizes, data = layout(array)
    for width, dtype in widths.items():
        rows = np.flatnonzero(sizes == width)
        if len(rows) == len(array) > 0:  # side by side, then
            values[:] = data[starts[0] : starts[0] + width * len(rows)].view(dtype)
        else:
            values[rows] = data[starts[rows, None] + np.arange(width)].view(dtype)[:, 0]
        valid[rows] = True
    if floating:
        valid &= ~np.isnan(values)
    return pa.array(values, mask=~valid)


def _decimals(array: pa.Array, scale: int) -> pa.Array:
    """Big-endian two's complement of any length, sign-extended to Arrow's 16 little-endian bytes."""
    starts, sizes, data = layout(array)
    wide = np.zeros((len(array), _DECIMAL_BYTES), np.uint8)
    valid = (sizes > 0) & (sizes <= _DECIMAL_BYTES)
    for size in np.unique(sizes[valid]):
        rows = np.flatnonzero(sizes == size)
        raw = data[starts[rows, None] + np.arange(size)]
        wide[rows] = np.where(raw[:, :1] >= 128, 255, 0)
        wide[rows, _DECIMAL_BYTES - size :] = raw
    validity = pa.py_buffer(np.packbits(valid, bitorder="little"))
    buffer = pa.py_buffer(np.ascontiguousarray(wide[:, ::-1]))
    return pa.Array.from_buffers(pa.decimal128(38, scale), len(array), [validity, buffer])


def layout(array: pa.Array) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.uint8]]:
    """The start of each value, its size (-1: null), and the bytes of all."""
    if not len(array):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(1, np.uint8)
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets, np.int32, len(array) + 1, array.offset * 4).astype(np.int64)
    sizes = np.where(array.is_valid().to_numpy(zero_copy_only=False), np.diff(ends), -1)
    return ends[:-1], sizes, np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
