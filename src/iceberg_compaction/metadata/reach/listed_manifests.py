"""The manifests that snapshots refer to, each once, however many snapshots share it. Snapshots come in; a table of
manifests goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.reach import avro_bulk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

MANIFESTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("entries", pa.int64()),  # that the list promises; null: it does not say, as in old lists of version 1
    ]
)
_COUNTS = ("added", "existing", "deleted")
_SELECT = {
    "path": ("manifest_path",),
    "length": ("manifest_length",),
    **{each: (f"{each}_files_count",) for each in _COUNTS},
    **{f"{each}_data": (f"{each}_data_files_count",) for each in _COUNTS},  # the name in the first lists
}


def read(io: FileIO, snapshots: Iterable[Snapshot]) -> pa.Table:
    """The manifests of all manifest lists of the snapshots, in schema MANIFESTS, by path. Of a path that is listed
    twice the first entry counts."""
    request = avro_bulk.BulkRead(select=_SELECT, check=lambda file, rows: None)
    seen: set[str] = set()
    manifests = [MANIFESTS.empty_table()]
    for tables in avro_bulk.read(io, (_list_of(snapshot) for snapshot in snapshots), request):
        for table in tables:
            manifests.append(_not_seen(_manifests(table), seen))
    return pa.concat_tables(manifests).combine_chunks()


def _list_of(snapshot: Snapshot) -> avro_bulk.BulkFile:
    if not snapshot.manifest_list:
        raise errors.MetadataError(f"Snapshot {snapshot.snapshot_id} has no manifest list.")
    where = f"Manifest list {snapshot.manifest_list} of snapshot {snapshot.snapshot_id}"
    return avro_bulk.BulkFile(location=snapshot.manifest_list, where=where)


def _manifests(entries: pa.Table) -> pa.Table:
    if not entries.num_rows:
        return MANIFESTS.empty_table()
    if "path" not in entries.column_names or "length" not in entries.column_names:
        raise errors.MetadataError("A manifest list has entries without the path or the length of a manifest.")
    promised = None
    for each in _COUNTS:
        count = next((entries[name] for name in (each, f"{each}_data") if name in entries.column_names), None)
        count = pa.chunked_array([pa.nulls(entries.num_rows, pa.int64())]) if count is None else count.cast(pa.int64())
        promised = count if promised is None else pc.add(promised, count)
    columns = [entries["path"].cast(pa.string()), entries["length"].cast(pa.int64()), promised]
    if any(column.null_count for column in columns[:2]):
        raise errors.MetadataError("A manifest list has an entry without the path or the length of its manifest.")
    return pa.table(columns, schema=MANIFESTS).combine_chunks()


def _not_seen(manifests: pa.Table, seen: set[str]) -> pa.Table:
    """Those whose path was not there before, once each; their paths are added to `seen`."""
    if not manifests.num_rows:
        return manifests
    encoded = manifests["path"].combine_chunks().dictionary_encode()
    _, first = np.unique(encoded.indices.to_numpy(), return_index=True)
    rows = [int(row) for path, row in zip(encoded.dictionary.to_pylist(), first, strict=True) if path not in seen]
    fresh = manifests.take(pa.array(sorted(rows), pa.int64()))
    seen.update(fresh["path"].to_pylist())
    return fresh
