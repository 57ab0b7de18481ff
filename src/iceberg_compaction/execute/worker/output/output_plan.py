"""The form of a task's output files, decided before the first row is read: columns, partition spec, sort order and
writer options. Task, context and a summary of the inputs come in, so source and sink decide the same anywhere."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.arrange import arrange_rows, partition_rows, sort_order_keys
from iceberg_compaction.execute.worker.output import parquet_options
from iceberg_compaction.model import value

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.model import rewrite_task

_UNSORTED = 0  # Iceberg's id of the empty sort order: rows keep the order in which they were read (R42)


class InputSummary(value.Value):
    """The inputs of a task as its sink needs to know them: a plain value that travels to another process."""

    rows: int  # at most, because equality deletes may still take some
    bytes_per_row: float  # on storage
    dictionaries: frozenset[int] = frozenset()  # field ids of top-level texts that stay dictionaries in memory
    row_groups: tuple[tuple[int, int], ...] = ()  # rows and bytes of each, in order
    required: frozenset[int] = frozenset()  # field ids that all files declare to hold no nulls, whatever the table says


@dataclass(frozen=True, slots=True, kw_only=True)
class OutputPlan:
    """The form of the output files."""

    inputs: InputSummary
    schema: Schema
    columns: pa.Schema  # of the files
    tops: tuple[int, ...]  # field id of the top-level column of each of their leaves
    options: parquet_options.WriteOptions
    spec: PartitionSpec
    same_partition: bool  # whether all rows stay in the partition of the inputs
    order: tuple[sort_order_keys.SortField, ...]
    order_id: int

    @property
    def keeps_rows(self) -> bool:
        """Whether all rows keep their order and their partition."""
        return self.same_partition and not self.order

    def arrangement(self, limits: budgets.Budgets) -> arrange_rows.RowArrangement:
        """The arrangement that rows need before they come to the sink."""
        return arrange_rows.RowArrangement(
            schema=self.schema,
            columns=self.columns,
            spec=None if self.same_partition else self.spec,
            order=self.order,
            budgets=limits,
        )


def plan_output(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, inputs: InputSummary
) -> OutputPlan:
    """The form that the context asks for. Raises UnsupportedError for transforms that cannot be computed."""
    schema = Schema.model_validate_json(context.table_schema)
    columns = file_columns(schema, inputs.dictionaries, inputs.required)
    first = task.parts[0]
    spec_id = first.spec_id if context.output_spec_id is None else context.output_spec_id
    spec = PartitionSpec.model_validate_json(context.partition_specs[spec_id])
    # Where values are only counted, no row goes anywhere.
    same_partition = context.sketched or (spec_id == first.spec_id and not first.parted)
    if not same_partition:
        partition_rows.PartitionTuples(spec, schema, columns)
    order = None if context.sort_order is None else SortOrder.model_validate_json(context.sort_order)
    return OutputPlan(
        inputs=inputs,
        schema=schema,
        columns=columns,
        tops=tuple(leaf.top for leaf in arrow_schemas.leaves(columns)),
        options=parquet_options.write_options(context.properties, schema, columns, inputs.rows),
        spec=spec,
        same_partition=same_partition,
        order=() if order is None else sort_order_keys.bind(order, schema, columns),
        order_id=_UNSORTED if order is None or order.is_unsorted else order.order_id,
    )


def file_columns(schema: Schema, dictionaries: frozenset[int], required: frozenset[int]) -> pa.Schema:
    """The Arrow schema of the output files, with some texts as dictionaries in memory. Spark declares optional columns
    as required where a query cannot yield nulls; outputs of such files do the same, so that their pages fit."""
    columns = arrow_schemas.with_required(arrow_schemas.file_schema(schema), required)
    return arrow_schemas.with_dictionaries(columns, dictionaries)
