"""The manifests that snapshots refer to, each once, however many snapshots share it. Snapshots come in; a table of
manifests goes out."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.metadata import list_checks
from iceberg_compaction.metadata.reach import avro_bulk

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO
    from pyiceberg.table.snapshots import Snapshot

MANIFESTS = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("length", pa.int64(), nullable=False),
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("entries", pa.int64()),  # that the list promises; null: it does not say, as in old lists of version 1
    ]
)
_SELECT = {
    "path": ("manifest_path",),
    "length": ("manifest_length",),
    "spec_id": ("partition_spec_id",),
    "content": ("content",),
    **{each: (f"{each}_files_count",) for each in list_checks.COUNTS},
    **{f"{each}_data": (f"{each}_data_files_count",) for each in list_checks.COUNTS},  # the name in the first lists
}


def read(io: FileIO, snapshots: Iterable[Snapshot]) -> pa.Table:
    """The manifests of all manifest lists of the snapshots, in schema MANIFESTS. Of a path that is listed twice the
    first entry counts. MetadataError: a list is damaged, also if that shows only beside its snapshot."""
    return read_lists(io, (_list_of(snapshot) for snapshot in snapshots))


def read_lists(io: FileIO, lists: Iterable[avro_bulk.BulkFile], *, may_be_gone: bool = False) -> pa.Table:
    """The same of manifest lists. `may_be_gone`: lists that do not exist any more are passed over."""
    request = avro_bulk.BulkRead(
        select=_SELECT, check=list_checks.check_header, check_records=list_checks.check_counts, may_be_gone=may_be_gone
    )
    seen: set[str] = set()
    manifests = [MANIFESTS.empty_table()]
    for tables in avro_bulk.read(io, lists, request):
        for table in tables:
            manifests.append(_not_seen(_manifests(table), seen))
    return pa.concat_tables(manifests).combine_chunks()


def _list_of(snapshot: Snapshot) -> avro_bulk.BulkFile:
    if not snapshot.manifest_list:
        raise errors.MetadataError(f"Snapshot {snapshot.snapshot_id} has no manifest list.")
    return dataclasses.replace(list_at(snapshot.manifest_list, snapshot.snapshot_id), snapshot=snapshot)


def list_at(path: str, snapshot_id: int) -> avro_bulk.BulkFile:
    """The manifest list of a snapshot, to read."""
    return avro_bulk.BulkFile(location=path, where=f"Manifest list {path} of snapshot {snapshot_id}")


def _manifests(entries: pa.Table) -> pa.Table:
    if not entries.num_rows:
        return MANIFESTS.empty_table()
    columns: dict[str, pa.ChunkedArray] = {}
    for field in MANIFESTS:
        if field.nullable:
            columns[field.name] = list_checks.files_of(entries, list_checks.COUNTS)
        elif field.name in entries.column_names and not entries[field.name].null_count:
            columns[field.name] = entries[field.name].cast(field.type)
        else:
            raise errors.MetadataError(f"A manifest list has an entry without the {field.name} of its manifest.")
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
