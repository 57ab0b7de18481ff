"""The sink of a task: arranged batches come in, staged files and the measurements of their rows go out. It knows the
inputs by their summary only, so it can run in another process than the source."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.arrange import sort_order_keys
from iceberg_compaction.execute.worker.output import locations, output_plan, rolling_writer, row_profile, stage_file
from iceberg_compaction.execute.worker.proof import measure, measurements, verify_files
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model import policies, rewrite_task
from iceberg_compaction.storage import task_cores

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.arrange import arrange_rows
    from iceberg_compaction.execute.worker.output import output_file

_MASK = 2**64 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkRequest:
    """An attempt at a task, as its sink sees it. `mixed`: row groups come as bytes too."""

    task: rewrite_task.RewriteTask
    context: rewrite_task.RewriteContext
    attempt: str
    plan: output_plan.OutputPlan
    budgets: budgets.Budgets
    cores: task_cores.TaskCores = field(default_factory=task_cores.TaskCores)
    mixed: bool = False


def open_sink(io: FileIO, request: SinkRequest) -> Sink:
    """A sink that has written nothing yet."""
    return Sink(io, request, write_request(request))


def write_request(request: SinkRequest) -> rolling_writer.WriteRequest:
    """The request for the writer of a task whose rows keep their partition; others are derived from it."""
    task, context, plan = request.task, request.context, request.plan
    partition_path = ""  # partitions that rows move to have paths of their own
    if plan.same_partition:
        partition_path = partition_tuples.path(task.partition, plan.spec, plan.schema)
    options = plan.options
    if sorting := sort_order_keys.sorting_columns(plan.order, plan.columns):
        options = replace(options, parquet={**options.parquet, "sorting_columns": sorting})
    return rolling_writer.WriteRequest(
        columns=plan.columns,
        options=options,
        locations=locations.output_locations(task, context, request.attempt, partition_path),
        sizes=context.sizes,
        partition=task.partition,
        rows=plan.inputs.rows,
        bytes_per_row=plan.inputs.bytes_per_row,
        least_group=context.min_row_group if request.mixed else 0,
        # Footers say which bytes come when only where rows keep their order and their partition.
        profile=row_profile.Profile(plan.inputs.row_groups if plan.keeps_rows else ()),
        buffer_bytes=request.budgets.buffer_bytes,
        cores=request.cores,
    )


class Sink:
    """Writes the files of one attempt: one writer per open partition."""

    def __init__(self, io: FileIO, request: SinkRequest, write: rolling_writer.WriteRequest) -> None:
        self._io = io
        self._request = request
        self._write = write
        self._meter = measure.Meter(request.plan.schema, request.context.verify)
        self._writers: list[rolling_writer.RollingWriter] = []  # of this attempt, the closed ones too
        self._shares: list[_Share] = []
        self._open: dict[int, rolling_writer.RollingWriter] = {}
        self._files: list[output_file.WrittenFile] = []

    def write(self, rows: arrange_rows.ArrangedRows) -> None:
        """Takes rows. Where all rows of a partition follow one another, the partitions before it are closed."""
        writer = self._open.get(rows.partition_index)
        if writer is None:
            if rows.partition_rows is not None:
                self._close_open()
            writer = self._open_writer(rows)
        writer.write(rows.batch)
        if len(self._open) > 1:
            self._free()

    def expect(self, rows: int) -> None:
        """Says how many rows will come in all, by the latest estimate. Only a single partition can make use of it."""
        if self._request.plan.keeps_rows:
            self.only_writer().expect(rows)

    def only_writer(self) -> rolling_writer.RollingWriter:
        """The writer of a task whose rows keep their order and their partition."""
        assert self._request.plan.keeps_rows
        if 0 not in self._open:
            self._open[0] = self._new_writer(self._write)
        return self._open[0]

    def _new_writer(self, request: rolling_writer.WriteRequest) -> rolling_writer.RollingWriter:
        share = _Share(self._meter)
        writer = rolling_writer.RollingWriter(self._io, request, share)
        share.finished = writer.finished
        self._shares.append(share)
        self._writers.append(writer)
        return writer

    def close(self) -> list[output_file.WrittenFile]:
        """Finishes all files."""
        self._close_open()
        return self._files

    def take_measurements(self) -> measurements.SinkMeasurements:
        """The rows as they were encoded, and as storage holds them; after `close`."""
        stored = None
        if self._request.context.verify is policies.ProofLevel.DEEP:
            stored = verify_files.read_back(self._io, self._files, self._request.plan.schema, self._request.budgets)
        return measurements.SinkMeasurements(
            files=len(self._files),
            rows=self._meter.side,
            footers=verify_files.read_footers(self._io, self._files),
            stored=stored,
        )

    def stage(self) -> tuple[rewrite_task.StagedFile, ...]:
        """The finished files with all that their manifest entries need; after `close`."""
        checksums = self._row_checksums()
        return tuple(
            stage_file.stage(self._request.task, self._request.context, self._request.plan, file, checksums)
            for file in self._files
        )

    def abort(self) -> tuple[str, ...]:
        """Removes everything that was written. Returns the paths of files that could not be removed."""
        return tuple(path for writer in self._writers for path in writer.abort())

    @property
    def buffered_bytes(self) -> int:
        """Arrow bytes that wait to be encoded."""
        return sum(writer.buffered_bytes for writer in self._open.values())

    def _open_writer(self, rows: arrange_rows.ArrangedRows) -> rolling_writer.RollingWriter:
        if self._request.plan.keeps_rows:
            return self.only_writer()
        request = replace(self._write, rows=rows.partition_rows, columns=rows.batch.schema)
        if rows.partition is not None:
            path = partition_tuples.path(rows.partition, self._request.plan.spec, self._request.plan.schema)
            request = replace(
                request,
                partition=rows.partition,
                locations=request.locations.of_partition(rows.partition_index, path),
            )
        self._open[rows.partition_index] = self._new_writer(request)
        return self._open[rows.partition_index]

    def _close_open(self) -> None:
        while self._open:
            index = min(self._open)
            self._files += self._open[index].close()
            del self._open[index]

    def _free(self) -> None:
        """Encodes the rows of the largest writers until all together hold no more than the budget."""
        while self.buffered_bytes > self._request.budgets.open_partition_bytes:
            max(self._open.values(), key=lambda writer: writer.buffered_bytes).flush()

    def _row_checksums(self) -> dict[str, int]:
        """Checksums of the rows of each file, by its path; files with copied row groups have none."""
        return {
            file.path: share.sums[index] & _MASK
            for share in self._shares
            for index, file in enumerate(share.finished)
            if index in share.sums and not file.copied
        }


class _Share:
    """The meter as one writer sees it: it also sums up the rows of each of the writer's files."""

    def __init__(self, meter: measure.Meter) -> None:
        self._meter = meter
        self.finished: list[output_file.WrittenFile] = []  # the writer's own list; the next rows go to the file after
        self.sums: dict[int, int] = {}  # by the index of the file

    def add_all(self, batches: Sequence[pa.RecordBatch], cores: task_cores.TaskCores) -> None:
        before = self._meter.row_sum
        self._meter.add_all(batches, cores)
        if before is not None and (after := self._meter.row_sum) is not None:
            index = len(self.finished)
            self.sums[index] = self.sums.get(index, 0) + after - before
