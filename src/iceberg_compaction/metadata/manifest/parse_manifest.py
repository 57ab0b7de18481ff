"""Parses one manifest: its Avro bytes and its entry of the manifest list come in, its live files in schema
model.table_view.FILES go out, with sequence numbers and spec ids inherited for whole columns. A manifest that breaks a
promise of the list is a MetadataError that names it."""

from __future__ import annotations

import functools
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestContent

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import cluster_column, partition_tuples
from iceberg_compaction.metadata.manifest import column_metrics, entry_counts
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.partitioning import PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from pyiceberg.types import NestedField

DIGEST = "path_digest"  # a column beside FILES, see formats.hash64
FILE_PATH_ID = 2147483546  # reserved: the path column of position delete files

_EXISTING, _ADDED, _DELETED = 0, 1, 2
_DATA_FILE = (
    "file_path",
    "content",
    "file_format",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "sort_order_id",
    "split_offsets",
    "key_metadata",
    "equality_ids",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
    "first_row_id",
)
_COLUMNS: dict[str, Sequence[str | int]] = {
    **{name: ("data_file", name) for name in _DATA_FILE},
    **{name: (name,) for name in ("status", "sequence_number", "file_sequence_number")},
}


@dataclass(frozen=True, kw_only=True)
class Reading:
    """Everything besides a manifest that decides the form of its rows."""

    table_uuid: str
    schema: Schema
    specs: dict[int, PartitionSpec]
    cluster: NestedField | None  # whose bounds become cluster_lower and cluster_upper
    metrics: tuple[int, ...]  # fields whose metrics follow the columns of FILES
    shape: str  # names and types of the above, for `facts`

    @functools.cached_property
    def row_schema(self) -> pa.Schema:
        """The schema of the rows that `parse` returns."""
        empty = column_metrics.with_metrics(table_view.FILES.empty_table(), pa.table({}), self.metrics)
        return empty.schema.append(pa.field(DIGEST, pa.uint64(), nullable=False))

    def facts(self, manifest: ManifestFile) -> str:
        """The key of a manifest in the cache: it is equal for two manifests only if their rows are."""
        own = [manifest.manifest_path, manifest.manifest_length, manifest.sequence_number, int(manifest.content)]
        counts = [manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count]
        return json.dumps([self.table_uuid, *own, *counts, manifest.partition_spec_id, self.shape])


def reading(table: Table, metrics: Sequence[int], cluster: NestedField | None = None) -> Reading:
    """The form of the table's manifests under its current schema, specs and sort order. `cluster`: the column whose
    bounds are of interest, by default the one that the table is most likely clustered by."""
    schema, specs = table.schema(), table.specs()
    cluster = cluster_column.column(table) if cluster is None else cluster
    tuples = {
        spec_id: [(field.name, str(field.field_type)) for field in spec.partition_type(schema).fields]
        for spec_id, spec in specs.items()
    }
    return Reading(
        table_uuid=str(table.metadata.table_uuid),
        schema=schema,
        specs=specs,
        cluster=cluster,
        metrics=tuple(metrics),
        shape=json.dumps([tuples, cluster and (cluster.field_id, str(cluster.field_type)), *metrics]),
    )


def parse(
    data: bytes, manifest: ManifestFile, reading: Reading, scratch: avro_decode.Scratch | None = None
) -> pa.Table:
    """The live files of a manifest, in `reading.row_schema`. `scratch`: see `avro_decode.read_table`."""
    where = f"Manifest {manifest.manifest_path}"
    select = {**_COLUMNS, **_wanted_metrics(manifest, reading)}
    entries = avro_decode.read_table(data, select, where=where, scratch=scratch)
    _check_completeness(entries, manifest, len(data), where)
    live = pc.not_equal(entries["status"], _DELETED)
    if not pc.all(live).as_py():
        entries = entries.filter(live)
    return _rows(entries, manifest, reading)


def parse_changes(data: bytes, manifest: ManifestFile, reading: Reading) -> tuple[pa.Table, pa.Table]:
    """The files that the snapshot of a manifest added, and those that it removed, in `reading.row_schema`."""
    where = f"Manifest {manifest.manifest_path}"
    select = {**_COLUMNS, **_wanted_metrics(manifest, reading), "snapshot_id": ("snapshot_id",)}
    entries = avro_decode.read_table(data, select, where=where)
    _check_completeness(entries, manifest, len(data), where)
    of_snapshot = pc.fill_null(_or_nulls(entries, "snapshot_id", pa.int64()), manifest.added_snapshot_id)
    entries = entries.filter(pc.equal(of_snapshot, manifest.added_snapshot_id))
    added, removed = (entries.filter(pc.equal(entries["status"], status)) for status in (_ADDED, _DELETED))
    return _rows(added, manifest, reading), _rows(removed, manifest, reading)


def _rows(entries: pa.Table, manifest: ManifestFile, reading: Reading) -> pa.Table:
    where = f"Manifest {manifest.manifest_path}"
    columns = _columns(entries, manifest, reading)
    files = pa.table({field.name: _cast(columns[field.name], field, where) for field in table_view.FILES})
    files = column_metrics.with_metrics(files.cast(table_view.FILES), entries, reading.metrics)
    files = _copy(files)
    texts = files["file_path"].combine_chunks()
    return files.append_column(reading.row_schema.field(DIGEST), pa.array(hash64.text_digests(texts)))


def _copy(files: pa.Table) -> pa.Table:
    """The same in memory of its own: a column of DataFusion keeps everything alive that was decoded with it."""
    return pa.concat_tables([files, files.slice(0, 0)]).combine_chunks()


def _wanted_metrics(manifest: ManifestFile, reading: Reading) -> dict[str, Sequence[str | int]]:
    if manifest.content == ManifestContent.DELETES:
        bounded = [FILE_PATH_ID]
    else:
        bounded = [] if reading.cluster is None else [reading.cluster.field_id]
    return column_metrics.paths(column_metrics.METRICS, reading.metrics) | column_metrics.paths(
        column_metrics.BOUNDS, bounded
    )


def _bounds(entries: pa.Table, field_id: int) -> list[pa.Array | None]:
    """The lower and upper bounds of a field, None where the manifest has none."""
    columns = [_optional(entries, column_metrics.column(bound, field_id)) for bound in column_metrics.BOUNDS]
    return [None if column is None else column.combine_chunks() for column in columns]


def _columns(entries: pa.Table, manifest: ManifestFile, reading: Reading) -> dict[str, pa.ChunkedArray | pa.Array]:
    where, rows = f"Manifest {manifest.manifest_path}", entries.num_rows
    spec = reading.specs[manifest.partition_spec_id]
    content = _content(entries, manifest, where)
    columns = {field.name: _or_nulls(entries, field.name, field.type) for field in table_view.FILES}
    columns |= {
        "content": content,
        "file_format": _format(entries["file_format"]),
        "spec_id": pa.repeat(pa.scalar(spec.spec_id, pa.int32()), rows),
        "partition": partition_tuples.encode(_optional(entries, "partition"), spec, reading.schema, rows, where=where),
        "sequence_number": _inherit(entries, "sequence_number", manifest),
        "file_sequence_number": _inherit(entries, "file_sequence_number", manifest),
        "row_groups": _row_groups(entries),
        "encrypted": _or_nulls(entries, "key_metadata", pa.binary()).is_valid(),
    }
    if manifest.content == ManifestContent.DELETES:
        columns["referenced_data_file"] = _referenced(entries, columns["referenced_data_file"], content)
    elif reading.cluster is not None:
        bounds = _bounds(entries, reading.cluster.field_id)
        for name, bound in zip(("cluster_lower", "cluster_upper"), bounds, strict=True):
            if bound is not None:
                columns[name] = cluster_column.keys(bound, reading.cluster.field_type)
    return columns


def _check_completeness(entries: pa.Table, manifest: ManifestFile, size: int, where: str) -> None:
    entry_counts.check_count(manifest, entries.num_rows)
    if entry_counts.promised(manifest) is None and size < manifest.manifest_length:
        raise errors.MetadataError(
            f"{where} has {size} bytes, but the manifest list promises {manifest.manifest_length}."
        )
    missing = {"status", "file_path", "file_format", "record_count", "file_size_in_bytes"} - set(entries.column_names)
    if missing:
        raise errors.MetadataError(f"{where} is not an Iceberg manifest: it has no {', '.join(sorted(missing))}.")
    status = entries["status"].to_numpy()
    if len(status) and (status.min() < _EXISTING or status.max() > _DELETED):
        raise errors.MetadataError(f"{where} has an entry of unknown status.")


def _content(entries: pa.Table, manifest: ManifestFile, where: str) -> pa.ChunkedArray:
    content = _or_nulls(entries, "content", pa.int32())
    content = pc.fill_null(content, table_view.DATA)  # v1 knows data files only
    deletes = pc.not_equal(content, table_view.DATA)
    if pc.any(pc.xor(deletes, manifest.content == ManifestContent.DELETES)).as_py():
        raise errors.MetadataError(f"{where} mixes data files and delete files.")
    return content


def _format(names: pa.ChunkedArray) -> pa.DictionaryArray:
    encoded = names.combine_chunks().dictionary_encode()
    # Engines write the name in either case; a dictionary must not hold a value twice.
    upper = pc.utf8_upper(encoded.dictionary).dictionary_encode()
    return pa.DictionaryArray.from_arrays(upper.indices.take(encoded.indices), upper.dictionary)


def _inherit(entries: pa.Table, name: str, manifest: ManifestFile) -> pa.ChunkedArray:
    """Sequence numbers: null means the manifest's own for an added file, and 0 where all is from format version 1."""
    own = _or_nulls(entries, name, pa.int64())
    number = pa.scalar(manifest.sequence_number, pa.int64())
    if manifest.sequence_number == 0:
        return pc.fill_null(own, number)
    return pc.if_else(pc.and_(own.is_null(), pc.equal(entries["status"], _ADDED)), number, own)


def _row_groups(entries: pa.Table) -> pa.ChunkedArray:
    """The number of row groups of each file, by its split offsets; null where the list is empty."""
    counts = pc.list_value_length(_or_nulls(entries, "split_offsets", pa.list_(pa.int64())))
    return pc.if_else(pc.equal(counts, 0), pa.scalar(None, counts.type), counts)


def _referenced(entries: pa.Table, stated: pa.ChunkedArray, content: pa.ChunkedArray) -> pa.Array:
    """The only data file that position deletes are for: as stated, else the path that is both bounds (R21)."""
    lower, upper = _bounds(entries, FILE_PATH_ID)
    if lower is None or upper is None:
        return stated
    same = pc.and_(pc.equal(lower, upper), pc.equal(content, table_view.POSITION_DELETES).combine_chunks())
    bounded = pc.if_else(pc.fill_null(same, False), lower, pa.scalar(None, lower.type))
    return pc.coalesce(stated.cast(pa.string()).combine_chunks(), bounded.cast(pa.string()))


def _optional(entries: pa.Table, name: str) -> pa.ChunkedArray | None:
    return entries[name] if name in entries.column_names else None


def _or_nulls(entries: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    column = _optional(entries, name)
    return pa.chunked_array([pa.nulls(entries.num_rows, kind)]) if column is None else column


def _cast(column: pa.ChunkedArray | pa.Array, field: pa.Field, where: str) -> pa.ChunkedArray | pa.Array:
    if not field.nullable and column.null_count:
        raise errors.MetadataError(f"{where} has a live entry without {field.name}.")
    return column.cast(field.type)
