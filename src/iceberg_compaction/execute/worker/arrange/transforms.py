"""Iceberg's transforms on Arrow arrays: the source column of a partition field or a sort field comes in, transformed
values go out. Arithmetic transforms whole columns at a time; other transforms use PyIceberg's function on the distinct
values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import transforms as iceberg_transforms
from pyiceberg import types as iceberg

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.metadata import time_units

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.schema import Schema

_COMPUTED = (
    iceberg_transforms.IdentityTransform,
    iceberg_transforms.VoidTransform,
    iceberg_transforms.BucketTransform,
    iceberg_transforms.TruncateTransform,
    *time_units.TIMES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A transform of one column of the output files, which may lie inside structs."""

    transform: Any
    source: iceberg.IcebergType
    path: tuple[int, ...]  # positions from the top; empty where the transform asks for no value

    def values(self, batch: pa.RecordBatch) -> pa.Array:
        """The transformed values of a batch in the schema of the output files."""
        if not self.path:
            return pa.nulls(batch.num_rows)
        column = batch.column(self.path[0])
        if len(self.path) > 1:
            column = pc.struct_field(column, list(self.path[1:]))  # null where a struct on the way is
        return apply(self.transform, self.source, column)


def bind(transform: Any, source_id: int, schema: Schema, columns: pa.Schema, where: str) -> Term:
    """The term of a partition field or sort field, which `where` names. Raises UnsupportedError for a transform that
    cannot be computed."""
    if not isinstance(transform, _COMPUTED):
        raise errors.UnsupportedError(f"{where} has a transform that is not known here, so no file can be written.")
    if isinstance(transform, iceberg_transforms.VoidTransform):
        return Term(transform=transform, source=iceberg.UnknownType(), path=())
    leaf = next((leaf for leaf in arrow_schemas.leaves(columns) if leaf.field_id == source_id), None)
    if leaf is None or leaf.repeated:
        raise errors.UnsupportedError(
            f"{where} has the source field {source_id}, which is not a column with one value per row."
        )
    source = schema.find_type(source_id)
    if not transform.can_transform(source):
        raise errors.UnsupportedError(
            f"{where} applies {transform} to a column of type {source}, which has no meaning."
        )
    return Term(transform=transform, source=source, path=leaf.path)


def apply(transform: Any, source: iceberg.IcebergType, values: pa.Array) -> pa.Array:
    """The transformed column: nulls stay null, times are numbers of their unit (days, microseconds and so on),
    a UUID is its 16 bytes."""
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    if isinstance(transform, iceberg_transforms.VoidTransform):
        return pa.nulls(len(values))
    if pa.types.is_dictionary(values.type):
        # Few values stand for many rows; a null may hide among the values too.
        return apply(transform, source, values.dictionary).take(values.indices)
    if isinstance(transform, iceberg_transforms.IdentityTransform):
        return values
    if isinstance(transform, time_units.TIMES):
        return _same_nulls(time_units.count(transform, source, _numbers(values)), values)
    if isinstance(transform, iceberg_transforms.BucketTransform):
        return _bucket(transform, source, values)
    return _truncate(transform, source, values)


def _numbers(values: pa.Array) -> NDArray[np.int64]:
    """Whole numbers, dates and times as 64-bit integers; a null is any number."""
    width = 32 if values.type.bit_width == 32 else 64
    plain = values.view(pa.int32() if width == 32 else pa.int64())
    numbers: NDArray[np.int64] = plain.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return numbers


def _same_nulls(numbers: NDArray[Any], values: pa.Array) -> pa.Array:
    if not values.null_count:
        return pa.array(numbers)
    return pa.array(numbers, mask=values.is_null().to_numpy(zero_copy_only=False))


def _bucket(transform: Any, source: iceberg.IcebergType, values: pa.Array) -> pa.Array:
    if pa.types.is_integer(values.type) or pa.types.is_temporal(values.type):
        hashes = _hash_long(_numbers(values))
        return _same_nulls(
            ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(transform.num_buckets)).astype(np.int32), values
        )
    return _by_value(transform, source, values, pa.int32())


def _hash_long(numbers: NDArray[np.int64]) -> NDArray[np.uint32]:
    """Murmur3, 32 bits, seed 0, of the eight little-endian bytes of each number."""
    words = numbers.view(np.uint64)
    state = np.zeros(len(numbers), np.uint32)
    for word in ((words & np.uint64(0xFFFFFFFF)).astype(np.uint32), (words >> np.uint64(32)).astype(np.uint32)):
        mixed = _rotated(word * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
        state = _rotated(state ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)
    state ^= np.uint32(8)
    state = (state ^ (state >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    state = (state ^ (state >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return state ^ (state >> np.uint32(16))


def _rotated(numbers: NDArray[np.uint32], by: int) -> NDArray[np.uint32]:
    return (numbers << np.uint32(by)) | (numbers >> np.uint32(32 - by))


def _truncate(transform: Any, source: iceberg.IcebergType, values: pa.Array) -> pa.Array:
    width = transform.width
    if pa.types.is_string(values.type):
        return pc.utf8_slice_codeunits(values, 0, width)  # code points, as Iceberg counts
    if pa.types.is_binary(values.type):
        return pc.binary_slice(values, 0, width)
    if pa.types.is_integer(values.type):
        numbers = _numbers(values)
        kind = np.dtype(f"i{values.type.bit_width // 8}")  # to_pandas_dtype needs pandas, which a worker may lack
        whole = (numbers - np.mod(numbers, np.int64(width))).astype(kind)
        return _same_nulls(whole, values)
    return _by_value(transform, source, values, pa.decimal128(38, values.type.scale))  # rounding down may add a digit


def _by_value(transform: Any, source: iceberg.IcebergType, values: pa.Array, kind: pa.DataType) -> pa.Array:
    """PyIceberg's function on each distinct value."""
    encoded = values.dictionary_encode()
    function = transform.transform(source)
    transformed = [function(value) for value in encoded.dictionary.to_pylist()]
    return pa.array(transformed, kind).take(encoded.indices)
