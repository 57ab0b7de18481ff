"""The unified partition type of a table: every partition field of any of its specs, by field id, as partition
statistics and metadata tables have it. A table comes in; the fields and the tuples in their form go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyiceberg import transforms, types

from iceberg_compaction import errors
from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table


def is_partitioned(table: Table) -> bool:
    """Whether any spec divides the rows."""
    return any(not _is_void(field) for spec in table.specs().values() for field in spec.fields)


def fields(table: Table) -> tuple[types.NestedField, ...]:
    """The fields by their ids, with the newest names; those whose source column was dropped are left out.
    UnsupportedError: two specs contradict each other, or a transform is not known."""
    schema = table.schema()
    chosen: dict[int, PartitionField] = {}
    names: dict[int, str] = {}
    for _, spec in sorted(table.specs().items(), reverse=True):
        for field in spec.fields:
            if isinstance(field.transform, transforms.UnknownTransform):
                raise errors.UnsupportedError(f"The partition field {field.name} has an unknown transform.")
            if schema.find_column_name(field.source_id) is None:
                continue
            names.setdefault(field.field_id, field.name)
            other = chosen.setdefault(field.field_id, field)
            if other.source_id != field.source_id or not _fit(other, field):
                raise errors.UnsupportedError(f"The partition fields {field} and {other} of two specs share one id.")
            if _is_void(other):  # a field that was dropped from a table of version 1
                chosen[field.field_id] = field
    return tuple(
        types.NestedField(field_id, names[field_id], _result(chosen[field_id], schema), required=False)
        for field_id in sorted(chosen)
    )


def tuple_of(text: str, spec: PartitionSpec, schema: Schema, unified: tuple[types.NestedField, ...]) -> tuple[Any, ...]:
    """A partition tuple, from its canonical text, in the unified form: PyIceberg's internal values, None for fields
    that its spec has not."""
    record = partition_tuples.decode(text, spec, schema)
    values = {field.field_id: record[position] for position, field in enumerate(spec.fields)}
    return tuple(values.get(field.field_id) for field in unified)


def _fit(one: PartitionField, other: PartitionField) -> bool:
    return one.transform == other.transform or _is_void(one) or _is_void(other)


def _is_void(field: PartitionField) -> bool:
    return isinstance(field.transform, transforms.VoidTransform)


def _result(field: PartitionField, schema: Schema) -> types.IcebergType:
    return field.transform.result_type(schema.find_type(field.source_id))
