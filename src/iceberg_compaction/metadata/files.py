"""The live files of a snapshot as Arrow columns. Manifests come in through the table's FileIO, each is one query in a
thread of its own, and sequence numbers and spec ids are inherited for whole columns; rows of model.table.FILES go out.
Anything missing or damaged is a MetadataError that names the file: no decision is made from half a picture."""

from __future__ import annotations

import contextlib
import os
import threading
from concurrent import futures
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import manifest as iceberg_manifest

from iceberg_compaction import errors
from iceberg_compaction.metadata import metrics as file_metrics
from iceberg_compaction.metadata import partitions
from iceberg_compaction.metadata.avro import decode
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

THREADS = 8  # that fetch; decoding waits for a core, as it needs memory as well

_ADDED, _DELETED = 1, 2
_COLUMNS: dict[str, Sequence[str]] = {
    name: ("data_file", name)
    for name in (
        "file_path",
        "content",
        "file_format",
        "partition",
        "record_count",
        "file_size_in_bytes",
        "sort_order_id",
        "key_metadata",
        "equality_ids",
        "referenced_data_file",
        "content_offset",
        "content_size_in_bytes",
        "first_row_id",
    )
} | {name: (name,) for name in ("status", "sequence_number", "file_sequence_number")}


def live_files(
    table: Table,
    snapshot: Snapshot,
    *,
    metrics: Sequence[int] = (),
    manifests: Sequence[ManifestFile] | None = None,
) -> pa.Table:
    """Every live data and delete file of the snapshot, in schema model.table.FILES. For each field id in `metrics` the
    columns of metadata.metrics follow, as a filter on those fields needs them. `manifests`: the snapshot's manifest
    list, if it is read already."""
    listed = list_manifests(table.io, snapshot) if manifests is None else manifests
    parts = _in_threads(table, [manifest for manifest in listed if _may_be_live(manifest)], metrics)
    files = pa.concat_tables([no_files(metrics=metrics), *parts]).unify_dictionaries().combine_chunks()
    _require_distinct_paths(files, snapshot)
    return files


def no_files(*, metrics: Sequence[int] = ()) -> pa.Table:
    """What `live_files` gives for a table without files."""
    return file_metrics.with_metrics(table_model.FILES.empty_table(), pa.table({}), metrics)


def list_manifests(io: FileIO, snapshot: Snapshot) -> list[ManifestFile]:
    """The rows of the snapshot's manifest list."""
    where = f"Manifest list {snapshot.manifest_list} of snapshot {snapshot.snapshot_id}"
    if not snapshot.manifest_list:
        raise errors.MetadataError(f"Snapshot {snapshot.snapshot_id} has no manifest list.")
    try:
        with _storage_errors(where):
            return list(iceberg_manifest.read_manifest_list(io.new_input(snapshot.manifest_list)))
    except errors.CompactionError:
        raise
    except Exception as error:
        raise errors.MetadataError(f"{where} could not be read: it is damaged or not a manifest list.") from error


def read_bytes(io: FileIO, location: str, *, where: str) -> bytes:
    """A whole metadata file. `where` names it in errors."""
    with _storage_errors(where), io.new_input(location).open() as stream:
        return bytes(stream.read())


@contextlib.contextmanager
def _storage_errors(where: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise errors.MetadataError(f"{where} is missing.") from error
    except PermissionError as error:
        raise errors.UnauthorizedError(f"{where} may not be read with the credentials given.") from error
    except OSError as error:
        raise errors.UnreachableError(f"{where} could not be read from storage: {type(error).__name__}.") from error


def _may_be_live(manifest: ManifestFile) -> bool:
    return manifest.has_added_files() or manifest.has_existing_files()


def _in_threads(table: Table, listed: list[ManifestFile], metrics: Sequence[int]) -> list[pa.Table]:
    if not listed:
        return []
    cores = threading.Semaphore(os.cpu_count() or 1)
    with futures.ThreadPoolExecutor(min(THREADS, len(listed)), thread_name_prefix="manifests") as pool:
        waiting = [pool.submit(_read_manifest, table, manifest, metrics, cores) for manifest in listed]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise


def _read_manifest(
    table: Table, manifest: ManifestFile, metrics: Sequence[int], cores: threading.Semaphore
) -> pa.Table:
    where = f"Manifest {manifest.manifest_path}"
    if manifest.partition_spec_id not in table.specs():
        raise errors.MetadataError(f"{where} has partition spec {manifest.partition_spec_id}, which the table has not.")
    data = read_bytes(table.io, manifest.manifest_path, where=where)
    with cores:
        entries = decode.read_table(data, {**_COLUMNS, **(file_metrics.COLUMNS if metrics else {})}, where=where)
        _check_completeness(entries, manifest, len(data), where)
        return _live_rows(table, manifest, entries, metrics)


def _live_rows(table: Table, manifest: ManifestFile, entries: pa.Table, metrics: Sequence[int]) -> pa.Table:
    where, spec = f"Manifest {manifest.manifest_path}", table.specs()[manifest.partition_spec_id]
    if not pc.all(pc.is_in(entries["status"], pa.array([0, _ADDED, _DELETED], entries["status"].type))).as_py():
        raise errors.MetadataError(f"{where} has an entry of unknown status.")
    entries = entries.filter(pc.not_equal(entries["status"], _DELETED))
    columns = {
        "file_path": entries["file_path"],
        "content": _content(entries, manifest, where),
        "file_format": _format(entries["file_format"]),
        "spec_id": pa.repeat(pa.scalar(spec.spec_id, pa.int32()), entries.num_rows),
        "partition": partitions.encode(
            _optional(entries, "partition"), spec, table.schema(), entries.num_rows, where=where
        ),
        "record_count": entries["record_count"],
        "file_size_in_bytes": entries["file_size_in_bytes"],
        "sequence_number": _inherit(entries, "sequence_number", manifest),
        "file_sequence_number": _inherit(entries, "file_sequence_number", manifest),
        "sort_order_id": _or_nulls(entries, "sort_order_id", pa.int32()),
        "encrypted": _or_nulls(entries, "key_metadata", pa.binary()).is_valid(),
    }
    for field in table_model.FILES:
        if field.name not in columns:
            columns[field.name] = _or_nulls(entries, field.name, field.type)
    files = pa.table({field.name: _cast(columns[field.name], field, where) for field in table_model.FILES})
    return file_metrics.with_metrics(files.cast(table_model.FILES), entries, metrics)


def _check_completeness(entries: pa.Table, manifest: ManifestFile, size: int, where: str) -> None:
    counts = (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count)
    if None not in counts:
        promised = sum(count or 0 for count in counts)
        if entries.num_rows != promised:
            raise errors.MetadataError(
                f"{where} holds {entries.num_rows} entries, but the manifest list promises {promised}."
            )
    elif size < manifest.manifest_length:  # old v1 manifest lists have no counts
        raise errors.MetadataError(
            f"{where} has {size} bytes, but the manifest list promises {manifest.manifest_length}."
        )
    missing = {"status", "file_path", "file_format", "record_count", "file_size_in_bytes"} - set(entries.column_names)
    if missing:
        raise errors.MetadataError(f"{where} is not an Iceberg manifest: it has no {', '.join(sorted(missing))}.")


def _content(entries: pa.Table, manifest: ManifestFile, where: str) -> pa.ChunkedArray:
    content = _or_nulls(entries, "content", pa.int32())
    content = pc.fill_null(content, table_model.DATA)  # v1 knows data files only
    deletes = pc.not_equal(content, table_model.DATA)
    if pc.any(pc.xor(deletes, manifest.content == iceberg_manifest.ManifestContent.DELETES)).as_py():
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


def _optional(entries: pa.Table, name: str) -> pa.ChunkedArray | None:
    return entries[name] if name in entries.column_names else None


def _or_nulls(entries: pa.Table, name: str, kind: pa.DataType) -> pa.ChunkedArray:
    found = _optional(entries, name)
    return pa.chunked_array([pa.nulls(entries.num_rows, kind)]) if found is None else found


def _cast(column: pa.ChunkedArray | pa.Array, field: pa.Field, where: str) -> pa.ChunkedArray | pa.Array:
    if not field.nullable and column.null_count:
        raise errors.MetadataError(f"{where} has a live entry without {field.name}.")
    return column.cast(field.type)


def _require_distinct_paths(files: pa.Table, snapshot: Snapshot) -> None:
    # Deletion vectors share a Puffin file; every other file is listed once.
    paths = files.filter(pc.not_equal(files["file_format"].cast(pa.string()), "PUFFIN"))["file_path"]
    if pc.count_distinct(paths).as_py() == len(paths):
        return
    counts = paths.value_counts()
    first = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
    raise errors.MetadataError(f"File {first} is live more than once in snapshot {snapshot.snapshot_id}.")
