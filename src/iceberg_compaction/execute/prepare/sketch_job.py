"""The job that counts the distinct values of columns, deletes applied. Live files of a snapshot come in; tasks go out,
each with files of as many partitions as it takes, because every task gives a sketch of every column."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.execute import engine_door
from iceberg_compaction.execute.prepare import cut_tasks, measure_job, shared_context
from iceberg_compaction.model import table_view
from iceberg_compaction.model.rewrite_task import RewriteTask, TaskSection

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

TASK_BYTES = 512 << 20
_MOST_FILES = 1000  # of a task


def prepare(table: Table, live: pa.Table, schema: Schema, run_id: str) -> engine_door.Job:
    """The job that reads the columns of this schema in all data files of `live` (model.table_view.FILES)."""
    data = live["file_path"].filter(pc.equal(live["content"], table_view.DATA)).combine_chunks()
    small = measure_job.tasks_for(table, live, data)
    tasks = tuple(_joined(number, parts) for number, parts in enumerate(_together(small)))
    context = shared_context.sketching_context(table, run_id, schema, cut_tasks.all_deletes(tasks))
    return engine_door.Job(tasks=tasks, context=context)


def _together(tasks: Sequence[RewriteTask]) -> Iterator[list[RewriteTask]]:
    """Neighbours that are not too large as one task."""
    parts: list[RewriteTask] = []
    size = files = 0
    for task in tasks:
        if parts and (size + task.bytes > TASK_BYTES or files + len(task.file_paths) > _MOST_FILES):
            yield parts
            parts, size, files = [], 0, 0
        parts.append(task)
        size, files = size + task.bytes, files + len(task.file_paths)
    if parts:
        yield parts


def _joined(number: int, parts: Sequence[RewriteTask]) -> RewriteTask:
    first = parts[0]
    if len(parts) == 1:
        return first.model_copy(update={"id": number, "group_id": number})
    sections = tuple(
        TaskSection(spec_id=part.spec_id, partition=part.partition, files=len(part.file_paths), deletes=part.deletes)
        for part in parts
    )
    columns = ("file_paths", "file_sizes", "record_counts", "sequence_numbers")
    return RewriteTask(
        id=number,
        group_id=number,
        spec_id=first.spec_id,
        partition="{}",
        sections=sections,
        **{name: tuple(value for part in parts for value in getattr(part, name)) for name in columns},
    )
