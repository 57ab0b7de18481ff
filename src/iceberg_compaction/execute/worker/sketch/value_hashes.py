"""The hashes of a column's values that sketches of distinct values are made of. Values are hashed in Iceberg's binary
single-value form, so that sketches of other engines can be joined with them. Nulls and empty values have no hash, as in
Apache DataSketches."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import types as iceberg

from iceberg_compaction.formats import murmur3, theta_hashes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Words = NDArray[np.uint64]

# Types of a fixed number of bytes, at most 8, that little-endian numbers are.
_WIDTHS: dict[type[iceberg.IcebergType], int] = {
    iceberg.IntegerType: 4,
    iceberg.DateType: 4,
    iceberg.FloatType: 4,
    iceberg.LongType: 8,
    iceberg.TimeType: 8,
    iceberg.TimestampType: 8,
    iceberg.TimestamptzType: 8,
    iceberg.DoubleType: 8,
}
_BYTES = (iceberg.StringType, iceberg.BinaryType, iceberg.FixedType, iceberg.UUIDType)


def is_counted(kind: iceberg.IcebergType) -> bool:
    """Whether columns of this type have sketches."""
    return type(kind) in _WIDTHS or isinstance(kind, (*_BYTES, iceberg.BooleanType, iceberg.DecimalType))


def hashes(values: pa.Array, kind: iceberg.IcebergType) -> Words:
    """The first 64 bits of the hash of each value; of texts that are dictionaries, of each that is in use."""
    if pa.types.is_dictionary(values.type):
        used = pc.unique(values.indices.drop_null())
        values = values.dictionary.take(used)
    values = values.drop_null() if values.null_count else values
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(kind, iceberg.BooleanType):
        return murmur3.first_words_of_numbers(pc.unique(values).cast(pa.uint64()).to_numpy(), 1, theta_hashes.SEED)
    if width := _WIDTHS.get(type(kind)):
        return murmur3.first_words_of_numbers(_numbers(values, width), width, theta_hashes.SEED)
    if isinstance(kind, iceberg.DecimalType):
        values = _unscaled(values)
    if not pa.types.is_fixed_size_binary(values.type):
        values = values.filter(pc.greater(pc.binary_length(values), 0))
    return murmur3.first_words(values, theta_hashes.SEED)


def _numbers(values: pa.Array, width: int) -> Words:
    """The bytes of each value as an unsigned number."""
    plain = values.view(pa.uint32() if width == 4 else pa.uint64()).to_numpy()
    return np.asarray(plain, np.uint64)


def _unscaled(values: pa.Array) -> pa.Array:
    """The unscaled value of each decimal in as few bytes as two's complement takes, the highest first."""
    values = pc.unique(values.cast(pa.decimal128(38, values.type.scale)))
    width = 16
    raw = np.frombuffer(values.buffers()[1], np.uint8, width * len(values), width * values.offset)
    raw = raw.reshape(-1, width)[:, ::-1]  # the highest byte first
    sign = np.where(raw[:, 0] >= 128, 255, 0).astype(np.uint8)
    # A leading byte is left out if it repeats the sign and the next one still shows it.
    spare = (raw[:, :-1] == sign[:, None]) & ((raw[:, 1:] >= 128) == (sign[:, None] == 255))
    first = np.cumprod(spare, axis=1).sum(axis=1)
    kept = np.arange(width)[None, :] >= first[:, None]
    ends = np.concatenate([[0], np.cumsum(width - first)]).astype(np.int64)
    return pa.Array.from_buffers(
        pa.large_binary(), len(values), [None, pa.py_buffer(ends.tobytes()), pa.py_buffer(raw[kept].tobytes())]
    )
