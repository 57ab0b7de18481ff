"""Chooses the column that a table is most likely clustered by, and turns its bounds into numbers of the same order. The
numbers serve neighbourhood and overlap only: different values may share one, so they never decide about a row."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types

from iceberg_compaction.metadata.manifest import column_metrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyiceberg.table import Table

_TIMES = (types.DateType, types.TimestampType, types.TimestamptzType)
_PREFIX = 8  # bytes of a text that count
_SIGN = np.uint64(1 << 63)


def column(table: Table) -> types.NestedField | None:
    """The first column of the sort order, else the first date or time that the table is partitioned by, else its first
    date or time."""
    schema = table.schema()

    def present(field_ids: Iterator[int]) -> Iterator[types.NestedField]:
        return (schema.find_field(field_id) for field_id in field_ids if schema.find_column_name(field_id))

    sources = present(field.source_id for field in table.sort_order().fields)
    partitioned = present(field.source_id for field in table.spec().fields)
    times = (field for field in (*partitioned, *schema.fields) if isinstance(field.field_type, _TIMES))
    return next(sources, None) or next(times, None)


def keys(bounds: pa.Array, kind: types.IcebergType) -> pa.Array:
    """Iceberg's binary bounds as int64; null where a bound is absent, or where the type has no order that fits."""
    values = None if isinstance(kind, types.DecimalType) else column_metrics.comparable(bounds, kind)
    if values is None:
        return pa.nulls(len(bounds), pa.int64())
    missing = values.is_null().to_numpy(zero_copy_only=False)
    if pa.types.is_floating(values.type):
        return pa.array(_float_keys(pc.fill_null(values, 0.0).to_numpy()), mask=missing)
    if pa.types.is_integer(values.type):
        return values.cast(pa.int64())
    return pa.array(_text_keys(values), mask=missing)


def _float_keys(values: NDArray[np.float64]) -> NDArray[np.int64]:
    """The bits of floats as numbers of the same order; those of negative floats are turned round."""
    bits = (values + 0.0).view(np.int64)  # -0.0 becomes 0.0
    ordered: NDArray[np.int64] = bits ^ ((bits >> 63) & np.int64(2**63 - 1))
    return ordered


def _text_keys(values: pa.Array) -> NDArray[np.int64]:
    """The first bytes as a big-endian number; a shorter text is filled up with zeros."""
    starts, sizes, data = column_metrics.layout(values)
    padded = np.concatenate([data, np.zeros(_PREFIX, np.uint8)])
    at = np.arange(_PREFIX)
    chars = np.where(at < sizes[:, None], padded[np.minimum(starts, len(data))[:, None] + at], np.uint8(0))
    numbers = np.ascontiguousarray(chars).view(">u8")[:, 0].astype(np.uint64)
    signed: NDArray[np.int64] = (numbers ^ _SIGN).view(np.int64)
    return signed
