"""The live files of a snapshot as Arrow columns. Manifests come in through the table's FileIO, each is one query in a
thread of its own, and what was parsed once comes from the cache; rows of model.table.FILES go out. Anything missing or
damaged is a MetadataError that names the file: no decision is made from half a picture."""

from __future__ import annotations

import collections
import contextlib
import os
import queue
from concurrent import futures
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.formats.avro import avro_decode
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.cache import arrow_cache, manifest_pack
from iceberg_compaction.metadata.manifest import column_metrics, parse_manifest
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

FETCHES = 8  # at once


def live_files(
    table: Table,
    snapshot: Snapshot,
    *,
    metrics: Sequence[int] = (),
    manifests: Sequence[ManifestFile] | None = None,
    cache: arrow_cache.Cache | None = None,
    branch: str = "main",
) -> pa.Table:
    """Every live data and delete file of the snapshot, in schema model.table.FILES. For each field id in `metrics` the
    columns of metadata.metrics follow, as a filter on those fields needs them. `manifests`: the snapshot's manifest
    list, if it is read already. `cache`: where parsed manifests are kept, under the name of the branch."""
    listed = fetch.list_manifests(table.io, snapshot) if manifests is None else manifests
    how = parse_manifest.reading(table, metrics)
    rows = _by_key([row for row in listed if row.has_added_files() or row.has_existing_files()], how)
    name = manifest_pack.key(how.table_uuid, branch, str(how.metrics))
    kept = manifest_pack.ManifestPack(cache or arrow_cache.Cache(None), name, how.row_schema)
    places = {key: place for key, place in kept.find(list(rows)).items() if _is_whole(place, rows[key])}
    new = [key for key in rows if key not in places]
    places |= zip(new, _in_threads(table.io, [rows[key] for key in new], how), strict=True)
    sizes = {key: manifest_pack.size(places[key]) for key in rows}
    packed_before, pack_now = kept.has_all(places), kept.is_worn(places)
    if not pack_now:
        kept.add({key: places[key] for key in new})
    pieces = kept.pieces([places[key] for key in rows])
    places.clear()  # so that pieces can go while they are joined
    files = _join(pieces, how.row_schema, copy=pack_now)
    if not packed_before:  # what was packed together was looked at then
        _require_distinct_paths(files, snapshot)
    if pack_now:
        pa.default_memory_pool().release_unused()  # the pieces took as much as the table does
        kept.pack(files, sizes)
    return files.drop_columns(parse_manifest.DIGEST)


def no_files(*, metrics: Sequence[int] = ()) -> pa.Table:
    """What `live_files` gives for a table without files."""
    return column_metrics.with_metrics(table_view.FILES.empty_table(), pa.table({}), metrics)


def _by_key(listed: list[ManifestFile], how: parse_manifest.Reading) -> dict[str, ManifestFile]:
    rows: dict[str, ManifestFile] = {}
    for row in listed:
        if row.partition_spec_id not in how.specs:
            raise errors.MetadataError(
                f"Manifest {row.manifest_path} has partition spec {row.partition_spec_id}, which the table has not."
            )
        if rows.setdefault(manifest_pack.key(how.facts(row)), row) is not row:
            raise errors.MetadataError(f"Manifest {row.manifest_path} is listed more than once in its manifest list.")
    return rows


def _is_whole(place: manifest_pack.Place, row: ManifestFile) -> bool:
    """Whether what is kept of a manifest has as many live files as the manifest list promises."""
    if row.added_files_count is None or row.existing_files_count is None:
        return True
    return manifest_pack.size(place) == row.added_files_count + row.existing_files_count


def _in_threads(io: FileIO, rows: list[ManifestFile], how: parse_manifest.Reading) -> list[pa.Table]:
    """The manifests' rows, in order. Fetching waits for storage and decoding for a core, so each has its own threads;
    no more manifests than can be fetched at once are on their way, which bounds memory."""

    def read(row: ManifestFile) -> bytes:
        return fetch.read_bytes(io, row.manifest_path, where=f"Manifest {row.manifest_path}")

    def decode_rows(fetched: futures.Future[bytes], row: ManifestFile) -> pa.Table:
        data, scratch = fetched.result(), scratches.get()
        try:
            return parse_manifest.parse(data, row, how, scratch)
        finally:
            scratches.put(scratch)

    cores = min((os.cpu_count() or 1) + 1, len(rows))  # one more, as some wait for the interpreter
    scratches: queue.SimpleQueue[avro_decode.Scratch] = queue.SimpleQueue()
    parsed: list[pa.Table] = []
    under_way: collections.deque[futures.Future[pa.Table]] = collections.deque()
    with contextlib.ExitStack() as stack:
        for _ in range(cores):
            scratches.put(stack.enter_context(contextlib.closing(avro_decode.Scratch())))
        fetching = stack.enter_context(futures.ThreadPoolExecutor(FETCHES, thread_name_prefix="fetch"))
        decoding = stack.enter_context(futures.ThreadPoolExecutor(cores or 1, thread_name_prefix="decode"))
        try:
            for row in rows:
                if len(under_way) == FETCHES:
                    parsed.append(under_way.popleft().result())
                under_way.append(decoding.submit(decode_rows, fetching.submit(read, row), row))
            return parsed + [future.result() for future in under_way]
        except BaseException:
            for pool in (decoding, fetching):
                pool.shutdown(wait=False, cancel_futures=True)  # the first failure is the answer
            raise


def _join(pieces: list[pa.Table], schema: pa.Schema, *, copy: bool) -> pa.Table:
    """One table of all pieces. A copy is made column by column, and the pieces' own go as it grows."""
    if not pieces:
        return schema.empty_table()
    if not copy:
        return pa.concat_tables(pieces).unify_dictionaries()
    columns = {name: [chunk for piece in pieces for chunk in piece[name].chunks] for name in schema.names}
    pieces.clear()

    def join(field: pa.Field) -> pa.ChunkedArray:
        column = pa.chunked_array(columns.pop(field.name), field.type).unify_dictionaries()
        return pa.table([column], schema=pa.schema([field])).combine_chunks().column(0)

    with futures.ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="join") as pool:
        return pa.table(list(pool.map(join, schema)), schema=schema)


def _require_distinct_paths(files: pa.Table, snapshot: Snapshot) -> None:
    twins = hash64.repeated(files[parse_manifest.DIGEST].to_numpy())
    if twins is None:
        return
    doubtful = files.select(["file_path", "file_format"]).filter(twins)
    # Deletion vectors share a Puffin file; every other file is listed once.
    doubtful = doubtful.filter(pc.not_equal(doubtful["file_format"].cast(pa.string()), "PUFFIN"))
    counts = doubtful["file_path"].value_counts()
    repeated = counts.field("values").filter(pc.greater(counts.field("counts"), 1))
    if len(repeated):
        raise errors.MetadataError(f"File {repeated[0]} is live more than once in snapshot {snapshot.snapshot_id}.")
