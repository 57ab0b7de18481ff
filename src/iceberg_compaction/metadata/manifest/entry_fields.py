"""Turns staged files into columns of manifest entries, and builds the Avro schema that they are written with. The
worker's StagedFile values come in; `written_manifests` writes the columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg import manifest, types
from pyiceberg.schema import make_compatible_name
from pyiceberg.utils.schema_conversion import AvroSchemaConversion

from iceberg_compaction import errors
from iceberg_compaction.metadata import partition_tuples

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.typedef import Record, TableVersion

    from iceberg_compaction.model.rewrite_task import StagedFile

EXISTING, ADDED, DELETED = 0, 1, 2
BLOCK_SIZE_IN_BYTES = 64 << 20  # v1 demands the field and says to write a default

_REFERENCED = {"name": "referenced_data_file", "type": ["null", "string"], "default": None, "field-id": 143}
_COUNTS = pa.list_(pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.int64(), False)]))
_BOUNDS = pa.list_(pa.struct([pa.field("key", pa.int32(), False), pa.field("value", pa.binary(), False)]))
_STORED: dict[type[types.IcebergType], pa.DataType] = {
    types.BooleanType: pa.bool_(),
    types.IntegerType: pa.int32(),
    types.LongType: pa.int64(),
    types.FloatType: pa.float32(),
    types.DoubleType: pa.float64(),
    types.DateType: pa.int32(),
    types.TimeType: pa.int64(),
    types.TimestampType: pa.int64(),
    types.TimestamptzType: pa.int64(),
    types.StringType: pa.string(),
    types.BinaryType: pa.binary(),
    types.UUIDType: pa.binary(16),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestLayout:
    """Everything that decides the form of a manifest's entries. A manifest holds files of one partition spec."""

    spec: PartitionSpec
    schema: Schema  # the table's current one
    format_version: TableVersion

    @property
    def partition_fields(self) -> tuple[types.NestedField, ...]:
        return self.spec.partition_type(self.schema).fields

    @property
    def is_writable(self) -> bool:
        """Whether partition values are of types that can be written; the type is lost with the column it comes from."""
        writable = {*_STORED, types.DecimalType, types.FixedType}
        return all(type(field.field_type) in writable for field in self.partition_fields)


def avro_schema(layout: ManifestLayout, *, references: bool = False) -> dict[str, Any]:
    """The Avro schema of a manifest, with Iceberg's field ids. `references`: delete files may say which data file they
    are for, which PyIceberg leaves out."""
    data_file = manifest.data_file_with_partition(types.StructType(*layout.partition_fields), layout.format_version)
    entry = manifest.manifest_entry_schema_with_data_file(layout.format_version, data_file)
    avro: Any = AvroSchemaConversion().iceberg_to_avro(entry, schema_name="manifest_entry")
    for field in _field(avro, "data_file")["type"]["fields"]:
        if field["name"] == "equality_ids":
            field["type"][1]["items"] = "int"  # as the spec says; PyIceberg takes long
    if references:
        _field(avro, "data_file")["type"]["fields"].append(dict(_REFERENCED))
    name_apart(_field(_field(avro, "data_file")["type"], "partition")["type"]["fields"])
    built: dict[str, Any] = avro
    return built


def name_apart(fields: list[dict[str, Any]]) -> None:
    """Gives a second decimal(9, 2) or fixed(4) a name of its own, because Avro defines a named type only once."""
    seen = set()
    for field in fields:
        kind = field["type"][1] if isinstance(field["type"], list) else field["type"]
        if isinstance(kind, dict) and "name" in kind:
            if kind["name"] in seen:
                kind["name"] += f"_{field['field-id']}"
            seen.add(kind["name"])


def _field(record: Any, name: str) -> dict[str, Any]:
    field: dict[str, Any] = next(field for field in record["fields"] if field["name"] == name)
    return field


def added(files: Sequence[StagedFile], layout: ManifestLayout, *, snapshot_id: int, sequence_number: int) -> pa.Table:
    """ADDED entries, one per file. The data sequence number is explicit (R1), the given one where a file has none of
    its own; the file sequence number is left null, to be inherited from the commit (R10)."""
    rows = len(files)
    data_file = {
        "content": pa.array([file.content for file in files], pa.int32()),
        "file_path": pa.array([file.file_path for file in files], pa.string()),
        "file_format": pa.repeat(pa.scalar("PARQUET"), rows),
        "record_count": pa.array([file.record_count for file in files], pa.int64()),
        "file_size_in_bytes": pa.array([file.file_size_in_bytes for file in files], pa.int64()),
        "block_size_in_bytes": pa.repeat(pa.scalar(BLOCK_SIZE_IN_BYTES, pa.int64()), rows),
        "column_sizes": _map([file.column_sizes for file in files], _COUNTS),
        "value_counts": _map([file.value_counts for file in files], _COUNTS),
        "null_value_counts": _map([file.null_value_counts for file in files], _COUNTS),
        "nan_value_counts": _map([file.nan_value_counts for file in files], _COUNTS),
        "lower_bounds": _map([file.lower_bounds for file in files], _BOUNDS),
        "upper_bounds": _map([file.upper_bounds for file in files], _BOUNDS),
        "split_offsets": pa.array([list(file.split_offsets) or None for file in files], pa.list_(pa.int64())),
        "sort_order_id": pa.array([file.sort_order_id for file in files], pa.int32()),
    }
    if any(file.referenced_data_file is not None for file in files):
        data_file["referenced_data_file"] = pa.array([file.referenced_data_file for file in files], pa.string())
    if layout.partition_fields:
        data_file["partition"] = _partition(tuples(files, layout), layout)
    entry = {
        "status": pa.repeat(pa.scalar(ADDED, pa.int32()), rows),
        "snapshot_id": pa.repeat(pa.scalar(snapshot_id, pa.int64()), rows),
        "sequence_number": pa.array(sequence_numbers(files, sequence_number), pa.int64()),
        "data_file": pa.StructArray.from_arrays(list(data_file.values()), list(data_file)),
    }
    return pa.table(entry)


def sequence_numbers(files: Sequence[StagedFile], planned: int) -> list[int]:
    """The data sequence number of each file, given that of the planned snapshot."""
    return [planned if file.sequence_number is None else file.sequence_number for file in files]


def tuples(files: Sequence[StagedFile], layout: ManifestLayout) -> list[Record]:
    """The partition tuple of each file."""
    texts = {file.partition for file in files}
    decoded = {text: partition_tuples.decode(text, layout.spec, layout.schema) for text in texts}
    return [decoded[file.partition] for file in files]


def _map(maps: list[dict[int, Any]], kind: pa.DataType) -> pa.Array:
    """Metrics by field id. Empty ones stay empty maps: PyIceberg's metadata tables stumble over null."""
    return pa.array([[{"key": k, "value": v} for k, v in sorted(m.items())] for m in maps], kind)


def _partition(records: Sequence[Record], layout: ManifestLayout) -> pa.StructArray:
    """Partition tuples of PyIceberg's internal values as the values that Avro stores."""
    columns = [
        pa.array([getattr(record[i], "bytes", record[i]) for record in records], _stored(field, layout))  # UUID: bytes
        for i, field in enumerate(layout.partition_fields)
    ]
    return pa.StructArray.from_arrays(columns, [make_compatible_name(field.name) for field in layout.partition_fields])


def _stored(field: types.NestedField, layout: ManifestLayout) -> pa.DataType:
    kind = field.field_type
    if isinstance(kind, types.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, types.FixedType):
        return pa.binary(len(kind))
    if type(kind) not in _STORED:
        raise errors.UnsupportedError(
            f"Manifests of partition spec {layout.spec.spec_id} cannot be written yet: {field.name} is of type {kind}."
        )
    return _STORED[type(kind)]
