"""Which files a table knows, in any of its snapshots and in whatever state. Everything is read, never deduced, because
what is not in the answer may be deleted: a file that cannot be read is a MetadataError."""

from __future__ import annotations

from concurrent import futures
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table

_FETCHES = 8  # at once
_PATH = {"file_path": ("data_file", "file_path")}


def names(table: Table, run_ids: Sequence[str]) -> set[str]:
    """The names, without folders, of all files that these runs wrote and the table's metadata refers to: data and
    delete files, manifests, manifest lists and metadata files. Names rather than paths, because one file may be written
    down with another scheme or authority than it is listed with."""
    metadata, marks = table.metadata, [mark for run_id in run_ids for mark in file_names.marks(run_id)]
    found = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    manifests: dict[str, None] = {}
    with futures.ThreadPoolExecutor(_FETCHES, thread_name_prefix="reach") as pool:
        try:
            for rows in pool.map(lambda one: fetch.list_manifests(table.io, one), metadata.snapshots[::-1]):
                manifests.update(dict.fromkeys(row.manifest_path for row in rows))
            for paths in pool.map(lambda path: _files(table.io, path, marks), manifests):
                found.update(paths)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise
    found.update(manifests, (one.manifest_list for one in metadata.snapshots))
    return {name for name in map(file_names.base_name, found) if any(mark in name for mark in marks)}


def _files(io: FileIO, manifest: str, marks: Sequence[str]) -> Iterable[str]:
    """What a manifest lists, removed files included: an older snapshot may still have those."""
    where = f"Manifest {manifest}"
    paths = avro_decode.read_table(fetch.read_bytes(io, manifest, where=where), _PATH, where=where)["file_path"]
    wanted = pa.chunked_array([pa.nulls(len(paths), pa.bool_()).fill_null(False)])
    for mark in marks:
        wanted = pc.or_(wanted, pc.match_substring(paths, mark))
    return [str(path) for path in paths.filter(wanted).to_pylist()]
