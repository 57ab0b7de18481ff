"""Finds the files that a table refers to, in any of its snapshots and in whatever state. Everything is read and nothing
deduced, because a file that is missing here may be deleted: a manifest that cannot be read is a MetadataError."""

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
    delete files, manifests, manifest lists, statistics and metadata files. Names rather than paths, because one file
    may be written down with another scheme or authority than it is listed with."""
    metadata, marks = table.metadata, [mark for run_id in run_ids for mark in file_names.marks(run_id)]
    paths = {table.metadata_location, *(entry.metadata_file for entry in metadata.metadata_log)}
    paths.update(each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics))
    manifests: dict[str, None] = {}
    with futures.ThreadPoolExecutor(_FETCHES, thread_name_prefix="reach") as pool:
        try:
            newest_first = metadata.snapshots[::-1]
            for manifest_files in pool.map(lambda each: fetch.list_manifests(table.io, each), newest_first):
                manifests.update(dict.fromkeys(manifest.manifest_path for manifest in manifest_files))
            for listed in pool.map(lambda path: _files(table.io, path, marks), manifests):
                paths.update(listed)
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise
    paths.update(manifests, (snapshot.manifest_list for snapshot in metadata.snapshots))
    return {name for name in map(file_names.base_name, paths) if any(mark in name for mark in marks)}


def _files(io: FileIO, manifest: str, marks: Sequence[str]) -> Iterable[str]:
    """The files that a manifest lists, removed ones included: an older snapshot may still have those."""
    where = f"Manifest {manifest}"
    paths = avro_decode.read_table(fetch.read_bytes(io, manifest, where=where), _PATH, where=where)["file_path"]
    marked = pa.chunked_array([pa.nulls(len(paths), pa.bool_()).fill_null(False)])
    for mark in marks:
        marked = pc.or_(marked, pc.match_substring(paths, mark))
    return [str(path) for path in paths.filter(marked).to_pylist()]
