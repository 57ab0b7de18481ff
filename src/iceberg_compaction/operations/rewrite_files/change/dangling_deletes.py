"""Delete files that can apply to nothing once a rewrite has landed (R17, R18), so that they leave with the same commit.
The head's live files come in, rows of delete files go out. What the rewritten partitions may have freed is looked at,
or the whole table if the plan has found useless ones elsewhere; whatever is not certain stays."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.deletes import delete_index, delete_paths, delete_scopes, useless_deletes
from iceberg_compaction.metadata.manifest import live_files, written_manifests
from iceberg_compaction.model import table_view
from iceberg_compaction.operations.rewrite_files.change import prune_manifests

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO
    from pyiceberg.manifest import ManifestFile
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

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
    head: Snapshot,
    rows: Sequence[ManifestFile],
    request: ReplaceRequest,
    paths: delete_paths.NamedPaths,
) -> pa.Table:
    """The delete files (model.table.FILES) of the head, whose manifest list has these rows, that the request leaves
    without any data file."""
    everywhere = delete_scopes.unpartitioned(table.specs())
    scope = prune_manifests.Scope(table.metadata, request.partitions)
    if not any(concerned(row, scope, everywhere, tidies=request.tidies) for row in rows):
        return _NONE
    kept = arrow_cache.from_environment()
    live = live_files.live_files(table, head, manifests=rows, cache=kept, branch=request.pin.branch)
    return find(table.io, live, request, everywhere, paths)


def concerned(row: ManifestFile, scope: prune_manifests.Scope, everywhere: Collection[int], *, tidies: bool) -> bool:
    """Whether a manifest may list delete files that leave: that the rewritten partitions meet, or any if the commit
    `tidies` the whole table."""
    if row.content != written_manifests.DELETES or not written_manifests.has_live_files(row):
        return False
    return tidies or row.partition_spec_id in everywhere or scope.may_be_in(row)


def find(
    io: FileIO,
    live: pa.Table,
    request: ReplaceRequest,
    everywhere: frozenset[int],
    paths: delete_paths.NamedPaths,
) -> pa.Table:
    """As `dangling`, given the live files. Equality deletes of the specs `everywhere` are global."""
    content, rewritten = live["content"].to_numpy(), _lies_in(live, request.partitions)
    here = np.ones(live.num_rows, np.bool_) if request.tidies else rewritten
    is_global = (content == table_view.EQUALITY_DELETES) & np.isin(live["spec_id"].to_numpy(), list(everywhere))
    asked = (content != table_view.DATA) & (here | is_global)
    deletes = live.filter(pa.array(asked))
    if not deletes.num_rows:
        return _NONE
    after = _After(live, here, request)
    kinds = useless_deletes.Kinds(deletes, everywhere)
    unmet = np.zeros(deletes.num_rows, np.bool_)
    unmet[kinds.local] = _meets_nothing(after.near, deletes.filter(pa.array(kinds.local)))
    dead = ~after.has(deletes["referenced_data_file"])
    free = kinds.useless(unmet=unmet, oldest=after.oldest, dead=dead)
    # What a position delete names is read only where files leave: elsewhere it was written for files that are there.
    unsure = kinds.shared & ~free & rewritten[asked]
    free[unsure] = _names_nothing(io, deletes.filter(pa.array(unsure)), after, paths)
    return deletes.filter(pa.array(free))


class _After:
    """The data files once the request has landed. The added ones count with the number that they keep (R3)."""

    def __init__(self, live: pa.Table, here: Mask, request: ReplaceRequest) -> None:
        data = live["content"].to_numpy() == table_view.DATA
        self._paths, self._data = live["file_path"], data
        self._removed = request.removed["file_path"].combine_chunks()
        near = live.select(_INDEXED).filter(pa.array(data & here))
        near = near.filter(pc.invert(pc.is_in(near["file_path"], value_set=self._removed)))
        self.near = pa.concat_tables([near, _added(request, near.schema)])  # of the rewritten partitions, and added
        numbers = (live["sequence_number"].to_numpy()[data & ~here], self.near["sequence_number"].to_numpy())
        self.oldest = min((int(some.min()) for some in numbers if len(some)), default=useless_deletes.ENDLESS)

    def has(self, paths: pa.ChunkedArray) -> Mask:
        """Which of these paths are data files; null is none."""
        asked = pc.unique(paths).drop_null()
        if not len(asked):
            return np.zeros(len(paths), np.bool_)
        old = self._paths.filter(pc.and_(pc.is_in(self._paths, value_set=asked), pa.array(self._data)))
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


def _lies_in(rows: pa.Table, places: Collection[tuple[int, str]]) -> Mask:
    """Which files lie in one of these partitions."""
    column, specs = rows["partition"].unify_dictionaries().combine_chunks(), rows["spec_id"].to_numpy()
    found = np.zeros(rows.num_rows, np.bool_)
    if not rows.num_rows:
        return found
    codes, texts = column.indices.to_numpy(), column.dictionary.to_pylist()
    for spec_id in {spec_id for spec_id, _ in places}:
        mine = {text for other, text in places if other == spec_id}
        found |= (specs == spec_id) & np.fromiter((text in mine for text in texts), np.bool_, len(texts))[codes]
    return found


def _meets_nothing(data: pa.Table, deletes: pa.Table) -> Mask:
    """Which deletes of a partition have no data file there that is old enough."""
    both = pa.concat_tables([data, deletes.select(_INDEXED)])
    mask: Mask = delete_index.build(both, unpartitioned_specs=frozenset()).live_targets()["in_scope"].to_numpy() == 0
    return mask


def _names_nothing(io: FileIO, deletes: pa.Table, after: _After, paths: delete_paths.NamedPaths) -> Mask:
    """Which position deletes name no live data file. What cannot be read stays: it may, and the commit is not about
    it."""
    found = paths.read(io, deletes.select(delete_paths.COLUMNS))
    known = {path: named for path, named in found.items() if isinstance(named, pa.Array)}
    for error in (named for named in found.values() if isinstance(named, errors.CompactionError)):
        _log.warning("A position delete file stays in the table although it may be of no use: %s", error)
    every = pa.chunked_array(list(known.values()), pa.string())
    alive = frozenset(every.filter(pa.array(after.has(every))).to_pylist())
    free = (path in known and alive.isdisjoint(known[path].to_pylist()) for path in deletes["file_path"].to_pylist())
    return np.fromiter(free, np.bool_, deletes.num_rows)
