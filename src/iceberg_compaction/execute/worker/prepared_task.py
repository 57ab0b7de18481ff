"""What is known of a task before its first row is read: footers, deletes, the layout of the output, and which way each
row group takes. Task and context come in; what can be refused is refused here, before anything is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import copied_row_groups
from iceberg_compaction.execute.worker.deletes import apply_deletes
from iceberg_compaction.execute.worker.input import identity_columns, project, read_files
from iceberg_compaction.execute.worker.output import parquet_options, sink
from iceberg_compaction.formats.parquet import splice
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.storage import file_io

if TYPE_CHECKING:
    import pyarrow as pa
    from pyiceberg.io import FileIO

    from iceberg_compaction.model import rewrite_task


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTask:
    """What is known before the first row is read."""

    io: FileIO
    schema: Schema
    spec: PartitionSpec
    columns: pa.Schema  # of the output files
    tops: tuple[int, ...]  # field id of the top-level column of each of their leaves
    options: parquet_options.WriteOptions
    layout: sink.Layout
    constants: dict[int, pa.Array]  # partition values, and defaults for columns that a file lacks
    footers: list[read_files.Footer]
    dictionaries: frozenset[int]
    deletes: apply_deletes.DeleteFilter | None  # what takes deleted rows out of the inputs
    steps: copied_row_groups.Steps

    @property
    def stored_rows(self) -> int:
        """Rows of the inputs, dead or alive."""
        return sum(footer.rows for footer in self.footers)


def prepare(task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext) -> PreparedTask:
    """Everything that can be refused is refused here, before anything is written."""
    io = file_io.open_io(context.io_properties, context.table_location)
    schema = Schema.model_validate_json(context.table_schema)
    spec = PartitionSpec.model_validate_json(context.partition_specs[task.spec_id])
    worth_copying = None if context.copy_row_groups is CopyMode.NEVER else context.min_row_group
    tuple_values = identity_columns.values(task, context, schema)
    footers = read_files.read_footers(
        io, task.file_paths, task.record_counts, _name_mapping(context), worth_copying, tuple_values.keys()
    )
    common = [footer.dictionaries for footer in footers if footer.rows]
    dictionaries = frozenset.intersection(*common) if common else frozenset()
    dictionaries |= identity_columns.repeated_texts(schema, tuple_values)
    columns = arrow_schemas.with_dictionaries(arrow_schemas.file_schema(schema), dictionaries)
    constants = project.fillers(schema, tuple_values)
    for footer in footers:
        with read_files.translated(footer.path):
            project.Projection(footer.schema, schema, columns, constants)
    layout = sink.lay_out(task, context, schema, columns)
    deletes = apply_deletes.build(
        task, context, apply_deletes.Inputs(io=io, schema=schema, partition=tuple_values, footers=footers)
    )
    stored = sum(footer.rows for footer in footers)
    settings = parquet_options.write_options(
        context.properties, schema, columns, stored - (deletes.marked if deletes else 0)
    )
    tops = tuple(leaf.top for leaf in arrow_schemas.leaves(columns))
    return PreparedTask(
        io=io,
        schema=schema,
        spec=spec,
        columns=columns,
        tops=tops,
        options=settings,
        layout=layout,
        constants=constants,
        footers=footers,
        dictionaries=dictionaries,
        deletes=deletes,
        steps=_steps(
            context,
            footers,
            deletes,
            layout,
            _Output(
                columns=columns, tops=tops, options=settings, partition=identity_columns.constants(schema, tuple_values)
            ),
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Output:
    columns: pa.Schema
    tops: tuple[int, ...]
    options: parquet_options.WriteOptions
    partition: dict[int, pa.Array]


def _steps(
    context: rewrite_task.RewriteContext,
    footers: list[read_files.Footer],
    deletes: apply_deletes.DeleteFilter | None,
    layout: sink.Layout,
    output: _Output,
) -> copied_row_groups.Steps:
    """Which way every row group takes. Where rows change their order or their partition, all are encoded."""
    if not layout.same_partition or layout.order or all(footer.raw is None for footer in footers):
        return copied_row_groups.encode_all(footers, deletes)
    wanted = copied_row_groups.Wanted(
        mode=context.copy_row_groups,
        leaves=splice.template(output.columns, output.options.parquet).leaves,
        tops=output.tops,
        partition=output.partition,
        codecs=copied_row_groups.codecs(
            output.options.parquet["compression"], asked_for="write.parquet.compression-codec" in context.properties
        ),
        least=context.min_row_group,
        most=context.sizes.write_max,
    )
    return copied_row_groups.choose(footers, deletes, wanted)


def _name_mapping(context: rewrite_task.RewriteContext) -> NameMapping | None:
    text = context.properties.get("schema.name-mapping.default")
    try:
        return None if text is None else parse_mapping_from_json(text)
    except ValueError as error:
        raise errors.UnsupportedError("The table's schema.name-mapping.default is not a name mapping.") from error
