"""The delete files that a rewrite has to apply. A plan and the manifests of the snapshot that it is pinned to come in;
out come each file's data sequence number and, for slices of the plan's files, the delete files that apply. A table
without deletes costs nothing."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.model.rewrite_task import DeleteFile

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.table import Table

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.metadata.deletes.sorted_ranges import Ints
    from iceberg_compaction.model.rewrite_plan import Plan

_COLUMNS = [name for name in DeleteFile.model_fields if name != "equality_ids"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesForPlan:
    """The deletes that apply to the files of one plan, numbered as in Plan.files."""

    files: pa.Table  # the snapshot's, model.table_view.FILES
    rows: Ints  # of each file of the plan
    index: delete_index.DeleteIndex
    _delete_files: dict[int, DeleteFile] = field(default_factory=dict)  # by row

    def sequence_numbers(self) -> list[int]:
        """The data sequence number of each file of the plan."""
        numbers: list[int] = self.files["sequence_number"].to_numpy()[self.rows].tolist()
        return numbers

    def of_slices(self, starts: list[int]) -> list[tuple[DeleteFile, ...]]:
        """For slices of the plan's files, each of one partition, the delete files that apply to one of theirs or to
        several. A slice begins at each of `starts` and ends where the next begins."""
        lists = self.index.for_slices(self.rows, np.array(starts, np.int64))
        values = lists.values.to_numpy()
        self._make(np.unique(values))
        edges, rows = lists.offsets.to_pylist(), values.tolist()
        return [tuple(self._delete_files[row] for row in rows[start:stop]) for start, stop in itertools.pairwise(edges)]

    def _make(self, rows: Ints) -> None:
        """Makes one object for each delete file, shared by all slices that it applies to."""
        deletes = self.files.take(rows)
        for row, ids, values in zip(
            rows.tolist(), deletes["equality_ids"].to_pylist(), deletes.select(_COLUMNS).to_pylist(), strict=True
        ):
            self._delete_files[row] = DeleteFile(**values, equality_ids=tuple(ids or ()))


def deletes_for_plan(
    table: Table, plan: Plan, manifests: snapshot_manifests.SnapshotManifests, cache: ArrowCache
) -> DeletesForPlan | None:
    """Looks up the deletes that a rewrite of the plan has to apply; None: the table has no delete files. `manifests`
    are those of the planned snapshot. StalePlanError: the plan names files that its snapshot has not."""
    if not manifests.live(snapshot_manifests.DELETES):
        return None
    files = live_files.live_files(table, manifests, cache=cache, branch=plan.pin.branch)
    rows = pc.index_in(plan.files["file_path"], value_set=files["file_path"])
    if rows.null_count:
        missing = plan.files["file_path"].filter(pc.is_null(rows))[0]
        snapshot_id = manifests.snapshot.snapshot_id
        raise errors.StalePlanError(
            f"The plan for {plan.table} names {missing}, which is not in snapshot {snapshot_id}; plan again."
        )
    index = delete_index.build(files, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
    return DeletesForPlan(files=files, rows=rows.to_numpy().astype(np.int64), index=index)
