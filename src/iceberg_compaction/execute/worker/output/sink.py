"""Where a task's rows end up, decided before the first is read: which partition spec and sort order its files have, and
which way of writing that needs. Task and context come in, something to write batches to goes out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.table.sorting import SortOrder

from iceberg_compaction.execute.worker.arrange import fanout, partition_rows, sort_order_keys
from iceberg_compaction.execute.worker.output import rolling_writer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO
    from pyiceberg.schema import Schema

    from iceberg_compaction.execute.worker.output import output_file
    from iceberg_compaction.execute.worker.proof import measure
    from iceberg_compaction.model import rewrite_task

_UNSORTED = 0  # Iceberg's id of the empty sort order: rows keep the order in which they were read (R42)


class Sink(Protocol):
    """Takes rows and makes files of them."""

    def write(self, batch: pa.RecordBatch) -> None: ...

    def expect(self, rows: int) -> None:
        """How many rows will come in all, as far as is known by now."""

    def close(self) -> list[output_file.WrittenFile]:
        """All files, finished."""

    def abort(self) -> tuple[str, ...]:
        """Give up: delete everything. Returns what could not be deleted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """How the output is laid out."""

    spec: PartitionSpec
    same_partition: bool  # whether all rows stay in the partition of the inputs
    order: tuple[sort_order_keys.Field, ...]
    order_id: int


def lay_out(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, schema: Schema, columns: pa.Schema
) -> Layout:
    """The layout that the context asks for; refuses transforms that cannot be computed."""
    wanted = task.spec_id if context.output_spec_id is None else context.output_spec_id
    spec = PartitionSpec.model_validate_json(context.partition_specs[wanted])
    same = wanted == task.spec_id and not task.parted
    if not same:
        partition_rows.PartitionTuples(spec, schema, columns)
    asked = None if context.sort_order is None else SortOrder.model_validate_json(context.sort_order)
    if asked is None or asked.is_unsorted:
        return Layout(spec=spec, same_partition=same, order=(), order_id=_UNSORTED)
    return Layout(
        spec=spec, same_partition=same, order=sort_order_keys.bind(asked, schema, columns), order_id=asked.order_id
    )


def open_sink(
    io: FileIO, layout: Layout, request: rolling_writer.WriteRequest, schema: Schema, meter: measure.Meter
) -> Sink:
    """The simplest way of writing that the layout allows."""
    if layout.same_partition and not layout.order:
        return rolling_writer.RollingWriter(io, request, meter)
    if said := sort_order_keys.sorting_columns(layout.order, request.columns):
        request = replace(
            request, options=replace(request.options, parquet={**request.options.parquet, "sorting_columns": said})
        )
    found = None if layout.same_partition else partition_rows.PartitionTuples(layout.spec, schema, request.columns)
    outputs = fanout.Outputs(io, request, meter, found)
    if layout.order or found is None:
        return fanout.SortedSink(outputs, layout.order, request.columns, found)
    return fanout.FanOut(outputs, request.columns, found)


def row_checksums(writer: Sink) -> dict[str, int]:
    """Of the rows of each finished file that were parted on their way, by its path."""
    return writer.outputs.row_checksums() if isinstance(writer, fanout.FanOut | fanout.SortedSink) else {}
