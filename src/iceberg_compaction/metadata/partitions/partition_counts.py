"""Rows, files and bytes of each partition of a snapshot, as partition statistics have them. Its manifests come in, each
read once and summed up at once; one row for each partition of each spec goes out. Entries of removed files count as a
change of their partition, and nothing else."""

from __future__ import annotations

import os
from concurrent import futures
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch, partition_tuples
from iceberg_compaction.metadata.manifest import entry_counts
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests

# By the names of the spec; of delete files that are deletion vectors only `dv_count` counts the files.
SUMS = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)
PARTITION_COUNTS = pa.schema(
    [
        pa.field("spec_id", pa.int32(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),  # canonical JSON, see model.table_view.FILES
        *(pa.field(name, pa.int64(), nullable=False) for name in SUMS),
        pa.field("last_change", pa.int64()),  # position in the table's snapshots, by time; null: it has expired
    ]
)
_DELETED = 2  # status of an entry
_SELECT: dict[str, Sequence[str | int]] = {
    "status": ("status",),
    "snapshot_id": ("snapshot_id",),
    **{
        name: ("data_file", name)
        for name in ("content", "file_format", "partition", "record_count", "file_size_in_bytes")
    },
}


def count(table: Table, manifests: SnapshotManifests) -> pa.Table:
    """The counts of all partitions, in schema PARTITION_COUNTS. MetadataError: a manifest is missing or damaged."""
    ids = pa.array([each.snapshot_id for each in snapshots_by_time(table)], pa.int64())
    listed = manifests.manifest_files
    with futures.ThreadPoolExecutor((os.cpu_count() or 1) + 1, thread_name_prefix="counts") as pool:
        try:
            pieces = list(pool.map(lambda each: _of_manifest(table, each, ids), listed))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise
    return summed(pa.concat_tables([PARTITION_COUNTS.empty_table(), *pieces]))


def snapshots_by_time(table: Table) -> list[Snapshot]:
    """The snapshots that `last_change` counts in."""
    return sorted(table.metadata.snapshots, key=lambda each: each.timestamp_ms)


def _of_manifest(table: Table, manifest: ManifestFile, snapshot_ids: pa.Array) -> pa.Table:
    where = f"Manifest {manifest.manifest_path}"
    spec = table.specs().get(manifest.partition_spec_id)
    if spec is None:
        raise errors.MetadataError(f"{where} has partition spec {manifest.partition_spec_id}, which the table has not.")
    data = fetch.read_bytes(table.io, manifest.manifest_path, where=where)
    entries = avro_decode.read_table(data, _SELECT, where=where)
    rows = entries.num_rows
    entry_counts.check_count(manifest, rows)
    if missing := {"status", "file_format", "record_count", "file_size_in_bytes"} - set(entries.column_names):
        raise errors.MetadataError(f"{where} is not an Iceberg manifest: it has no {', '.join(sorted(missing))}.")
    column = entries["partition"] if "partition" in entries.column_names else None
    partition = partition_tuples.encode(column, spec, table.schema(), rows, where=where).cast(pa.string())
    return summed(
        pa.table(
            [
                pa.repeat(pa.scalar(spec.spec_id, pa.int32()), rows),
                partition,
                *_figures(entries).values(),
                pc.index_in(_changed_by(entries, manifest), value_set=snapshot_ids).cast(pa.int64()),
            ],
            schema=PARTITION_COUNTS,
        )
    )


def _figures(entries: pa.Table) -> dict[str, pa.ChunkedArray]:
    """What each entry adds to the sums."""
    rows = entries.num_rows
    is_live = pc.not_equal(entries["status"], _DELETED)
    content = entries["content"] if "content" in entries.column_names else pa.nulls(rows, pa.int32())
    content = pc.fill_null(content, table_view.DATA)  # v1 knows data files only
    is_vector = pc.equal(pc.utf8_upper(entries["file_format"].cast(pa.string())), "PUFFIN")
    records, sizes = (entries[name].cast(pa.int64()) for name in ("record_count", "file_size_in_bytes"))
    data, positions, equality = (
        pc.and_(is_live, pc.equal(content, kind))
        for kind in (table_view.DATA, table_view.POSITION_DELETES, table_view.EQUALITY_DELETES)
    )
    one, none = pa.scalar(1, pa.int64()), pa.scalar(0, pa.int64())
    values = (
        (data, records),
        (data, one),
        (data, sizes),
        (positions, records),
        (pc.and_(positions, pc.invert(is_vector)), one),
        (equality, records),
        (equality, one),
        (pc.and_(positions, is_vector), one),
    )
    return {name: pc.if_else(mask, value, none) for name, (mask, value) in zip(SUMS, values, strict=True)}


def _changed_by(entries: pa.Table, manifest: ManifestFile) -> pa.ChunkedArray:
    """The snapshot that added each file, or removed it."""
    if "snapshot_id" not in entries.column_names:
        return pa.chunked_array([pa.repeat(pa.scalar(manifest.added_snapshot_id, pa.int64()), entries.num_rows)])
    return pc.fill_null(entries["snapshot_id"].cast(pa.int64()), manifest.added_snapshot_id)


def summed(counts: pa.Table) -> pa.Table:
    """One row for each partition."""
    grouped = counts.group_by(["spec_id", "partition"]).aggregate(
        [*((name, "sum") for name in SUMS), ("last_change", "max")]
    )
    names = {f"{name}_sum": name for name in SUMS} | {"last_change_max": "last_change"}
    grouped = grouped.rename_columns([names.get(name, name) for name in grouped.column_names])
    return grouped.select(PARTITION_COUNTS.names).cast(PARTITION_COUNTS)
