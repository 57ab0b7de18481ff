"""The source of a task: its inputs and deletes come in, batches of the rows that live and the measurements of them go
out. Batches have the columns of the output files, so they can go to a sink in another process."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import prepared_task
from iceberg_compaction.execute.worker.copy import copied_row_groups
from iceberg_compaction.execute.worker.deletes import past_filter
from iceberg_compaction.execute.worker.input import gather_rows, project, read_files, stretches
from iceberg_compaction.execute.worker.proof import measure, measurements
from iceberg_compaction.model import rewrite_task
from iceberg_compaction.storage import task_progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.memory import memory_budget


def open_source(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    limits: budgets.Budgets,
    reservation: memory_budget.Reservation | None = None,
) -> TaskSource:
    """The source of a task. Raises an error for inputs in its first partition that cannot be rewritten."""
    first = prepared_task.prepare(task.parts[0], context, limits, reservation=reservation)
    return TaskSource(task, context, first, reservation)


class TaskSource:
    """The rows of a task, partition by partition, because each has partition values and deletes of its own."""

    def __init__(
        self,
        task: rewrite_task.RewriteTask,
        context: rewrite_task.RewriteContext,
        first: prepared_task.PreparedTask,
        reservation: memory_budget.Reservation | None = None,
    ) -> None:
        self._reservation = reservation
        self._parts = task.parts
        self._context = context
        # All rows are expected from the start, so that a part that is never read shows in the proof.
        self._done = measurements.SourceMeasurements(expected_rows=sum(task.record_counts))
        self._effort = rewrite_task.Effort()
        self.prepared = first  # whose columns all batches have
        self.part = PartSource(first, context)  # that is being read

    def batches(self) -> Iterator[pa.RecordBatch]:
        """All rows that live, in the columns of the output files."""
        yield from self.part.all_batches()
        for task in self._parts[1:]:
            self._done += self.part.measurements
            self._effort += self.part.effort
            prepared = prepared_task.prepare(
                task, self._context, self.prepared.budgets, self.prepared.cores, self._reservation
            )
            self.part = PartSource(prepared, self._context)
            for batch in self.part.all_batches():
                yield project.fit(batch, self.prepared.output.columns)

    @property
    def measurements(self) -> measurements.SourceMeasurements:
        """The rows that were read so far."""
        return self._done + self.part.measurements

    @property
    def effort(self) -> rewrite_task.Effort:
        """The row groups that were read so far, without the time that it took."""
        return self._effort + self.part.effort

    @property
    def expected_rows(self) -> int:
        """An estimate of the rows that live in the part that is being read."""
        return self.part.expected_rows


class PartSource:
    """The rows of a task's inputs in one partition."""

    def __init__(self, prepared: prepared_task.PreparedTask, context: rewrite_task.RewriteContext) -> None:
        self.prepared = prepared
        self._meter = measure.Meter(prepared.output.schema, context.verify, prepared.constants)
        self._past = None if context.past_rows is None else past_filter.PastFilter(context.past_rows)
        self._alive = 0
        self._dropped = 0  # before the rows that were measured last
        self._progress = task_progress.current()
        self.expected_rows = self._estimate()  # that live, by the share of deleted rows among those that were read

    def all_batches(self) -> Iterator[pa.RecordBatch]:
        """Rows of all inputs."""
        for step in self.prepared.steps.order:
            assert isinstance(step, copied_row_groups.Encode)
            yield from self.batches(step.parts)
        self.check()

    def batches(self, files: tuple[read_files.FilePart, ...]) -> Iterator[pa.RecordBatch]:
        """Rows of the given parts of inputs. The next ones are read, and others measured, ahead if the task has cores
        for it. The estimate does not depend on that: it is the one after the batch that was yielded last."""
        cores, most = self.prepared.cores, self.prepared.budgets.ahead_bytes // 2
        gathered = cores.ahead(self._gathered(files), lambda item: int(item[0].batch.nbytes), most)
        with contextlib.closing(
            cores.ahead(self._projected(gathered), lambda item: int(item[0].nbytes), most)
        ) as ahead:
            for batch, self.expected_rows in ahead:
                yield batch

    def _projected(
        self, gathered: Iterator[tuple[gather_rows.GatheredRows, int]]
    ) -> Iterator[tuple[pa.RecordBatch, int]]:
        for batch in project_rows(self._measured(gathered), self.prepared):
            self._alive += batch.num_rows
            yield batch, self._estimate()

    def _measured(self, gathered: Iterator[tuple[gather_rows.GatheredRows, int]]) -> Iterator[gather_rows.GatheredRows]:
        """The rows that live as their files have them, every one of them measured."""
        for rows, self._dropped in gathered:
            self._meter.add(rows.batch)
            yield rows
        self._dropped = self._dropped_so_far()

    def _gathered(self, files: tuple[read_files.FilePart, ...]) -> Iterator[tuple[gather_rows.GatheredRows, int]]:
        """The rows that live, and how many before them turned out not to."""
        prepared = self.prepared
        for rows in gather_rows.gather(self._alive_rows(files), prepared.budgets, prepared.target):
            yield rows, self._dropped_so_far()

    def _alive_rows(self, files: tuple[read_files.FilePart, ...]) -> Iterator[gather_rows.GatheredRows]:
        prepared = self.prepared
        for stretch in prepared.reader.rows_of(files, prepared.dictionaries, prepared.read_columns):
            for footer, _, rows in stretch.spans:
                self._progress.read(footer.size * rows // max(1, footer.rows))
            if prepared.deletes is None and self._past is None:
                parts = tuple((span.footer, batch) for span, batch in stretch.by_file())
                yield gather_rows.GatheredRows(stretch.batch, parts)
                continue
            for span, batch in stretch.by_file():
                if (alive := self._alive_of(span, batch)).num_rows:
                    yield gather_rows.GatheredRows(alive, ((span.footer, alive),))

    def _alive_of(self, span: stretches.RowSpan, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows of a file that live."""
        deletes = self.prepared.deletes
        with read_files.translated(span.footer.path):
            alive = deletes.apply(span.footer, span.first, batch) if deletes else batch
            alive = self._past.apply(alive) if self._past else alive
        if dropped := batch.num_rows - alive.num_rows:
            self._progress.wrote_rows(dropped)
        return alive

    def count_copied(self, rows: int, deleted: int = 0) -> None:
        """So many rows went into the outputs as bytes, and so many deleted ones beside them did not."""
        if deleted and self.prepared.deletes is not None:
            self.prepared.deletes.pass_over(deleted)
            self._progress.wrote_rows(deleted)
        self._alive += rows
        self.expected_rows = self._estimate()

    def _estimate(self) -> int:
        deletes = self.prepared.deletes
        left = self.prepared.stored_rows - (deletes.marked if deletes else 0)
        return left * self._alive // (self._alive + self._dropped) if self._dropped else left

    def _dropped_so_far(self) -> int:
        """Rows that turned out not to live only when they were read."""
        deletes, past = self.prepared.deletes, self._past
        return (deletes.unforeseen if deletes else 0) + (past.dropped if past else 0)

    def check(self) -> None:
        """Raises ProofError unless every deleted position has been met; after all rows."""
        if self.prepared.deletes:
            self.prepared.deletes.check()

    @property
    def measurements(self) -> measurements.SourceMeasurements:
        """The rows that were read so far."""
        deletes = self.prepared.deletes
        dropped = (deletes.dropped if deletes else 0) + (self._past.dropped if self._past else 0)
        return measurements.SourceMeasurements(deleted_rows=dropped, rows=self._meter.side)

    @property
    def effort(self) -> rewrite_task.Effort:
        """All row groups, as encoded ones."""
        steps = [step for step in self.prepared.steps.order if isinstance(step, copied_row_groups.Encode)]
        return rewrite_task.Effort(
            encoded_groups=sum(step.groups for step in steps),
            encoded_bytes=sum(step.bytes for step in steps),
            kept_from_copying=self.prepared.steps.kept,
        )


def project_rows(
    raw: Iterator[gather_rows.GatheredRows], prepared: prepared_task.PreparedTask
) -> Iterator[pa.RecordBatch]:
    """Batches in the columns of the output files, out of batches as their files have them. From here on, nothing but
    the sink's meter sees a row that gets lost."""
    projection: project.Projection | None = None
    schema = None
    for rows in raw:
        with read_files.translated(rows.parts[0][0].path):
            if projection is None or not rows.batch.schema.equals(schema, check_metadata=True):
                projection = project.Projection(
                    rows.batch.schema, prepared.output.schema, prepared.output.columns, prepared.constants
                )
                schema = rows.batch.schema
        yield _project(projection, rows)


def _project(projection: project.Projection, rows: gather_rows.GatheredRows) -> pa.RecordBatch:
    """The batch in the columns of the output files. If that fails, the error names the file that is to blame."""
    try:
        with read_files.translated(rows.parts[0][0].path):
            return projection.apply(rows.batch)
    except errors.CompactionError:
        for footer, batch in rows.parts:
            with read_files.translated(footer.path):
                projection.apply(batch)
        raise
