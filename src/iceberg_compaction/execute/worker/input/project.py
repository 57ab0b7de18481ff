"""From a file's own columns to the table's, by field id (R27-R29): rename, reorder, add, drop and promote at every
level. A raw batch comes in, a batch in the schema of the output files goes out; no row is added, dropped or moved."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import schema as iceberg_schema
from pyiceberg import types as iceberg

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Convert = Callable[[pa.Array], pa.Array]
    Constants = Mapping[int, pa.Array]  # one-element arrays by field id, see `fillers`

_SIGNED = (pa.int8(), pa.int16(), pa.int32(), pa.uint8(), pa.uint16())
_TEXT = (pa.string(), pa.large_string(), pa.binary(), pa.large_binary())
# Arrow types that a file may have for a column of a table type, beside the type itself.
_ACCEPTED: dict[type[iceberg.IcebergType], tuple[pa.DataType, ...]] = {
    iceberg.IntegerType: _SIGNED,
    iceberg.LongType: (*_SIGNED, pa.int64(), pa.uint32()),
    iceberg.DoubleType: (pa.float32(),),
    iceberg.StringType: _TEXT,
    iceberg.BinaryType: _TEXT,
    iceberg.UUIDType: (pa.binary(16),),
    iceberg.TimeType: (pa.time32("s"), pa.time32("ms")),
}


class Projection:
    """How batches of one source schema become batches of the output schema. `constants` are what `fillers` found for
    columns that the file may lack, at any level."""

    def __init__(
        self, source: pa.Schema, table: iceberg_schema.Schema, target: pa.Schema, constants: Constants | None = None
    ) -> None:
        self._target = target
        positions = arrow_schemas.positions(source)
        values = constants or {}
        self._columns: list[tuple[int | None, Convert | None]] = []
        for field, wanted in zip(table.fields, target, strict=True):
            position = positions.get(field.field_id)
            if position is not None:
                self._columns.append((position, converter(source.field(position), field, wanted, values)))
            else:
                self._columns.append((None, _missing(field, wanted, values)))

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows in the output schema."""
        rows = pa.nulls(batch.num_rows)
        columns = []
        for position, convert in self._columns:
            array = rows if position is None else batch.column(position)
            columns.append(array if convert is None else convert(array))
        return pa.RecordBatch.from_arrays(columns, schema=self._target)


def fillers(schema: iceberg_schema.Schema, identity: Mapping[int, Any]) -> dict[int, pa.Array]:
    """What stands in for columns that a file lacks, as one-element arrays by field id (R27): the value of an identity
    partition, in PyIceberg's internal form and null too, goes before the column's initial default (R28). A column
    that has neither is null. What a file holds of an identity-partitioned column is hidden from all who read (R51)."""
    values = {}
    for number, field in iceberg_schema.index_by_id(schema).items():
        if number in identity:
            if identity[number] is not None:
                values[number] = constant(identity[number], field.field_type)
        elif field.initial_default is not None:
            values[number] = _default(field)
    return values


def constant(value: Any, kind: iceberg.IcebergType) -> pa.Array:
    """One value in PyIceberg's internal form as an array of the type that output files store."""
    wanted = arrow_schemas.plain(arrow_schemas.arrow_type(kind))
    if isinstance(kind, iceberg.UUIDType) and not isinstance(value, bytes):
        value = value.bytes
    if pa.types.is_temporal(wanted):
        return pa.array([value], pa.int32() if wanted.bit_width == 32 else pa.int64()).view(wanted)
    return pa.array([value], wanted)


def _default(field: iceberg.NestedField) -> pa.Array:
    kind: iceberg.IcebergType = field.field_type
    value: Any = field.initial_default
    wanted = arrow_schemas.plain(arrow_schemas.arrow_type(kind))
    try:
        if not kind.is_primitive:
            raise TypeError("only primitive columns have one")
        if isinstance(kind, (iceberg.FloatType, iceberg.DoubleType)):
            value = float(value)
        return pa.array([value.bytes if isinstance(value, uuid.UUID) else value], wanted)
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise errors.UnsupportedError(
            f"The initial default of column {field.name} (field id {field.field_id}) is not of type {kind}: {error}."
        ) from error


def converter(
    source: pa.Field, field: iceberg.NestedField, wanted: pa.Field, constants: Constants | None = None
) -> Convert | None:
    """How arrays of a source field become arrays of the wanted field; None if they already are."""
    convert = _type_converter(source.type, field, wanted.type, constants or {})
    if not (source.nullable and field.required):
        return convert

    def checked(array: pa.Array) -> pa.Array:
        if array.null_count:
            raise errors.ExecuteError(f"Column {field.name} (field id {field.field_id}) is required but holds nulls.")
        return array if convert is None else convert(array)

    return checked


def _type_converter(
    source: pa.DataType, field: iceberg.NestedField, wanted: pa.DataType, constants: Constants
) -> Convert | None:
    kind = field.field_type
    if pa.types.is_null(source):  # a writer that saw no value knew no type
        return lambda array: pa.nulls(len(array), wanted)
    if isinstance(kind, iceberg.StructType) and pa.types.is_struct(source):
        return _struct_converter(source, kind, wanted, constants)
    if isinstance(kind, iceberg.ListType) and (pa.types.is_list(source) or pa.types.is_large_list(source)):
        return _list_converter(source, kind, wanted, constants)
    if isinstance(kind, iceberg.MapType) and pa.types.is_map(source):
        return _map_converter(source, kind, wanted, constants)
    value = source.value_type if pa.types.is_dictionary(source) else source
    if not kind.is_primitive or not _accepted(value, kind):
        raise errors.UnsupportedError(
            f"Column {field.name} (field id {field.field_id}) is {kind} in the table but {source} in the file."
        )
    return _leaf_converter(source, wanted)


def _accepted(source: pa.DataType, kind: iceberg.IcebergType) -> bool:
    wanted = arrow_schemas.arrow_type(kind)
    if source == wanted or source in _ACCEPTED.get(type(kind), ()):
        return True
    if isinstance(kind, iceberg.DecimalType) and pa.types.is_decimal(source):
        return bool(source.scale == kind.scale and source.precision <= kind.precision and source.byte_width <= 16)
    if isinstance(kind, (iceberg.TimestampType, iceberg.TimestamptzType)) and pa.types.is_timestamp(source):
        return bool(source.unit != "ns")
    return False


def _leaf_converter(source: pa.DataType, wanted: pa.DataType) -> Convert | None:
    if source == wanted:
        return None
    if pa.types.is_dictionary(wanted):
        return lambda array: _as_dictionary(array, wanted)
    if pa.types.is_dictionary(source):
        below = _leaf_converter(source.value_type, wanted)
        return lambda array: _apply(below, array.dictionary_decode())
    if isinstance(source, pa.BaseExtensionType):
        below = _leaf_converter(source.storage_type, wanted)
        return lambda array: _apply(below, array.storage)
    if isinstance(wanted, pa.BaseExtensionType):
        return lambda array: pa.ExtensionArray.from_storage(wanted, array.cast(wanted.storage_type))
    if pa.types.is_timestamp(source):
        # The number counts from the same instant with or without a zone, so only the unit is converted.
        return lambda array: array.cast(pa.timestamp("us", source.tz)).view(wanted)
    if wanted in _TEXT:
        return lambda array: _as_text(array, wanted)
    return lambda array: array.cast(wanted)


def _as_text(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """The same bytes under another type. A cast would refuse bytes that are not UTF-8, which readers may accept."""
    if pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type):
        array = array.view(pa.large_binary()).cast(pa.binary())
    return array if array.type == wanted else array.view(wanted)


def _apply(convert: Convert | None, array: pa.Array) -> pa.Array:
    return array if convert is None else convert(array)


def _as_dictionary(array: pa.Array, wanted: pa.DictionaryType) -> pa.Array:
    if not pa.types.is_dictionary(array.type):
        return _as_text(array, wanted.value_type).dictionary_encode()
    return pa.DictionaryArray.from_arrays(
        array.indices.cast(wanted.index_type), _as_text(array.dictionary, wanted.value_type)
    )


def _missing(field: iceberg.NestedField, wanted: pa.Field, constants: Constants) -> Convert:
    """A column that the file does not have: the value that stands in for it, else null."""
    if (value := constants.get(field.field_id)) is None:
        if field.required:
            raise errors.UnsupportedError(
                f"Column {field.name} (field id {field.field_id}) is required but missing in the file, and the "
                "partition has no value of it."
            )
        if lost := sorted(below.field_id for below in _below(field.field_type) if _is_partition(below, constants)):
            raise errors.UnsupportedError(
                f"Column {field.name} is missing in the file, but the partition has values of its fields {lost}."
            )
        return lambda rows: pa.nulls(len(rows), wanted.type)
    convert = _leaf_converter(pa.dictionary(pa.int32(), value.type), wanted.type)
    return lambda rows: _apply(
        convert, pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), dtype=np.int32)), value)
    )


def _below(kind: iceberg.IcebergType) -> list[iceberg.NestedField]:
    fields: list[iceberg.NestedField] = list(kind.fields) if isinstance(kind, iceberg.StructType) else []
    return [nested for field in fields for nested in (field, *_below(field.field_type))]


def _is_partition(field: iceberg.NestedField, constants: Constants) -> bool:
    return field.field_id in constants and field.initial_default is None


def _struct_converter(
    source: pa.StructType, kind: iceberg.StructType, wanted: pa.StructType, constants: Constants
) -> Convert | None:
    positions = arrow_schemas.positions(source)
    children: list[tuple[int | None, Convert | None]] = []
    for index, field in enumerate(kind.fields):
        position = positions.get(field.field_id)
        if position is not None:
            # A null struct may hide anything in its fields: required ones are checked where the struct is not null.
            below = _type_converter(source.field(position).type, field, wanted.field(index).type, constants)
            children.append((position, below))
        else:
            children.append((None, _missing(field, wanted.field(index), constants)))
    checks = [
        (position, field)
        for (position, _), field in zip(children, kind.fields, strict=True)
        if position is not None and field.required and source.field(position).nullable
    ]
    if source == wanted and not checks and all(convert is None for _, convert in children) and _in_order(children):
        return None

    def convert(array: pa.StructArray) -> pa.Array:
        fields = {position: array.field(position) for position, _ in children if position is not None}
        for position, field in checks:
            fields[position] = _required_values(array, fields[position], field)
        rows = pa.nulls(len(array))
        columns = [_apply(below, rows if position is None else fields[position]) for position, below in children]
        mask = array.is_null() if array.null_count else None
        return pa.StructArray.from_arrays(columns, fields=list(wanted), mask=mask)

    return convert


def _in_order(children: list[tuple[int | None, Convert | None]]) -> bool:
    return [position for position, _ in children] == list(range(len(children)))


def _required_values(parent: pa.StructArray, child: pa.Array, field: iceberg.NestedField) -> pa.Array:
    """A required field's values: null only where its struct is, and there not marked as such."""
    if not child.null_count:
        return child
    if pc.any(pc.and_(child.is_null(), parent.is_valid())).as_py():
        raise errors.ExecuteError(f"Field {field.name} (field id {field.field_id}) is required but holds nulls.")
    if child.type.num_fields or pa.types.is_dictionary(child.type):
        return child
    return pa.Array.from_buffers(child.type, len(child), [None, *child.buffers()[1:]], offset=child.offset)


def _list_converter(
    source: pa.DataType, kind: iceberg.ListType, wanted: pa.ListType, constants: Constants
) -> Convert | None:
    below = converter(source.value_field, kind.element_field, wanted.value_field, constants)
    if below is None and source == wanted:
        return None

    def convert(array: pa.Array) -> pa.Array:
        offsets, first, count = _offsets(array)
        values = _apply(below, array.values.slice(first, count))
        return pa.ListArray.from_arrays(offsets, values, type=wanted, mask=_mask(array))

    return convert


def _map_converter(
    source: pa.MapType, kind: iceberg.MapType, wanted: pa.MapType, constants: Constants
) -> Convert | None:
    of_keys = converter(source.key_field.with_nullable(False), kind.key_field, wanted.key_field, constants)
    of_values = converter(source.item_field, kind.value_field, wanted.item_field, constants)
    if of_keys is None and of_values is None and source == wanted:
        return None

    def convert(array: pa.MapArray) -> pa.Array:
        offsets, first, count = _offsets(array)
        keys = _apply(of_keys, array.keys.slice(first, count))
        items = _apply(of_values, array.items.slice(first, count))
        return pa.MapArray.from_arrays(offsets, keys, items, type=wanted, mask=_mask(array))

    return convert


def _offsets(array: pa.Array) -> tuple[pa.Array, int, int]:
    """Offsets that begin at 0, and the range of the entries that they speak of; right for slices too."""
    raw = array.offsets.to_numpy(zero_copy_only=True)
    first, last = int(raw[0]), int(raw[-1])
    return pa.array((raw - first).astype(np.int32)), first, last - first


def _mask(array: pa.Array) -> pa.Array | None:
    return array.is_null() if array.null_count else None


def fit(batch: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """The batch in a schema that differs from its own only in the columns that are dictionaries."""
    if batch.schema.equals(columns):
        return batch
    arrays = [_fit(array, field.type) for array, field in zip(batch.columns, columns, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _fit(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    plain = array.dictionary_decode() if pa.types.is_dictionary(array.type) else array
    return plain.dictionary_encode() if pa.types.is_dictionary(kind) else plain
