"""A task that is ready to be read: footers, deletes, the form of the output, and for each row group whether it is
copied or encoded. Task and context come in; whatever can be refused is refused here, before a file is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, garbage
from iceberg_compaction.execute.worker.copy import copied_row_groups
from iceberg_compaction.execute.worker.deletes import apply_deletes
from iceberg_compaction.execute.worker.input import identity_columns, project, read_files
from iceberg_compaction.execute.worker.memory import fit_budgets, memory_budget, peak_forecast
from iceberg_compaction.execute.worker.output import output_plan
from iceberg_compaction.formats.parquet import splice
from iceberg_compaction.model.policies import CopyMode
from iceberg_compaction.storage import file_io, task_cores

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import pyarrow as pa
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.model import rewrite_task


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedTask:
    """A task before its first row is read. All its inputs lie in one partition."""

    reader: read_files.DataFileReader
    constants: dict[int, pa.Array]  # partition values, and defaults for columns that a file lacks
    footers: list[read_files.Footer]
    stored_rows: int  # of the inputs, dead or alive
    read_columns: frozenset[int]  # field ids of the top-level columns to read: those that the table has dropped are not
    deletes: apply_deletes.DeleteFilter | None  # takes deleted rows out of the inputs
    output: output_plan.OutputPlan
    wanted: copied_row_groups.Wanted | None  # None: nothing can be copied
    steps: copied_row_groups.Steps
    target: int  # bytes of a file
    cores: task_cores.TaskCores
    forecast: peak_forecast.PeakForecast

    @property
    def io(self) -> FileIO:
        return self.reader.io

    @property
    def budgets(self) -> budgets.Budgets:
        return self.reader.budgets

    @property
    def dictionaries(self) -> frozenset[int]:
        """Field ids of the texts that stay dictionaries in memory."""
        return self.output.inputs.dictionaries


def prepare(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    limits: budgets.Budgets,
    cores: task_cores.TaskCores | None = None,
    reservation: memory_budget.Reservation | None = None,
) -> PreparedTask:
    """Reads footers and deletes. Raises an error for all that cannot be rewritten. `cores`: those of the task, if
    it has begun already. Memory is reserved before deletes are read, and for the rows before this returns."""
    reservation = reservation or memory_budget.MemoryBudget().reservation()
    reader = read_files.DataFileReader(
        io=file_io.open_io(context.io_properties, context.table_location), budgets=limits
    )
    schema = Schema.model_validate_json(context.table_schema)
    partition_values = identity_columns.values(task, context, schema)
    footers = read_footers(reader, task, context, partition_values)
    shape = _shape(task, context, footers)
    limits = fit_budgets.fit(shape, limits, reservation.most)
    reservation.raise_to(peak_forecast.forecast(shape, limits).before_rows)
    cores = cores or task_cores.TaskCores(limits.cores)
    reader = replace(reader, budgets=limits, cores=cores)
    dictionaries = _dictionaries(footers) | identity_columns.repeated_texts(schema, partition_values)
    constants = project.fillers(schema, partition_values)
    required = _required(footers) if _may_copy(task, context) else frozenset[int]()
    columns = output_plan.file_columns(schema, dictionaries, required)
    for footer in {id(footer.schema): footer for footer in footers}.values():
        with read_files.translated(footer.path):
            project.Projection(footer.schema, schema, columns, constants)
    deletes = apply_deletes.build(
        task,
        context,
        apply_deletes.DeleteInputs(reader=reader, schema=schema, partition=partition_values, footers=footers),
    )
    summary = _summary(footers, deletes, dictionaries).model_copy(update={"required": required})
    output = output_plan.plan_output(task, context, summary)
    wanted = {field.field_id for field in schema.fields} | (deletes.fields if deletes else set())
    wanted_form = _wanted(context, output, partition_values, frozenset(constants))
    steps = _steps(footers, deletes, wanted_form)
    forecast = peak_forecast.forecast(_with_steps(shape, steps, output), limits)
    reservation.raise_to(forecast.total)
    return PreparedTask(
        reader=reader,
        constants=constants,
        footers=footers,
        stored_rows=sum(footer.rows for footer in footers),
        read_columns=read_files.columns_with(footers, wanted),
        deletes=deletes,
        output=output,
        wanted=wanted_form,
        steps=steps,
        target=context.sizes.target,
        cores=cores,
        forecast=forecast,
    )


def read_footers(
    reader: read_files.DataFileReader,
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    partition_values: Mapping[int, Any],
) -> list[read_files.Footer]:
    """The footers of a task's inputs."""
    inputs = [
        read_files.InputFacts(path=path, rows=rows, size=size)
        for path, rows, size in zip(task.file_paths, task.record_counts, task.file_sizes, strict=True)
    ]
    with garbage.paused():
        return reader.footers(
            inputs,
            _name_mapping(context),
            partition_values.keys(),
            worth_copying=None if context.copy_row_groups is CopyMode.NEVER else context.min_row_group,
        )


def _steps(
    footers: list[read_files.Footer],
    deletes: apply_deletes.DeleteFilter | None,
    wanted: copied_row_groups.Wanted | None,
) -> copied_row_groups.Steps:
    if wanted is None:
        return copied_row_groups.encode_all(footers, deletes)
    return copied_row_groups.choose(footers, deletes, wanted)


def _shape(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, footers: list[read_files.Footer]
) -> peak_forecast.TaskShape:
    """The task as its memory depends on it, all rows decoded."""
    return peak_forecast.TaskShape(
        footers=footers,
        parts=[read_files.FilePart(footer) for footer in footers],
        deletes=task.deletes,
        is_sorted=context.sort_order is not None,
        is_parted=not context.sketched and (task.parted or context.output_spec_id not in (None, task.spec_id)),
    )


def _with_steps(
    shape: peak_forecast.TaskShape, steps: copied_row_groups.Steps, output: output_plan.OutputPlan
) -> peak_forecast.TaskShape:
    """The task as its memory depends on it, with the rows that move as bytes."""
    return replace(
        shape,
        parts=steps.decoded,
        is_copied=steps.copies,
        joined_bytes=steps.joined_bytes(output.options.row_group_bytes),
        leaves_out=steps.leaves_out,
    )


def _dictionaries(footers: list[read_files.Footer]) -> frozenset[int]:
    """Texts that all inputs store as dictionaries."""
    stored = [footer.dictionaries for footer in footers if footer.rows]
    return frozenset.intersection(*stored) if stored else frozenset()


def _may_copy(task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext) -> bool:
    """Whether pages of the inputs may move as bytes. Else outputs have the table's own columns: rows of several
    partitions come together, and files of one of them say nothing about the others."""
    moves = task.parted or context.output_spec_id not in (None, task.spec_id)
    return not moves and context.sort_order is None and context.copy_row_groups is not CopyMode.NEVER


def _required(footers: list[read_files.Footer]) -> frozenset[int]:
    """Fields that all inputs have and declare to hold no nulls."""
    schemas = {id(footer.schema): footer.schema for footer in footers if footer.rows}
    declared = [arrow_schemas.required_ids(schema) for schema in schemas.values()]
    return frozenset.intersection(*declared) if declared else frozenset()


def _summary(
    footers: list[read_files.Footer], deletes: apply_deletes.DeleteFilter | None, dictionaries: frozenset[int]
) -> output_plan.InputSummary:
    stored_rows = sum(footer.rows for footer in footers)
    return output_plan.InputSummary(
        rows=stored_rows - (deletes.marked if deletes else 0),
        bytes_per_row=sum(footer.data_bytes for footer in footers) / max(1, stored_rows),
        dictionaries=dictionaries,
        row_groups=tuple(
            row_group for footer in footers for row_group in zip(footer.group_rows, footer.group_bytes, strict=True)
        ),
    )


def _wanted(
    context: rewrite_task.RewriteContext,
    output: output_plan.OutputPlan,
    partition_values: Mapping[int, Any],
    filled: frozenset[int],
) -> copied_row_groups.Wanted | None:
    """The form that row groups must have in order to be copied or joined; None: all are encoded, as where rows change
    their order or their partition."""
    if not output.keeps_rows or context.copy_row_groups is CopyMode.NEVER:
        return None
    leaves = splice.template(output.columns, output.options.parquet).leaves
    filters = output.options.parquet.get("bloom_filter_options", {})
    return copied_row_groups.Wanted(
        mode=context.copy_row_groups,
        leaves=leaves,
        tops=output.tops,
        partition=identity_columns.constants(output.schema, partition_values),
        filled=filled,
        filtered=frozenset(
            top for top, leaf in zip(output.tops, leaves, strict=True) if ".".join(leaf.path) in filters
        ),
        codecs=copied_row_groups.codecs(
            output.options.parquet["compression"], asked_for="write.parquet.compression-codec" in context.properties
        ),
        least=context.min_row_group,
        most=context.sizes.write_max,
    )


def _name_mapping(context: rewrite_task.RewriteContext) -> NameMapping | None:
    text = context.properties.get("schema.name-mapping.default")
    try:
        return None if text is None else parse_mapping_from_json(text)
    except ValueError as error:
        raise errors.UnsupportedError("The table's schema.name-mapping.default is not a name mapping.") from error
