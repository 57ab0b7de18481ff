"""Columns whose values come from the partition (R51). Readers take an identity-partitioned column from the tuple of the
file's own spec, whatever the file holds, and so does this package. The file's bytes are copied only where statistics
prove that they hold the same value."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import schema as iceberg_schema
from pyiceberg import types as iceberg
from pyiceberg.partitioning import PartitionSpec

from iceberg_compaction.execute.worker.input import project
from iceberg_compaction.formats.parquet import format_fields
from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.formats.parquet import parquet_footer
    from iceberg_compaction.model import rewrite_task

_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8}


def values(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, schema: iceberg_schema.Schema
) -> dict[int, Any]:
    """The partition's values of columns, nulls too, in PyIceberg's internal form by field id. Columns that the
    schema has lost are among them where deletes compare them."""
    spec = PartitionSpec.model_validate_json(context.partition_specs[task.spec_id])
    kinds = {number: field.field_type for number, field in iceberg_schema.index_by_id(schema).items()}
    for number, text in context.delete_fields.items():
        older = iceberg_schema.Schema(iceberg.NestedField.model_validate_json(text))
        kinds.setdefault(number, older.find_type(number))
    return partition_tuples.identity_values(task.partition, spec, kinds)


def constants(schema: iceberg_schema.Schema, partition_values: Mapping[int, Any]) -> dict[int, pa.Array]:
    """Such values as one-element arrays by field id."""
    kinds = iceberg_schema.index_by_id(schema)
    return {
        number: pa.nulls(1) if value is None else project.constant(value, kinds[number].field_type)
        for number, value in partition_values.items()
        if number in kinds
    }


def repeated_texts(schema: iceberg_schema.Schema, partition_values: Mapping[int, Any]) -> frozenset[int]:
    """Top-level text columns with the same value in all rows: in memory they are best kept as dictionaries."""
    return frozenset(
        field.field_id
        for field in schema.fields
        if isinstance(field.field_type, iceberg.StringType) and partition_values.get(field.field_id) is not None
    )


def doubtful(
    leaves: Sequence[parquet_footer.Leaf], group: parquet_footer.Group, wanted: Mapping[int, pa.Array]
) -> frozenset[int]:
    """The columns of a row group that may hold another value than the wanted one, by its statistics."""
    if not wanted:
        return frozenset()
    return frozenset(
        number
        for leaf, chunk in zip(leaves, group.chunks, strict=True)
        if (number := leaf.field_id) is not None and number in wanted and not _is_proved(leaf, chunk, wanted[number])
    )


def _is_proved(leaf: parquet_footer.Leaf, chunk: parquet_footer.Chunk, value: pa.Array) -> bool:
    statistics = chunk.statistics
    nulls = format_fields.optional(statistics, format_fields.Statistics.NULLS)
    if value.null_count:
        return nulls == chunk.values
    if nulls is None and not any(leaf.layout.repetitions):
        nulls = 0
    low, high = (
        format_fields.binary(statistics, format_fields.Statistics.MIN),
        format_fields.binary(statistics, format_fields.Statistics.MAX),
    )
    stored = _plain(value, leaf)
    return nulls == 0 and stored is not None and low == stored == high


def _plain(value: pa.Array, leaf: parquet_footer.Leaf) -> bytes | None:
    """A value in the form of statistics; None for floats, whose statistics hold neither NaN nor the sign of zero."""
    layout = leaf.layout
    if pa.types.is_decimal(value.type):
        number = int.from_bytes(value.buffers()[1].to_pybytes()[:16], "little", signed=True)
        if layout.physical == "FIXED_LEN_BYTE_ARRAY":
            return number.to_bytes(layout.length, "big", signed=True)
    elif layout.physical in ("BYTE_ARRAY", "FIXED_LEN_BYTE_ARRAY"):
        stored: bytes = value.cast(pa.binary())[0].as_py()
        return stored
    elif pa.types.is_boolean(value.type):
        number = int(value[0].as_py())
    elif pa.types.is_floating(value.type):
        return None
    else:
        number = int.from_bytes(value.buffers()[1].to_pybytes()[: value.type.bit_width // 8], "little", signed=True)
    width = _WIDTHS.get(layout.physical)
    return None if width is None else number.to_bytes(width, "little", signed=width > 1)
