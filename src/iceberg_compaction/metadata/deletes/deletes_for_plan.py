"""Which delete files a rewrite has to apply. A plan comes in and is looked up in the snapshot that it is pinned to; out
come each file's data sequence number and, for slices of the plan's files, the delete files that apply. A table without
deletes costs a look at its manifest list."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc
from pyiceberg.manifest import ManifestContent

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch
from iceberg_compaction.metadata.cache import arrow_cache
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.metadata.manifest import live_files
from iceberg_compaction.model.rewrite_task import DeleteFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.deletes.sorted_ranges import Ints
    from iceberg_compaction.model.rewrite_plan import Plan

_COLUMNS = [name for name in DeleteFile.model_fields if name != "equality_ids"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedDeletes:
    """What applies to the files of one plan, numbered as in Plan.files."""

    files: pa.Table  # the snapshot's, model.table.FILES
    rows: Ints  # of each file of the plan
    index: delete_index.DeleteIndex
    _made: dict[int, DeleteFile] = field(default_factory=dict)  # by row

    def sequence_numbers(self) -> list[int]:
        """The data sequence number of each file of the plan."""
        numbers: list[int] = self.files["sequence_number"].to_numpy()[self.rows].tolist()
        return numbers

    def of_slices(self, starts: list[int]) -> list[tuple[DeleteFile, ...]]:
        """For slices of the plan's files, each of one partition, the delete files that apply to one of theirs or to
        several. A slice begins at each of `starts` and ends where the next begins."""
        lists = self.index.for_slices(self.rows, np.array(starts, np.int64))
        met = lists.values.to_numpy()
        self._make(np.unique(met))
        edges, rows = lists.offsets.to_pylist(), met.tolist()
        return [tuple(self._made[row] for row in rows[start:stop]) for start, stop in itertools.pairwise(edges)]

    def _make(self, rows: Ints) -> None:
        """An object for each delete file, shared by all slices that it applies to."""
        asked = self.files.take(rows)
        for row, ids, values in zip(
            rows.tolist(), asked["equality_ids"].to_pylist(), asked.select(_COLUMNS).to_pylist(), strict=True
        ):
            self._made[row] = DeleteFile(**values, equality_ids=tuple(ids or ()))


def applied_deletes(table: Table, plan: Plan, *, cache: arrow_cache.Cache | None = None) -> AppliedDeletes | None:
    """What a rewrite of the plan has to apply; None: the table has no delete files. `cache` is where parsed manifests
    are kept; by default the user's settings say. StalePlanError: the plan names files that its snapshot has not."""
    snapshot = planned(table, plan)
    manifests = fetch.list_manifests(table.io, snapshot)
    deletes = (row for row in manifests if row.content == ManifestContent.DELETES)
    if not any(row.has_added_files() or row.has_existing_files() for row in deletes):
        return None
    files = live_files.live_files(
        table,
        snapshot,
        manifests=manifests,
        cache=arrow_cache.from_environment() if cache is None else cache,
        branch=plan.pin.branch if plan.pin else "main",
    )
    rows = pc.index_in(plan.files["file_path"], value_set=files["file_path"])
    if rows.null_count:
        missing = plan.files["file_path"].filter(pc.is_null(rows))[0]
        raise errors.StalePlanError(
            f"The plan for {plan.table} names {missing}, which is not in snapshot {snapshot.snapshot_id}; plan again."
        )
    index = delete_index.build(files, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
    return AppliedDeletes(files=files, rows=rows.to_numpy().astype(np.int64), index=index)


def planned(table: Table, plan: Plan) -> Snapshot:
    """The snapshot that the plan is pinned to; StalePlanError: it is gone."""
    found = None if plan.pin is None else table.metadata.snapshot_by_id(plan.pin.snapshot_id)
    if found is None:
        raise errors.StalePlanError(f"The snapshot that the plan for {plan.table} was made on is gone; plan again.")
    return found
