"""The job that replaces delete files by position deletes. Live files of a snapshot come in, with the data files and the
delete files of each group; tasks go out, each with data files of one partition. It opens no data file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.execute import engine_door
from iceberg_compaction.execute.prepare import measure_job, shared_context
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes, deletes_for_plan
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_task import Granularity, RewriteTask

    Ints = NDArray[np.int64]

_ORDER = [("spec_id", "ascending"), ("where", "ascending"), ("file_path", "ascending")]


@dataclass(frozen=True, slots=True, kw_only=True)
class PositionGroup:
    """Delete files that are replaced together, and all data files that they reach: rows of the live files."""

    id: int
    data: Ints
    replaced: Ints


def prepare(
    table: Table, live: pa.Table, groups: Sequence[PositionGroup], run_id: str, granularity: Granularity
) -> engine_door.Job:
    """The job of all groups; each partition lies in one of them at most. `live` is model.table_view.FILES of the
    planned snapshot. Position deletes that are not replaced stay, and so do equality deletes, which are not applied."""
    data = np.concatenate([group.data for group in groups])
    replaced = np.concatenate([group.replaced for group in groups])
    owners = dict(zip(data.tolist(), np.repeat([g.id for g in groups], [len(g.data) for g in groups]), strict=True))
    chosen = _ordered(live, data)
    starts = measure_job.task_starts(chosen)
    first_rows = chosen["row"].to_numpy()[starts].tolist()
    names = frozenset(live["file_path"].take(pa.array(replaced)).to_pylist())
    tasks = [
        _task(task, int(owners[row]), names)
        for row, task in zip(first_rows, _applied(table, live, chosen, replaced, starts), strict=True)
    ]
    every = {delete.file_path: delete for task in tasks for delete in (*task.deletes, *task.kept_deletes)}
    context = shared_context.position_context(table, run_id, table.schema(), list(every.values()), granularity)
    return engine_door.Job(tasks=tuple(tasks), context=context)


def task_count(live: pa.Table, data: Ints) -> int:
    """How many tasks these data files make, and so how many files of position deletes for partitions at most."""
    return len(measure_job.task_starts(_ordered(live, data)))


def _ordered(live: pa.Table, data: Ints) -> pa.Table:
    chosen = live.take(pa.array(data)).append_column("row", pa.array(data))
    return chosen.append_column("where", chosen["partition"].cast(pa.string())).sort_by(_ORDER)


def _applied(
    table: Table, live: pa.Table, chosen: pa.Table, replaced: Ints, starts: Sequence[int]
) -> list[RewriteTask]:
    """Tasks with all position deletes that apply to their files, and with the replaced equality deletes."""
    near = live["content"].to_numpy() == table_view.POSITION_DELETES
    near[replaced] = True
    near[chosen["row"].to_numpy()] = True
    rows = np.flatnonzero(near)
    files = live.take(pa.array(rows))
    index = delete_index.build(files, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
    at = np.searchsorted(rows, chosen["row"].to_numpy()).astype(np.int64)
    applied = deletes_for_plan.DeletesForPlan(files=files, rows=at, index=index)
    return measure_job.tasks_of(chosen, starts, applied.of_slices(list(starts)))


def _task(task: RewriteTask, group_id: int, replaced: frozenset[str]) -> RewriteTask:
    return task.model_copy(
        update={
            "group_id": group_id,
            "deletes": tuple(delete for delete in task.deletes if delete.file_path in replaced),
            "kept_deletes": tuple(delete for delete in task.deletes if delete.file_path not in replaced),
        }
    )
