"""The job that measures the rows of data files, deletes applied. Live files of a snapshot, or of one that does not
exist yet, come in; tasks go out, each with files of one partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.execute import engine_door
from iceberg_compaction.execute.prepare import cut_tasks, shared_context
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes, deletes_for_plan
from iceberg_compaction.model.rewrite_task import DeleteFile, RewriteTask

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.model.past_rows import PastRows

TASK_BYTES = 256 << 20  # of data files: small enough to show progress and to keep every core busy
_MOST_FILES = 1000  # of a task


def prepare(
    table: Table,
    live: pa.Table,
    measured: pa.Array,
    schema: Schema,
    run_id: str,
    past_rows: PastRows | None = None,
) -> engine_door.Job:
    """The job that reads the `measured` files by this schema. `live` (model.table_view.FILES) has them and all delete
    files that may apply to them; the group of a task is its own number. `past_rows` are left out."""
    tasks = tasks_for(table, live, measured)
    context = shared_context.measuring_context(table, run_id, schema, cut_tasks.all_deletes(tasks), past_rows)
    return engine_door.Job(tasks=tuple(tasks), context=context)


def tasks_for(table: Table, live: pa.Table, measured: pa.Array) -> list[RewriteTask]:
    """A task or more for each partition, with the `measured` files of `live` and the delete files that apply to
    them."""
    rows = np.flatnonzero(pc.is_in(live["file_path"], value_set=measured).to_numpy(zero_copy_only=False))
    chosen = live.take(pa.array(rows)).append_column("row", pa.array(rows))
    chosen = chosen.append_column("where", chosen["partition"].cast(pa.string()))
    chosen = chosen.sort_by([("spec_id", "ascending"), ("where", "ascending"), ("file_path", "ascending")])
    starts = task_starts(chosen)
    index = delete_index.build(live, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
    applied = deletes_for_plan.DeletesForPlan(files=live, rows=chosen["row"].to_numpy().astype(np.int64), index=index)
    return tasks_of(chosen, starts, applied.of_slices(starts))


def task_starts(files: pa.Table) -> list[int]:
    """Where tasks begin: at each partition, and where a task is large enough."""
    starts: list[int] = []
    size, previous = 0, None
    columns = (files[name].to_pylist() for name in ("spec_id", "where", "file_size_in_bytes"))
    for at, (spec_id, where, length) in enumerate(zip(*columns, strict=True)):
        is_full = bool(starts) and (size + length > TASK_BYTES or at - starts[-1] >= _MOST_FILES)
        if previous != (spec_id, where) or is_full:
            starts.append(at)
            size = 0
        size += length
        previous = (spec_id, where)
    return starts


def tasks_of(files: pa.Table, starts: Sequence[int], deletes: Sequence[tuple[DeleteFile, ...]]) -> list[RewriteTask]:
    """A task for each slice of the files, with the delete files that apply to it."""
    names = ("file_path", "file_size_in_bytes", "record_count", "sequence_number")
    paths, sizes, records, numbers = (files[name].to_pylist() for name in names)
    spec_ids, partitions = files["spec_id"].to_pylist(), files["where"].to_pylist()
    ends = [*starts[1:], files.num_rows][: len(starts)]
    return [
        RewriteTask(
            id=number,
            group_id=number,
            spec_id=spec_ids[start],
            partition=partitions[start],
            file_paths=tuple(paths[start:end]),
            file_sizes=tuple(sizes[start:end]),
            record_counts=tuple(records[start:end]),
            sequence_numbers=tuple(numbers[start:end]),
            deletes=applying,
        )
        for number, (start, end, applying) in enumerate(zip(starts, ends, deletes, strict=True))
    ]
