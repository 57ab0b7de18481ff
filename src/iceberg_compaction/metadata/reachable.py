"""Finds the files that a table refers to, in any of its snapshots and in whatever state. Everything is read and nothing
deduced, because a file that is missing here may be deleted: a manifest that cannot be read is a MetadataError."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.metadata import table_folders
from iceberg_compaction.storage import file_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table


def names(table: Table, run_ids: Sequence[str]) -> set[str]:
    """The names, without folders, of all files that these runs wrote and the table's metadata refers to: data and
    delete files, manifests, manifest lists, statistics and metadata files; also those that a manifest lists as removed,
    since an older snapshot may still have them. Names rather than paths, because one file may be written down with
    another scheme or authority than it is listed with."""
    from iceberg_compaction.metadata.reach import reachable_files  # few runs find files of dead ones

    marks = [mark for run_id in run_ids for mark in file_names.marks(run_id)]
    _, metadata_folder = table_folders.folders(table)
    referenced: set[str] = set()
    for files in reachable_files.all_files(table, metadata_folder, removed_too=True):
        referenced.update(map(file_names.base_name, _marked(files["path"], marks).to_pylist()))
    return {name for name in referenced if any(mark in name for mark in marks)}


def _marked(paths: pa.Array, marks: Sequence[str]) -> pa.Array:
    """Those with one of the marks in them."""
    marked = pa.nulls(len(paths), pa.bool_()).fill_null(False)
    for mark in marks:
        marked = pc.or_(marked, pc.match_substring(paths, mark))
    return paths.filter(marked)
