"""One task from its inputs to staged files with a proof: look at all footers and deletes, stream the rows that live
from source to writer with a meter at each end, re-read what storage holds. On any failure the attempt's own files are
removed."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.name_mapping import NameMapping, parse_mapping_from_json
from pyiceberg.transforms import IdentityTransform

from iceberg_compaction import errors
from iceberg_compaction.catalog import io as catalog_io
from iceberg_compaction.execute.worker import (
    bounds,
    locations,
    measure,
    metrics,
    options,
    project,
    read,
    schemas,
    sink,
    verify,
    write,
)
from iceberg_compaction.execute.worker.deletes import apply
from iceberg_compaction.metadata import partitions
from iceberg_compaction.model import policy, proof
from iceberg_compaction.model import task as task_model

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa
    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What is known before the first row is read."""

    io: FileIO
    schema: Schema
    spec: PartitionSpec
    columns: pa.Schema  # of the output files
    layout: sink.Layout
    constants: dict[int, pa.Array]  # partition values and defaults, for columns that a file lacks
    footers: list[read.Footer]
    dictionaries: frozenset[int]
    deletes: apply.DeleteFilter | None  # what takes deleted rows out of the inputs


def rewrite(task: task_model.RewriteTask, context: task_model.RewriteContext, attempt: str) -> task_model.TaskResult:
    """Write the task's rows anew. Nothing stays behind if this raises."""
    started = time.monotonic()
    setting = prepare(task, context)
    source = measure.Meter(setting.schema, context.verify, setting.constants)
    written = measure.Meter(setting.schema, context.verify)
    request = write_request(task, context, attempt, setting)
    writer = sink.open_sink(setting.io, setting.layout, request, setting.schema, written)
    try:
        files = transfer(setting, source, writer)
        shown = _prove(task, context.verify, setting, files, (source.side, written.side))
        staged = tuple(_staged(task, context, setting, file) for file in files)
    except BaseException as error:
        left = writer.abort()
        if isinstance(error, Exception) and (left or not isinstance(error, errors.CompactionError)):
            raise _as_execute_error(task, error, left) from error
        raise
    return task_model.TaskResult(
        task_id=task.id,
        group_id=task.group_id,
        staged=staged,
        proof=shown,
        bytes_read=task.bytes,
        bytes_written=sum(file.size for file in files),
        seconds=time.monotonic() - started,
    )


def prepare(task: task_model.RewriteTask, context: task_model.RewriteContext) -> Setting:
    """Everything that can be refused is refused here, before anything is written."""
    io = catalog_io.open_io(context.io_properties, context.table_location)
    schema = Schema.model_validate_json(context.table_schema)
    spec = PartitionSpec.model_validate_json(context.partition_specs[task.spec_id])
    footers = read.read_footers(io, task.file_paths, task.record_counts, _name_mapping(context))
    common = [footer.dictionaries for footer in footers if footer.rows]
    dictionaries = frozenset.intersection(*common) if common else frozenset()
    columns = schemas.with_dictionaries(schemas.file_schema(schema), dictionaries)
    constants = _constants(task, spec, schema)
    for footer in footers:
        with read.translated(footer.path):
            project.Projection(footer.schema, schema, columns, constants)
    inputs = apply.Inputs(io=io, schema=schema, constants=constants, footers=footers)
    return Setting(
        io=io,
        schema=schema,
        spec=spec,
        columns=columns,
        layout=sink.lay_out(task, context, schema, columns),
        constants=constants,
        footers=footers,
        dictionaries=dictionaries,
        deletes=apply.build(task, context, inputs),
    )


def _name_mapping(context: task_model.RewriteContext) -> NameMapping | None:
    text = context.properties.get("schema.name-mapping.default")
    try:
        return None if text is None else parse_mapping_from_json(text)
    except ValueError as error:
        raise errors.UnsupportedError("The table's schema.name-mapping.default is not a name mapping.") from error


def _constants(task: task_model.RewriteTask, spec: PartitionSpec, schema: Schema) -> dict[int, pa.Array]:
    values = partitions.decode(task.partition, spec, schema)
    identity = {
        field.source_id: values[position]
        for position, field in enumerate(spec.fields)
        if isinstance(field.transform, IdentityTransform)
    }
    return project.fillers(schema, identity)


def write_request(
    task: task_model.RewriteTask, context: task_model.RewriteContext, attempt: str, setting: Setting
) -> write.WriteRequest:
    """What the writer is asked for."""
    stored = sum(footer.rows for footer in setting.footers)
    rows = stored - (setting.deletes.marked if setting.deletes else 0)
    partition_path = partitions.path(task.partition, setting.spec, setting.schema)
    return write.WriteRequest(
        columns=setting.columns,
        options=options.write_options(context.properties, setting.schema, setting.columns, rows),
        locations=locations.output_locations(task, context, attempt, partition_path),
        sizes=context.sizes,
        partition=task.partition,
        rows=rows,
        bytes_per_row=sum(footer.data_bytes for footer in setting.footers) / max(1, stored),
    )


def transfer(setting: Setting, source: measure.Meter, writer: sink.Sink) -> list[write.WrittenFile]:
    """All rows from the inputs into the writer."""
    deletes, alive = setting.deletes, 0
    promised = sum(footer.rows for footer in setting.footers) - (deletes.marked if deletes else 0)
    for batch in carry(_measured(setting, source), setting):
        alive += batch.num_rows
        if deletes and deletes.found:
            writer.expect(promised * alive // (alive + deletes.found))
        writer.write(batch)
    return writer.close()


def _measured(setting: Setting, source: measure.Meter) -> Iterator[tuple[read.Footer, pa.RecordBatch]]:
    """The rows that live, with every one of them measured."""
    deletes = setting.deletes
    footers = deletes.living(setting.footers) if deletes else setting.footers
    wanted = {field.field_id for field in setting.schema.fields} | (deletes.fields if deletes else set())
    only = read.columns_with(setting.footers, wanted)  # what the table has dropped need not be decoded
    for footer, first_row, batch in read.read_batches(setting.io, footers, setting.dictionaries, only):
        with read.translated(footer.path):
            alive = deletes.apply(footer, first_row, batch) if deletes else batch
        if alive.num_rows:
            source.add(alive)
            yield footer, alive
    if deletes:
        deletes.check()


def carry(raw: Iterator[tuple[read.Footer, pa.RecordBatch]], setting: Setting) -> Iterator[pa.RecordBatch]:
    """The way from source to writer: every raw batch in the table's schema. The meters stand on either side of it."""
    known: project.Projection | None = None
    of_schema = None
    for footer, batch in raw:
        with read.translated(footer.path):
            if known is None or not batch.schema.equals(of_schema, check_metadata=True):
                known = project.Projection(batch.schema, setting.schema, setting.columns, setting.constants)
                of_schema = batch.schema
            projected = known.apply(batch)
        yield projected


def _prove(
    task: task_model.RewriteTask,
    level: policy.ProofLevel,
    setting: Setting,
    files: list[write.WrittenFile],
    sides: tuple[proof.Side, proof.Side],
) -> proof.Proof:
    deep = level is policy.ProofLevel.DEEP
    shown = proof.Proof(
        level=level,
        expected_rows=sum(task.record_counts),
        deleted_rows=setting.deletes.dropped if setting.deletes else 0,
        source=sides[0],
        sink=sides[1],
        footers=verify.read_footers(setting.io, files),
        stored=verify.read_back(setting.io, files, setting.schema) if deep else None,
    )
    if shown.failures:
        raise errors.ProofError(f"{shown.sentence} Task {task.id} of group {task.group_id} was undone.")
    return shown


def _staged(
    task: task_model.RewriteTask, context: task_model.RewriteContext, setting: Setting, file: write.WrittenFile
) -> task_model.StagedFile:
    modes = bounds.modes(setting.schema, context.properties, context.sort_order)
    found = metrics.file_metrics(file.metadata, setting.schema, setting.columns, file.rows, modes)
    return task_model.StagedFile(
        file_path=file.path,
        file_size_in_bytes=file.size,
        record_count=file.metadata.num_rows,
        spec_id=setting.layout.spec.spec_id,
        partition=file.partition,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        nan_value_counts=found.nan_value_counts,
        lower_bounds=found.lower_bounds,
        upper_bounds=found.upper_bounds,
        split_offsets=metrics.split_offsets(file.metadata),
        sort_order_id=setting.layout.order_id,
    )


def _as_execute_error(task: task_model.RewriteTask, error: Exception, left: tuple[str, ...]) -> errors.ExecuteError:
    kind = type(error) if isinstance(error, errors.ExecuteError) else errors.ExecuteError
    told = str(error) if isinstance(error, errors.CompactionError) else f"Task {task.id} failed: {error}"
    return kind(f"{told} These files could not be removed: {', '.join(left)}." if left else told)
