"""All files that snapshots of a table refer to, and the table's other files. A table and snapshots come in; batches of
paths with their kinds go out, each manifest read once. Nothing is held back between batches, so memory stays small
however many files there are; a path may come twice, if two manifests list it."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.reach import avro_bulk, linked_folders, listed_manifests
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.formats.avro import container

FILES = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("kind", pa.string(), nullable=False),  # a FileKind
        pa.field("bytes", pa.int64()),  # as the metadata says; null: it does not
    ]
)


class FileKind(str, enum.Enum):
    """What a file is to its table."""

    DATA = "data"
    DELETES = "deletes"  # of positions or by equality, and Puffin files of deletion vectors
    MANIFEST = "manifest"
    MANIFEST_LIST = "manifest-list"
    METADATA = "metadata"  # the table's metadata, now and in the metadata log
    VERSION_HINT = "version-hint"
    STATISTICS = "statistics"
    PARTITION_STATISTICS = "partition-statistics"


_SPELLINGS = path_forms.Spellings()
_LOADING_MODE, _ALL = "snapshot-loading-mode", "all"  # a property of REST catalogs
_DATA = 0  # the content of a manifest entry
_DELETED = 2  # the status of a manifest entry
_SELECT = {
    "status": ("status",),
    "path": ("data_file", "file_path"),
    "content": ("data_file", "content"),
    "bytes": ("data_file", "file_size_in_bytes"),
}


def snapshot_files(io: FileIO, snapshots: Sequence[Snapshot], *, removed_too: bool = False) -> Iterator[pa.RecordBatch]:
    """Every file that the snapshots refer to, in schema FILES: their manifest lists, the manifests in these, and the
    live files in those. `removed_too`: files as well that a manifest lists as removed, which its snapshot does not
    need, but an older one may."""
    manifests = listed_manifests.read(io, snapshots)
    yield manifest_lists(snapshots)
    yield manifest_files(manifests)
    yield from content_files(io, manifests, removed_too=removed_too)


def manifest_lists(snapshots: Iterable[Snapshot]) -> pa.RecordBatch:
    """The manifest lists of snapshots."""
    return batch([each.manifest_list for each in snapshots], FileKind.MANIFEST_LIST)


def manifest_files(manifests: pa.Table) -> pa.RecordBatch:
    """The manifests (listed_manifests.MANIFESTS) as files."""
    kinds = pa.repeat(FileKind.MANIFEST.value, manifests.num_rows)
    paths, lengths = (manifests[name].combine_chunks() for name in ("path", "length"))
    return pa.record_batch([paths, kinds, lengths], schema=FILES)


def content_files(
    io: FileIO, manifests: pa.Table, *, removed_too: bool = False, may_be_gone: bool = False
) -> Iterator[pa.RecordBatch]:
    """The data and delete files in the manifests (listed_manifests.MANIFESTS). `may_be_gone`: manifests that do not
    exist any more are passed over."""
    request = avro_bulk.BulkRead(select=_SELECT, check=_check_count, may_be_gone=may_be_gone)
    for tables in avro_bulk.read(io, _to_read(manifests), request):
        for entries in tables:
            if entries.num_rows:
                yield _files_of(entries, removed_too=removed_too)


def table_files(metadata: TableMetadata, location: str, metadata_folder: str) -> pa.RecordBatch:
    """The files beside those of snapshots: the metadata file at `location`, those in its log, the version hint, and
    Puffin files of statistics."""
    logged = [entry.metadata_file for entry in metadata.metadata_log]
    hint = f"{metadata_folder.rstrip('/')}/version-hint.text"
    parts = [
        batch([location, *logged], FileKind.METADATA),
        batch([hint], FileKind.VERSION_HINT),
        batch([each.statistics_path for each in metadata.statistics], FileKind.STATISTICS),
        batch([each.statistics_path for each in metadata.partition_statistics], FileKind.PARTITION_STATISTICS),
    ]
    return pa.Table.from_batches(parts).combine_chunks().to_batches()[0]


def all_files(table: Table, metadata_folder: str, *, removed_too: bool = False) -> Iterator[pa.RecordBatch]:
    """Every file that the table refers to in any snapshot or anywhere else in its metadata."""
    require_all_snapshots(table)
    yield table_files(table.metadata, table.metadata_location, metadata_folder)
    yield from snapshot_files(table.io, table.metadata.snapshots[::-1], removed_too=removed_too)


def require_all_snapshots(table: Table) -> None:
    """UnsupportedError: the catalog was told to show only some snapshots, so that files of the others would look as if
    nobody needed them."""
    mode = str(table.catalog.properties.get(_LOADING_MODE, _ALL)).strip().lower()
    if mode != _ALL:
        raise errors.UnsupportedError(
            f"The catalog shows only snapshots that a branch or tag points to ({_LOADING_MODE}={mode}), which is too "
            f"little to delete files on; set {_LOADING_MODE} to {_ALL}."
        )


def keys(paths: pa.Array, folders: linked_folders.FolderReader) -> pa.Array:
    """What of each path is compared: its plain form without scheme and authority, links of its folder resolved, because
    one file may be written down in several ways. Two files may have one key; whoever deletes keeps both then."""
    _, plain = _SPELLINGS.split_all(paths)
    ways = dict(folders.links(paths))
    if not ways:
        return plain
    halves = (path.rpartition("/") for path in plain.to_pylist())
    return pa.array([f"{ways.get(folder, folder)}/{name}" for folder, _, name in halves], pa.string())


def batch(paths: Iterable[str], kind: FileKind) -> pa.RecordBatch:
    """Files of one kind whose sizes are unknown."""
    texts = pa.array(list(dict.fromkeys(paths)), pa.string())
    return pa.record_batch([texts, pa.repeat(kind.value, len(texts)), pa.nulls(len(texts), pa.int64())], schema=FILES)


def _to_read(manifests: pa.Table) -> Iterator[avro_bulk.BulkFile]:
    for rows in manifests.to_batches(max_chunksize=4096):
        for path, length, _, entries in zip(*(column.to_pylist() for column in rows.columns), strict=True):
            yield avro_bulk.BulkFile(location=path, where=f"Manifest {path}", length=length, records=entries)


def _check_count(file: avro_bulk.BulkFile, parsed: container.Container) -> None:
    """A manifest that is cut at the border of a block is still readable."""
    if file.records is not None and file.records != parsed.rows:
        raise errors.MetadataError(
            f"{file.where} holds {parsed.rows} entries, but the manifest list promises {file.records}."
        )


def _files_of(entries: pa.Table, *, removed_too: bool) -> pa.RecordBatch:
    if not {"status", "path"} <= set(entries.column_names):
        raise errors.MetadataError("A manifest is not one of Iceberg: its entries have no status or no file path.")
    if not removed_too:
        entries = entries.filter(pc.not_equal(entries["status"], _DELETED))
    paths = entries["path"].combine_chunks().cast(pa.string())
    if paths.null_count:
        raise errors.MetadataError("A manifest has an entry without a file path.")
    if "content" in entries.column_names:
        is_data = pc.equal(pc.fill_null(entries["content"].combine_chunks(), _DATA), _DATA)
        kinds = pc.if_else(is_data, FileKind.DATA.value, FileKind.DELETES.value)
    else:
        kinds = pa.repeat(FileKind.DATA.value, len(paths))  # version 1 knows no others
    sizes = entries["bytes"].combine_chunks() if "bytes" in entries.column_names else pa.nulls(len(paths), pa.int64())
    return pa.record_batch([paths, kinds, sizes.cast(pa.int64())], schema=FILES)
