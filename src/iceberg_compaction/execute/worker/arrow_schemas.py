"""Table schemas as Arrow schemas with field ids at every level, and the field ids that a data file's own schema has or
gets from the table's name mapping. Columns are matched by these ids and by nothing else (R27)."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import schema as iceberg_schema
from pyiceberg import types as iceberg

from iceberg_compaction import errors

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyiceberg.table.name_mapping import MappedField

FIELD_ID = b"PARQUET:field_id"

_PRIMITIVES: dict[type[iceberg.IcebergType], pa.DataType] = {
    iceberg.BooleanType: pa.bool_(),
    iceberg.IntegerType: pa.int32(),
    iceberg.LongType: pa.int64(),
    iceberg.FloatType: pa.float32(),
    iceberg.DoubleType: pa.float64(),
    iceberg.DateType: pa.date32(),
    iceberg.TimeType: pa.time64("us"),
    iceberg.TimestampType: pa.timestamp("us"),
    iceberg.TimestamptzType: pa.timestamp("us", tz="UTC"),
    iceberg.StringType: pa.string(),
    iceberg.BinaryType: pa.binary(),
    iceberg.UUIDType: pa.uuid(),
}
_MICROS = {"s": 1_000_000, "ms": 1000, "us": 1}


@dataclass(frozen=True, kw_only=True)
class ArrowLeaf:
    """One Parquet column: its field id and the way to it through structs; `repeated` if below a list or a map. Without
    slots, since thousands of files have the same columns, and ask for the same width."""

    field_id: int
    top: int  # field id of the top-level column
    path: tuple[int, ...]
    type: pa.DataType
    repeated: bool

    @functools.cached_property
    def width(self) -> int:
        """Bytes of a value; 0: they differ from value to value."""
        if pa.types.is_null(self.type):
            return 1
        try:
            return max(1, int(self.type.bit_width) // 8)
        except ValueError:
            return 0


def file_schema(schema: iceberg_schema.Schema) -> pa.Schema:
    """The Arrow schema of a data file of this table. Names are made safe for Parquet paths, as other writers do."""
    safe = iceberg_schema.sanitize_column_names(schema)
    return pa.schema([_field(field) for field in safe.fields])


def arrow_type(kind: iceberg.IcebergType) -> pa.DataType:
    """The Arrow type that holds values of a table type."""
    if isinstance(kind, iceberg.StructType):
        return pa.struct([_field(field) for field in kind.fields])
    if isinstance(kind, iceberg.ListType):
        return pa.list_(_field(kind.element_field))
    if isinstance(kind, iceberg.MapType):
        return pa.map_(_field(kind.key_field), _field(kind.value_field))
    if isinstance(kind, iceberg.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, iceberg.FixedType):
        return pa.binary(len(kind))
    if (primitive := _PRIMITIVES.get(type(kind))) is None:
        raise errors.UnsupportedError(f"Columns of type {kind} cannot be rewritten yet.")
    return primitive


def _field(field: iceberg.NestedField) -> pa.Field:
    ids = {FIELD_ID: str(field.field_id).encode()}
    return pa.field(field.name, arrow_type(field.field_type), nullable=field.optional, metadata=ids)


def field_id(field: pa.Field) -> int | None:
    """The Iceberg field id of an Arrow field, if it has one."""
    text = (field.metadata or {}).get(FIELD_ID)
    return None if text is None or int(text) < 0 else int(text)


def positions(struct: pa.Schema | pa.StructType) -> dict[int, int]:
    """The position of each field id among the fields of a schema or struct."""
    by_id: dict[int, int] = {}
    for position, field in enumerate(children(struct)):
        if (number := field_id(field)) is None:
            continue
        if number in by_id:
            raise errors.ExecuteError(f"Field id {number} appears twice beside each other.")
        by_id[number] = position
    return by_id


def children(parent: pa.Schema | pa.DataType) -> list[pa.Field]:
    """The fields below a schema or type; none for a primitive."""
    if isinstance(parent, pa.Schema):
        return list(parent)
    if isinstance(parent, pa.BaseExtensionType):
        return []
    if pa.types.is_map(parent):
        return [parent.key_field, parent.item_field]
    return [parent.field(position) for position in range(parent.num_fields)]


def has_ids(parent: pa.Schema | pa.DataType) -> bool:
    """Whether any field at any level has an id."""
    return any(field_id(field) is not None or has_ids(field.type) for field in children(parent))


def without_ids(schema: pa.Schema, hidden: Collection[int]) -> pa.Schema:
    """The schema without the ids of the hidden columns, top-level ones or those in structs, so that none matches."""
    return pa.schema([_hidden(field, hidden) for field in schema]) if hidden else schema


def _hidden(field: pa.Field, hidden: Collection[int]) -> pa.Field:
    if field_id(field) in hidden:
        return field.remove_metadata()
    if pa.types.is_struct(field.type):
        return field.with_type(pa.struct([_hidden(child, hidden) for child in children(field.type)]))
    return field


def with_mapped_ids(schema: pa.Schema, mapping: Sequence[MappedField]) -> pa.Schema:
    """The schema of a file without ids, with those that the name mapping gives; unmapped columns stay without."""
    return pa.schema([_mapped(field, field.name, mapping) for field in schema])


def _mapped(field: pa.Field, name: str, mapping: Sequence[MappedField]) -> pa.Field:
    mapped_field = next((mapped for mapped in mapping if name in mapped.names), None)
    if mapped_field is None:
        return field
    below: Any = mapped_field.fields or ()
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_mapped(child, child.name, below) for child in children(kind)])
    elif pa.types.is_map(kind):
        kind = pa.map_(_mapped(kind.key_field, "key", below), _mapped(kind.item_field, "value", below))
    elif pa.types.is_list(kind):
        kind = pa.list_(_mapped(kind.value_field, "element", below))
    elif pa.types.is_large_list(kind):
        kind = pa.large_list(_mapped(kind.value_field, "element", below))
    metadata = {} if mapped_field.field_id is None else {FIELD_ID: str(mapped_field.field_id).encode()}
    return pa.field(field.name, kind, nullable=field.nullable, metadata=metadata)


def micros(kind: pa.DataType) -> int:
    """Microseconds per unit of a time type; 1 for all other types."""
    if not (pa.types.is_timestamp(kind) or pa.types.is_time(kind)):
        return 1
    if kind.unit not in _MICROS:
        raise errors.UnsupportedError("Times in nanoseconds cannot be rewritten yet.")
    return _MICROS[kind.unit]


def leaves(schema: pa.Schema) -> list[ArrowLeaf]:
    """The columns of a Parquet file with this schema, in file order."""
    return [
        leaf
        for position, field in enumerate(schema)
        for leaf in _leaves(field, field_id(field) or 0, (position,), repeated=False)
    ]


def _leaves(field: pa.Field, top: int, path: tuple[int, ...], *, repeated: bool) -> Iterator[ArrowLeaf]:
    below_it = children(field.type)
    if not below_it:
        yield ArrowLeaf(field_id=field_id(field) or 0, top=top, path=path, type=field.type, repeated=repeated)
    below = repeated or not pa.types.is_struct(field.type)
    for position, child in enumerate(below_it):
        yield from _leaves(child, top, (*path, position), repeated=below)


def plain(kind: pa.DataType) -> pa.DataType:
    """The type with view and fixed-size layouts replaced by plain ones, which this package understands."""
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_binary_view(kind):
        return pa.binary()
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(plain(field.type)) for field in children(kind)])
    if pa.types.is_map(kind):
        key, item = children(kind)
        return pa.map_(key.with_type(plain(key.type)), item.with_type(plain(item.type)))
    if pa.types.is_large_list(kind) or pa.types.is_large_list_view(kind):
        return pa.large_list(kind.value_field.with_type(plain(kind.value_type)))
    if pa.types.is_list(kind) or pa.types.is_list_view(kind) or pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(plain(kind.value_type)))
    return kind


def with_dictionaries(schema: pa.Schema, chosen: frozenset[int]) -> pa.Schema:
    """The schema with the chosen top-level columns as dictionaries in memory; in a file they look the same."""
    return pa.schema(
        [
            field.with_type(pa.dictionary(pa.int32(), field.type)) if field_id(field) in chosen else field
            for field in schema
        ]
    )


def required_ids(parent: pa.Schema | pa.DataType) -> frozenset[int]:
    """The ids of all fields, at any level, that hold no nulls by their declaration."""
    numbers: set[int] = set()
    for field in children(parent):
        number = field_id(field)
        if number is not None and not field.nullable:
            numbers.add(number)
        numbers |= required_ids(field.type)
    return frozenset(numbers)


def with_required(schema: pa.Schema, chosen: frozenset[int]) -> pa.Schema:
    """The schema with the chosen fields, at any level, declared to hold no nulls."""
    return pa.schema([_required(field, chosen) for field in schema]) if chosen else schema


def _required(field: pa.Field, chosen: frozenset[int]) -> pa.Field:
    kind = field.type
    below = [_required(child, chosen) for child in children(kind)]
    if pa.types.is_map(kind):
        field = field.with_type(pa.map_(*below))
    elif pa.types.is_list(kind):
        field = field.with_type(pa.list_(below[0]))
    elif pa.types.is_struct(kind):
        field = field.with_type(pa.struct(below))
    return field.with_nullable(False) if field_id(field) in chosen else field
