"""The rows of a task's data files that its delete files take. Of a data file no more is read than the columns that
equality deletes compare. Task and context come in; for ranges of rows of each file, a mask of dead ones goes
out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

import numpy as np
from pyiceberg.schema import Schema

from iceberg_compaction.execute.worker import prepared_task
from iceberg_compaction.execute.worker.deletes import apply_deletes, load_deletes, positions
from iceberg_compaction.execute.worker.input import identity_columns, read_files
from iceberg_compaction.execute.worker.memory import fit_budgets, peak_forecast
from iceberg_compaction.model import table_view
from iceberg_compaction.storage import file_io, task_cores, task_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.memory import memory_budget
    from iceberg_compaction.model import rewrite_task

    Mask = NDArray[np.bool_]

_CHUNK = 1 << 22  # rows looked at at a time


class _DeadMask(Protocol):
    def __call__(self, number: int, first: int, rows: int, /) -> Mask: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TakenRows:
    """The dead rows of a task's files, and those of them that delete files which stay name already."""

    io: FileIO
    budgets: budgets.Budgets
    rows: tuple[int, ...]  # of each file
    dead: _DeadMask
    kept: _DeadMask

    def of_file(self, number: int) -> Iterator[NDArray[np.int64]]:
        """The positions to write for a file, ascending, in parts."""
        for first in range(0, self.rows[number], _CHUNK):
            count = min(_CHUNK, self.rows[number] - first)
            positions_here = np.flatnonzero(self.dead(number, first, count) & ~self.kept(number, first, count))
            if len(positions_here):
                yield positions_here.astype(np.int64) + first

    def count(self, number: int) -> int:
        return sum(map(len, self.of_file(number)))


def find(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    limits: budgets.Budgets,
    reservation: memory_budget.Reservation,
) -> TakenRows:
    """All rows of the task's files that its deletes take. Data files are opened only if it has equality deletes."""
    io = file_io.open_io(context.io_properties, context.table_location)
    by_key = any(file.content == table_view.EQUALITY_DELETES for file in task.deletes)
    reader = load_deletes.DeleteReader(io=io, contents=context.delete_contents, budgets=limits)
    if by_key:
        limits, dead = _by_keys(task, context, limits, reservation)
    else:
        reservation.raise_to(peak_forecast.forecast(_shape(task, []), limits).before_rows)
        marked = positions.DeadRows(task.record_counts)
        positions.mark(marked, task, task.deletes, reader)
        dead = marked.mask
    kept = positions.DeadRows(task.record_counts)
    positions.mark(kept, task, task.kept_deletes, reader)
    return TakenRows(io=io, budgets=limits, rows=task.record_counts, dead=dead, kept=kept.mask)


def _by_keys(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    limits: budgets.Budgets,
    reservation: memory_budget.Reservation,
) -> tuple[budgets.Budgets, _DeadMask]:
    io = file_io.open_io(context.io_properties, context.table_location)
    reader = read_files.DataFileReader(io=io, budgets=limits)
    schema = Schema.model_validate_json(context.table_schema)
    partition = identity_columns.values(task, context, schema)
    footers = prepared_task.read_footers(reader, task, context, partition)
    shape = _shape(task, footers)
    limits = fit_budgets.fit(shape, limits, reservation.most)
    reservation.raise_to(peak_forecast.forecast(shape, limits).total)
    reader = replace(reader, budgets=limits, cores=task_cores.TaskCores(limits.cores))
    inputs = apply_deletes.DeleteInputs(reader=reader, schema=schema, partition=partition, footers=footers)
    deletes = apply_deletes.build(task, context, inputs)
    assert deletes is not None  # it has equality deletes
    progress = task_progress.current()
    for number, footer in enumerate(footers):
        with read_files.translated(footer.path):
            deletes.look_up(number, {group: {} for group, rows in enumerate(footer.group_rows) if rows})
        progress.read(footer.size)
    return limits, deletes.dead_mask


def _shape(task: rewrite_task.RewriteTask, footers: list[read_files.Footer]) -> peak_forecast.TaskShape:
    """The task as its memory depends on it: at most as if all columns were read."""
    parts = [read_files.FilePart(footer) for footer in footers]
    return peak_forecast.TaskShape(footers=footers, parts=parts, deletes=task.deletes)
