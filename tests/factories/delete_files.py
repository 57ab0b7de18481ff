"""Delete files as other writers make them, in Parquet, Avro and ORC, with field ids; and the value that describes them
to a task."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.formats.avro import avro_encode, container
from iceberg_compaction.model import table_view
from iceberg_compaction.model.rewrite_task import DeleteFile

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

Format = Literal["PARQUET", "AVRO", "ORC"]
_SYNC = bytes(range(16))
_POSITIONS = Schema(
    iceberg.NestedField(2147483546, "file_path", iceberg.StringType(), required=True),
    iceberg.NestedField(2147483545, "pos", iceberg.LongType(), required=True),
)
POSITIONS = arrow_schemas.file_schema(_POSITIONS)


def position_delete(
    path: Path,
    rows: Sequence[tuple[Path | str, int]],
    *,
    sequence_number: int,
    file_format: Format = "PARQUET",
    **options: Any,
) -> DeleteFile:
    """A position delete file of these (data file, position) pairs, in this order."""
    table = pa.Table.from_pylist(
        [{"file_path": str(file), "pos": position} for file, position in rows],
        schema=arrow_schemas.file_schema(_POSITIONS),
    )
    _write(path, table, _POSITIONS, file_format, options)
    return _described(path, table, table_view.POSITION_DELETES, sequence_number, file_format)


def equality_delete(
    path: Path,
    rows: Sequence[dict[str, Any]] | pa.Table,
    schema: Schema,
    ids: Sequence[int],
    *,
    sequence_number: int,
    file_format: Format = "PARQUET",
    **options: Any,
) -> DeleteFile:
    """An equality delete file of these rows of a schema, which compares the fields with these ids."""
    columns = pa.schema(
        [field.with_type(arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(schema)]
    )
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=columns)
    _write(path, table, schema, file_format, options)
    file = _described(path, table, table_view.EQUALITY_DELETES, sequence_number, file_format)
    return file.model_copy(update={"equality_ids": tuple(ids)})


def _described(path: Path, table: pa.Table, content: int, sequence_number: int, file_format: Format) -> DeleteFile:
    return DeleteFile(
        file_path=str(path),
        content=content,
        file_format=file_format,
        file_size_in_bytes=path.stat().st_size,
        record_count=table.num_rows,
        sequence_number=sequence_number,
    )


def _write(path: Path, table: pa.Table, schema: Schema, file_format: Format, options: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if file_format == "PARQUET":
        pq.write_table(table, path, **{"store_schema": False, **options})
    elif file_format == "ORC":
        columns = pa.schema([_orc_field(field) for field in table.schema])
        orc.write_table(table.cast(columns), path, **options)
    else:
        path.write_bytes(_avro(table, schema))


def _orc_field(field: pa.Field) -> pa.Field:
    """As Iceberg writes ORC: ids are attributes; fixed, UUID and time of day have no type of their own."""
    kind = field.type
    if pa.types.is_struct(kind):
        kind = pa.struct([_orc_field(below) for below in arrow_schemas.children(kind)])
    elif pa.types.is_fixed_size_binary(kind):
        kind = pa.binary()
    elif pa.types.is_time(kind):
        kind = pa.int64()
    return pa.field(field.name, kind, field.nullable, {"iceberg.id": str(arrow_schemas.field_id(field))})


def _avro(table: pa.Table, schema: Schema) -> bytes:
    described: Any = AvroSchemaConversion().iceberg_to_avro(schema, "table")
    metadata = {container.SCHEMA: json.dumps(described).encode(), container.CODEC: b"deflate"}
    plain = pa.table([_avro_values(column.combine_chunks()) for column in table.columns], names=table.column_names)
    return container.header(metadata, _SYNC) + b"".join(avro_encode.blocks(described, plain, "deflate", _SYNC))


def _avro_values(array: pa.Array) -> pa.Array:
    """Numbers and bytes, as Avro has them under its logical types."""
    if pa.types.is_struct(array.type):
        children = [_avro_values(array.field(place)) for place in range(array.type.num_fields)]
        names = [field.name for field in arrow_schemas.children(array.type)]
        return pa.StructArray.from_arrays(children, names, mask=array.is_null())
    if pa.types.is_decimal(array.type):
        size = _decimal_bytes(array.type.precision)
        unscaled = [
            None if value is None else int(value.scaleb(array.type.scale)).to_bytes(size, "big", signed=True)
            for value in array.to_pylist()
        ]
        return pa.array(unscaled, pa.binary(size))
    if pa.types.is_temporal(array.type):
        return array.view(pa.int32() if array.type.bit_width == 32 else pa.int64())
    return array


def _decimal_bytes(precision: int) -> int:
    return next(size for size in range(1, 17) if 10**precision < 2 ** (8 * size - 1))
