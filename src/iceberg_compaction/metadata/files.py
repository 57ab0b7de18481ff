"""The live files of a snapshot as Arrow columns. Manifests come in through the table's FileIO, each is one query in a
thread of its own, and what was parsed once comes from the cache; rows of model.table.FILES go out. Anything missing or
damaged is a MetadataError that names the file: no decision is made from half a picture."""

from __future__ import annotations

import os
import threading
from concurrent import futures
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata import cache as caches
from iceberg_compaction.metadata import fetch, parse, paths, shelf
from iceberg_compaction.metadata import metrics as file_metrics
from iceberg_compaction.model import table as table_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

THREADS = 8  # that fetch; decoding waits for a core, as it needs memory as well


def live_files(
    table: Table,
    snapshot: Snapshot,
    *,
    metrics: Sequence[int] = (),
    manifests: Sequence[ManifestFile] | None = None,
    cache: caches.Cache | None = None,
    branch: str = "main",
) -> pa.Table:
    """Every live data and delete file of the snapshot, in schema model.table.FILES. For each field id in `metrics` the
    columns of metadata.metrics follow, as a filter on those fields needs them. `manifests`: the snapshot's manifest
    list, if it is read already. `cache`: where parsed manifests are kept, under the name of the branch."""
    listed = fetch.list_manifests(table.io, snapshot) if manifests is None else manifests
    how = parse.reading(table, metrics)
    rows = _by_key([row for row in listed if row.has_added_files() or row.has_existing_files()], how)
    name = shelf.key(how.table_uuid, branch, str(how.metrics))
    kept = shelf.Shelf(cache or caches.Cache(None), name, how.row_schema)
    found = kept.find(list(rows))
    new = [key for key in rows if key not in found]
    found |= zip(new, _in_threads(table.io, [rows[key] for key in new], how), strict=True)
    places = {key: found[key] for key in rows}
    del found
    files = _assemble(kept.pieces(places), how.row_schema)
    if not kept.has_all(places):  # what was packed together was looked at then
        _require_distinct_paths(files, snapshot)
    return kept.keep(places, new, files).drop_columns(parse.DIGEST)


def no_files(*, metrics: Sequence[int] = ()) -> pa.Table:
    """What `live_files` gives for a table without files."""
    return file_metrics.with_metrics(table_model.FILES.empty_table(), pa.table({}), metrics)


def _by_key(listed: list[ManifestFile], how: parse.Reading) -> dict[str, ManifestFile]:
    rows: dict[str, ManifestFile] = {}
    for row in listed:
        if row.partition_spec_id not in how.specs:
            raise errors.MetadataError(
                f"Manifest {row.manifest_path} has partition spec {row.partition_spec_id}, which the table has not."
            )
        if rows.setdefault(shelf.key(how.facts(row)), row) is not row:
            raise errors.MetadataError(f"Manifest {row.manifest_path} is listed more than once in its manifest list.")
    return rows


def _in_threads(io: FileIO, rows: list[ManifestFile], how: parse.Reading) -> list[pa.Table]:
    if not rows:
        return []
    cores = threading.Semaphore(os.cpu_count() or 1)

    def read(row: ManifestFile) -> pa.Table:
        data = fetch.read_bytes(io, row.manifest_path, where=f"Manifest {row.manifest_path}")
        with cores:
            return parse.parse(data, row, how)

    with futures.ThreadPoolExecutor(min(THREADS, len(rows)), thread_name_prefix="manifests") as pool:
        waiting = [pool.submit(read, row) for row in rows]
        try:
            return [future.result() for future in waiting]
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise


def _assemble(pieces: list[pa.Table], schema: pa.Schema) -> pa.Table:
    return pa.concat_tables(pieces).unify_dictionaries() if pieces else schema.empty_table()


def _require_distinct_paths(files: pa.Table, snapshot: Snapshot) -> None:
    twins = paths.twins(files[parse.DIGEST].to_numpy())
    if twins is None:
        return
    doubtful = files.select(["file_path", "file_format"]).filter(twins)
    # Deletion vectors share a Puffin file; every other file is listed once.
    doubtful = doubtful.filter(pc.not_equal(doubtful["file_format"].cast(pa.string()), "PUFFIN"))
    counts = doubtful["file_path"].value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise errors.MetadataError(f"File {repeated[0]} is live more than once in snapshot {snapshot.snapshot_id}.")
