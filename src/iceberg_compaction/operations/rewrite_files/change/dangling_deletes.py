"""Finds the delete files that apply to nothing once a rewrite is committed (R17, R18), so that they leave with the same
commit. The head's manifests come in, its delete files that leave go out. Only the rewritten partitions are searched, or
the whole table if the request tidies it. A delete file stays in doubt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import delete_index, delete_paths, delete_scopes, useless_deletes
from iceberg_compaction.metadata.manifest import live_files, prune_manifests, snapshot_manifests
from iceberg_compaction.model import partition_key, table_view

if TYPE_CHECKING:
    from collections.abc import Collection

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.operations.rewrite_files.change.replace_request import ReplaceRequest

    Mask = NDArray[np.bool_]

_log = logging.getLogger(__name__)

_NONE = table_view.FILES.empty_table()
# Of FILES, what decides where a delete applies.
_INDEXED = [
    "file_path",
    "content",
    "file_format",
    "spec_id",
    "partition",
    "record_count",
    "sequence_number",
    "referenced_data_file",
]


def dangling(
    table: Table,
    manifests: snapshot_manifests.SnapshotManifests,
    request: ReplaceRequest,
    paths: delete_paths.NamedPaths,
    cache: ArrowCache,
) -> pa.Table:
    """The delete files (model.table_view.FILES) of the head, which has these manifests, that the request leaves without
    any data file."""
    global_specs = delete_scopes.unpartitioned(table.specs())
    scope = prune_manifests.PartitionScope(table.metadata, request.partitions)
    deletes = manifests.live(snapshot_manifests.DELETES)
    if not any(may_list_dangling(manifest, scope, global_specs, tidies=request.tidies) for manifest in deletes):
        return _NONE
    live = live_files.live_files(table, manifests, cache=cache, branch=request.pin.branch)
    return find(table.io, live, request, global_specs, paths)


def may_list_dangling(
    manifest: ManifestFile, scope: prune_manifests.PartitionScope, global_specs: Collection[int], *, tidies: bool
) -> bool:
    """Whether a manifest of delete files may list some that leave: global ones and those of the rewritten partitions,
    or any if the commit `tidies` the whole table."""
    return tidies or manifest.partition_spec_id in global_specs or scope.may_be_in(manifest)


def find(
    io: FileIO,
    live: pa.Table,
    request: ReplaceRequest,
    global_specs: frozenset[int],
    paths: delete_paths.NamedPaths,
) -> pa.Table:
    """As `dangling`, given the live files. Equality deletes of `global_specs` are global."""
    content, rewritten = live["content"].to_numpy(), partition_key.lie_in(live, request.partitions)
    searched = np.ones(live.num_rows, np.bool_) if request.tidies else rewritten
    is_global = (content == table_view.EQUALITY_DELETES) & np.isin(live["spec_id"].to_numpy(), list(global_specs))
    candidates = (content != table_view.DATA) & (searched | is_global)
    deletes = live.filter(pa.array(candidates))
    if not deletes.num_rows:
        return _NONE
    after = _DataAfter(live, searched, request)
    kinds = useless_deletes.Kinds(deletes, global_specs)
    unmet = np.zeros(deletes.num_rows, np.bool_)
    unmet[kinds.local] = _meets_nothing(after.near, deletes.filter(pa.array(kinds.local)))
    dead = ~after.has(deletes["referenced_data_file"])
    free = kinds.useless(unmet=unmet, oldest=after.oldest, dead=dead)
    # Position deletes are opened only where files leave: elsewhere they were written for files that are still there.
    unsure = kinds.shared & ~free & rewritten[candidates]
    free[unsure] = _names_nothing(io, deletes.filter(pa.array(unsure)), after, paths)
    return deletes.filter(pa.array(free))


class _DataAfter:
    """The data files once the request is committed. The added ones count with the number that they keep (R3)."""

    def __init__(self, live: pa.Table, searched: Mask, request: ReplaceRequest) -> None:
        data = live["content"].to_numpy() == table_view.DATA
        self._paths, self._data = live["file_path"], data
        self._removed = request.removed["file_path"].combine_chunks()
        near = live.select(_INDEXED).filter(pa.array(data & searched))
        near = near.filter(pc.invert(pc.is_in(near["file_path"], value_set=self._removed)))
        self.near = pa.concat_tables([near, _added(request, near.schema)])  # of the searched partitions, and added
        numbers = (live["sequence_number"].to_numpy()[data & ~searched], self.near["sequence_number"].to_numpy())
        self.oldest = min((int(each.min()) for each in numbers if len(each)), default=useless_deletes.ENDLESS)

    def has(self, paths: pa.ChunkedArray) -> Mask:
        """Which of these paths are data files; null is none."""
        distinct = pc.unique(paths).drop_null()
        if not len(distinct):
            return np.zeros(len(paths), np.bool_)
        old = self._paths.filter(pc.and_(pc.is_in(self._paths, value_set=distinct), pa.array(self._data)))
        old = old.filter(pc.invert(pc.is_in(old, value_set=self._removed)))
        alive = pa.concat_arrays([*old.chunks, *self.near["file_path"].chunks])
        mask: Mask = pc.is_in(paths, value_set=alive, skip_nulls=True).to_numpy()
        return mask


def _added(request: ReplaceRequest, schema: pa.Schema) -> pa.Table:
    rows = [
        {
            "file_path": file.file_path,
            "content": table_view.DATA,
            "file_format": "PARQUET",
            "spec_id": file.spec_id,
            "partition": file.partition,
            "record_count": file.record_count,
            "sequence_number": request.pin.sequence_number,
        }
        for file in request.added
    ]
    plain = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in schema]
    return pa.Table.from_pylist(rows, pa.schema(plain)).cast(schema)


def _meets_nothing(data: pa.Table, deletes: pa.Table) -> Mask:
    """Which deletes of a partition have no data file there that is old enough."""
    both = pa.concat_tables([data, deletes.select(_INDEXED)])
    mask: Mask = delete_index.build(both, unpartitioned_specs=frozenset()).live_targets()["in_scope"].to_numpy() == 0
    return mask


def _names_nothing(io: FileIO, deletes: pa.Table, after: _DataAfter, paths: delete_paths.NamedPaths) -> Mask:
    """Which position deletes name no live data file. A file that cannot be read stays: that harms nobody, and the
    commit is not about it."""
    results = paths.read(io, deletes.select(delete_paths.COLUMNS))
    named = {path: result for path, result in results.items() if isinstance(result, pa.Array)}
    for error in (result for result in results.values() if isinstance(result, errors.CompactionError)):
        _log.warning("A position delete file stays in the table although it may be of no use: %s", error)
    every = pa.chunked_array(list(named.values()), pa.string())
    alive = frozenset(every.filter(pa.array(after.has(every))).to_pylist())
    free = (path in named and alive.isdisjoint(named[path].to_pylist()) for path in deletes["file_path"].to_pylist())
    return np.fromiter(free, np.bool_, deletes.num_rows)
