"""The live files of a snapshot as Arrow columns. Its manifests come in and are decoded side by side, unless the cache
has them; rows of model.table_view.FILES go out. A missing or damaged manifest is a MetadataError that names it: no
decision is made from half a picture."""

from __future__ import annotations

import collections
import contextlib
import logging
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
from iceberg_compaction.metadata.manifest import column_metrics, parse_manifest, snapshot_manifests
from iceberg_compaction.model import plurals, table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.types import NestedField

FETCHES = 8  # at once

_log = logging.getLogger(__name__)


def live_files(
    table: Table,
    manifests: snapshot_manifests.SnapshotManifests,
    *,
    metrics: Sequence[int] = (),
    cluster: NestedField | None = None,
    cache: arrow_cache.ArrowCache = arrow_cache.NO_CACHE,
    branch: str = "main",
) -> pa.Table:
    """Every live data and delete file of the manifests, in schema model.table_view.FILES. For each field id in
    `metrics` the columns of metadata.manifest.column_metrics follow, as a filter on those fields needs them. `cluster`
    is the column of `cluster_lower` and `cluster_upper`, by default the table's own. `cache` keeps parsed manifests,
    under the name of the branch."""
    reading = parse_manifest.reading(table, metrics, cluster)
    by_key = _by_key(list(filter(snapshot_manifests.has_live_files, manifests.manifest_files)), reading)
    other_column = [] if cluster is None else [str(cluster.field_id)]
    name = manifest_pack.key(reading.table_uuid, branch, str(reading.metrics), *other_column)
    pack = manifest_pack.ManifestPack(cache, name, reading.row_schema)
    parsed = {key: rows for key, rows in pack.find(list(by_key)).items() if _is_whole(rows, by_key[key])}
    new = [key for key in by_key if key not in parsed]
    manifest_count = plurals.count(len(by_key), "manifest")
    _log.info("%s: %d of %s in the cache", ".".join(table.name()), len(parsed), manifest_count)
    parsed |= zip(new, _in_threads(table.io, [by_key[key] for key in new], reading), strict=True)
    sizes = {key: manifest_pack.size(parsed[key]) for key in by_key}
    packed_before, pack_now = pack.has_all(parsed), pack.is_outdated(parsed)
    if not pack_now:
        pack.add({key: parsed[key] for key in new})
    pieces = pack.pieces([parsed[key] for key in by_key])
    parsed.clear()  # so that pieces can go while they are joined
    files = _join(pieces, reading.row_schema, copy=pack_now)
    if not packed_before:  # the paths of a pack were compared when it was made
        _require_distinct_paths(files, manifests.snapshot)
    if pack_now:
        pa.default_memory_pool().release_unused()  # the pieces took as much as the table does
        pack.pack(files, sizes)
    return files.drop_columns(parse_manifest.DIGEST)


def no_files(*, metrics: Sequence[int] = ()) -> pa.Table:
    """The result of `live_files` for a table without files."""
    return column_metrics.with_metrics(table_view.FILES.empty_table(), pa.table({}), metrics)


def _by_key(manifest_files: list[ManifestFile], reading: parse_manifest.Reading) -> dict[str, ManifestFile]:
    by_key: dict[str, ManifestFile] = {}
    for manifest in manifest_files:
        path, spec_id = manifest.manifest_path, manifest.partition_spec_id
        if spec_id not in reading.specs:
            raise errors.MetadataError(f"Manifest {path} has partition spec {spec_id}, which the table has not.")
        if by_key.setdefault(manifest_pack.key(reading.facts(manifest)), manifest) is not manifest:
            raise errors.MetadataError(f"Manifest {path} is listed more than once in its manifest list.")
    return by_key


def _is_whole(rows: manifest_pack.Rows, manifest: ManifestFile) -> bool:
    """Whether the cache has as many live files of a manifest as the manifest list promises."""
    if manifest.added_files_count is None or manifest.existing_files_count is None:
        return True
    return manifest_pack.size(rows) == manifest.added_files_count + manifest.existing_files_count


def _in_threads(io: FileIO, manifest_files: list[ManifestFile], reading: parse_manifest.Reading) -> list[pa.Table]:
    """The live files of each manifest, in order. Fetching waits for storage and decoding for a core, so each has its
    own threads; no more manifests than can be fetched at once are on their way, which bounds memory."""

    def read(manifest: ManifestFile) -> bytes:
        return fetch.read_bytes(io, manifest.manifest_path, where=f"Manifest {manifest.manifest_path}")

    def decode(fetched: futures.Future[bytes], manifest: ManifestFile) -> pa.Table:
        data, scratch = fetched.result(), scratches.get()
        try:
            return parse_manifest.parse(data, manifest, reading, scratch)
        finally:
            scratches.put(scratch)

    cores = min((os.cpu_count() or 1) + 1, len(manifest_files))  # one more, as some wait for the interpreter
    scratches: queue.SimpleQueue[avro_decode.Scratch] = queue.SimpleQueue()
    parsed: list[pa.Table] = []
    under_way: collections.deque[futures.Future[pa.Table]] = collections.deque()
    with contextlib.ExitStack() as stack:
        for _ in range(cores):
            scratches.put(stack.enter_context(contextlib.closing(avro_decode.Scratch())))
        fetching = stack.enter_context(futures.ThreadPoolExecutor(FETCHES, thread_name_prefix="fetch"))
        decoding = stack.enter_context(futures.ThreadPoolExecutor(cores or 1, thread_name_prefix="decode"))
        try:
            for manifest in manifest_files:
                if len(under_way) == FETCHES:
                    parsed.append(under_way.popleft().result())
                under_way.append(decoding.submit(decode, fetching.submit(read, manifest), manifest))
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
