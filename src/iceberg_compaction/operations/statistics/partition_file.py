"""The partition statistics file of a snapshot: counts of its partitions come in, the bytes of a Parquet file as the
Iceberg spec describes it go out, sorted by partition."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg import types
from pyiceberg.schema import Schema

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.metadata.partitions import partition_counts, unified_partition

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

_V3 = 3  # from this format version on, counts are required, and deletion vectors have one of their own
_ALWAYS = ("data_record_count", "data_file_count", "total_data_file_size_in_bytes")


def statistics_schema(unified: Sequence[types.NestedField], format_version: int) -> Schema:
    """The columns of a partition statistics file, with the ids of the spec."""
    is_v3 = format_version >= _V3

    def field(number: int, name: str, kind: types.IcebergType, *, always: bool = is_v3) -> types.NestedField:
        return types.NestedField(number, name, kind, required=always or name in _ALWAYS)

    long, integer = types.LongType(), types.IntegerType()
    vectors = [field(13, "dv_count", integer)] if is_v3 else []
    return Schema(
        field(1, "partition", types.StructType(*unified), always=True),
        field(2, "spec_id", integer, always=True),
        field(3, "data_record_count", long),
        field(4, "data_file_count", integer),
        field(5, "total_data_file_size_in_bytes", long),
        field(6, "position_delete_record_count", long),
        field(7, "position_delete_file_count", integer),
        field(8, "equality_delete_record_count", long),
        field(9, "equality_delete_file_count", integer),
        # Unknown: Iceberg Java up to 1.12 would carry a number over to later snapshots as it is.
        field(10, "total_record_count", long, always=False),
        field(11, "last_updated_at", long, always=False),
        field(12, "last_updated_snapshot_id", long, always=False),
        *vectors,
    )


def rows(table: Table, counts: pa.Table) -> pa.Table:
    """The rows of the file. Partitions that differ only in dropped columns are one."""
    unified = unified_partition.fields(table)
    tuples = _tuples(table, counts, unified)
    partition = [_column([each[at] for each in tuples], field.field_type) for at, field in enumerate(unified)]
    numbers = {name: counts[name].combine_chunks() for name in partition_counts.SUMS}
    numbers["spec_id"] = counts["spec_id"].combine_chunks()
    last = counts["last_change"].combine_chunks()
    snapshots = partition_counts.snapshots_by_time(table)
    numbers["last_updated_at"] = pa.array([each.timestamp_ms for each in snapshots], pa.int64()).take(last)
    numbers["last_updated_snapshot_id"] = pa.array([each.snapshot_id for each in snapshots], pa.int64()).take(last)
    numbers["total_record_count"] = pa.nulls(len(last), pa.int64())
    schema = arrow_schemas.file_schema(statistics_schema(unified, table.metadata.format_version))
    struct = pa.StructArray.from_arrays(partition, fields=list(schema.field("partition").type))
    columns = [struct, *(numbers[field.name].cast(field.type) for field in schema if field.name != "partition")]
    return pa.table(columns, schema=schema).take(_order(partition, numbers["spec_id"]))


def parquet(rows: pa.Table) -> bytes:
    """The file."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, rows.schema, compression="zstd", store_schema=False) as writer:
        writer.write_table(rows)
    return bytes(sink.getvalue())


def merged(table: Table, counts: pa.Table) -> pa.Table:
    """The counts with one row for each partition as the table has it now: a source column that was dropped divides
    partitions no more."""
    unified = unified_partition.fields(table)
    if all(field.field_id in {each.field_id for each in unified} for s in table.specs().values() for field in s.fields):
        return counts
    first: dict[tuple[Any, ...], str] = {}
    specs = counts["spec_id"].to_pylist()
    texts = [
        first.setdefault((spec_id, each), text)
        for spec_id, each, text in zip(
            specs, map(_comparable, _tuples(table, counts, unified)), counts["partition"].to_pylist(), strict=True
        )
    ]
    position = counts.schema.get_field_index("partition")
    return partition_counts.summed(counts.set_column(position, counts.schema.field(position), pa.array(texts)))


def _tuples(table: Table, counts: pa.Table, unified: tuple[types.NestedField, ...]) -> list[tuple[Any, ...]]:
    specs, schema = table.specs(), table.schema()
    pairs = zip(counts["spec_id"].to_pylist(), counts["partition"].to_pylist(), strict=True)
    return [unified_partition.tuple_of(text, specs[spec_id], schema, unified) for spec_id, text in pairs]


def _comparable(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(repr(value) for value in values)  # NaN equals itself, and 0.0 is not -0.0


def _column(values: list[Any], kind: types.IcebergType) -> pa.Array:
    arrow = arrow_schemas.arrow_type(kind)
    if isinstance(kind, types.UUIDType):
        storage = pa.array([None if value is None else value.bytes for value in values], pa.binary(16))
        return pa.ExtensionArray.from_storage(arrow, storage)
    if pa.types.is_temporal(arrow):
        return pa.array(values, pa.int32() if pa.types.is_date32(arrow) else pa.int64()).view(arrow)
    return pa.array(values, arrow)


def _order(partition: list[pa.Array], spec_ids: pa.Array) -> pa.Array:
    """By the values of the partition, null first and NaN last, as Iceberg orders them; then by spec."""
    keys: dict[str, pa.Array] = {}
    for at, column in enumerate(partition):
        plain = column.storage if isinstance(column, pa.ExtensionArray) else column
        if pa.types.is_floating(plain.type):
            nan = pc.fill_null(pc.is_nan(plain), False)
            keys[f"nan{at}"] = nan
            plain = pc.if_else(nan, pa.scalar(np.inf, plain.type), plain)
        keys[f"value{at}"] = plain
    keys["spec"] = spec_ids
    return pc.sort_indices(pa.table(keys), sort_keys=[(name, "ascending", "at_start") for name in keys])
