"""One task from its inputs to staged files with a proof: look at all footers and deletes, stream the rows that live
from source to writer with a meter at each end, re-read what storage holds. On any failure the attempt's own files are
removed; after a fault that passes there is another attempt, which writes files of its own."""

from __future__ import annotations

import itertools
import logging
import time
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import prepared_task, task_parts, transfer
from iceberg_compaction.execute.worker.output import (
    column_bounds,
    file_metrics,
    locations,
    rolling_writer,
    row_profile,
    sink,
)
from iceberg_compaction.execute.worker.proof import measure, verify_files
from iceberg_compaction.formats.parquet import format_fields
from iceberg_compaction.metadata import partition_tuples
from iceberg_compaction.model import policies, proof, rewrite_task
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker.output import output_file


_log = logging.getLogger(__name__)
ATTEMPTS = passing_faults.Patience(
    retries=3, first=1.0, longest=20.0, total=900.0
)  # of a task, beside those of each request


def rewrite(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, attempt: str
) -> rewrite_task.TaskResult:
    """Write the task's rows anew. Nothing stays behind if this raises, but for what the error names."""
    waits = None
    for number in itertools.count():
        try:
            return _attempt(task, context, f"{attempt}-{number}" if number else attempt)
        except Exception as error:
            if not passing_faults.is_passing(error) or (isinstance(error, errors.ExecuteError) and error.left):
                raise
            waits = waits or ATTEMPTS.waits()
            if (wait := next(waits, None)) is None:
                raise _tried(error, number + 1) from error
            _log.info("Task %d is tried again in %.1f s: %s", task.id, wait, type(error).__name__)
            ATTEMPTS.sleep(wait)
    raise AssertionError("unreachable")


def _tried(error: Exception, times: int) -> Exception:
    if not isinstance(error, errors.CompactionError) or times == 1:
        return error
    made = type(error)(f"{error} The task was tried {times} times.")
    made.path = error.path
    return made


def _attempt(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, attempt: str
) -> rewrite_task.TaskResult:
    started = time.monotonic()
    known = prepared_task.prepare(task.parts[0], context)
    written = measure.Meter(known.schema, context.verify)
    request = write_request(task, context, attempt, known)
    writer = sink.open_sink(known.io, known.layout, request, known.schema, written)
    try:
        moved = task_parts.move(task, context, known, writer)
        shown = _prove(task, context.verify, known, moved, written.side)
        sums = sink.row_checksums(writer)
        staged = tuple(_staged(task, context, known, file, sums.get(file.path)) for file in moved.files)
    except BaseException as error:
        left = writer.abort()
        if isinstance(error, Exception) and (left or not isinstance(error, errors.CompactionError)):
            raise _as_execute_error(task, error, left) from error
        raise
    return rewrite_task.TaskResult(
        task_id=task.id,
        group_id=task.group_id,
        staged=staged,
        proof=shown,
        bytes_read=task.bytes,
        bytes_written=sum(file.size for file in moved.files),
        seconds=time.monotonic() - started,
        effort=moved.effort,
    )


def write_request(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    attempt: str,
    known: prepared_task.PreparedTask,
) -> rolling_writer.WriteRequest:
    """What the writer is asked for."""
    # Where rows leave their partitions, those that they go to have paths of their own.
    partition_path = "" if task.sections else partition_tuples.path(task.partition, known.spec, known.schema)
    return rolling_writer.WriteRequest(
        columns=known.columns,
        options=known.options,
        locations=locations.output_locations(task, context, attempt, partition_path),
        sizes=context.sizes,
        partition=task.partition,
        rows=known.stored_rows - (known.deletes.marked if known.deletes else 0),
        bytes_per_row=sum(footer.data_bytes for footer in known.footers) / max(1, known.stored_rows),
        mixed=known.steps.copies,
        least_group=context.min_row_group if known.steps.copies else 0,
        profile=_profile(known),
    )


def _profile(known: prepared_task.PreparedTask) -> row_profile.Profile:
    """Only where rows keep their order and their partition it is known which of them come when."""
    if known.layout.order or not known.layout.same_partition:
        return row_profile.EVEN
    return row_profile.Profile(
        group for footer in known.footers for group in zip(footer.group_rows, footer.group_bytes, strict=True)
    )


def _prove(
    task: rewrite_task.RewriteTask,
    level: policies.ProofLevel,
    known: prepared_task.PreparedTask,
    moved: task_parts.Moved,
    written: proof.Side,
) -> proof.Proof:
    deep, files = level is policies.ProofLevel.DEEP, moved.files
    shown = proof.Proof(
        level=level,
        expected_rows=sum(task.record_counts),
        deleted_rows=moved.deleted,
        source=moved.source,
        sink=written + moved.patched,
        copied=transfer.copied(files, known.tops),
        landed=verify_files.landed(known.io, files, known.tops),
        footers=verify_files.read_footers(known.io, files),
        decoded=moved.decoded,
        stored=verify_files.read_back(known.io, files, known.schema) if deep else None,
    )
    if shown.failures:
        raise errors.ProofError(f"{shown.sentence} Task {task.id} of group {task.group_id} was undone.")
    return shown


def _staged(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    known: prepared_task.PreparedTask,
    file: output_file.WrittenFile,
    row_checksum: int | None,
) -> rewrite_task.StagedFile:
    modes = column_bounds.modes(known.schema, context.properties, context.sort_order)
    file.rows.nans.update(_nans(task, file))
    file.rows.told.update(_told(task, file))
    found = file_metrics.file_metrics(file.metadata, known.schema, known.columns, file.rows, modes)
    return rewrite_task.StagedFile(
        file_path=file.path,
        file_size_in_bytes=file.size,
        record_count=file.metadata.num_rows,
        spec_id=known.layout.spec.spec_id,
        partition=file.partition,
        column_sizes=found.column_sizes,
        value_counts=found.value_counts,
        null_value_counts=found.null_value_counts,
        nan_value_counts=found.nan_value_counts,
        lower_bounds=found.lower_bounds,
        upper_bounds=found.upper_bounds,
        split_offsets=file_metrics.split_offsets(file.metadata),
        sort_order_id=known.layout.order_id,
        row_checksum=row_checksum,
    )


def _nans(task: rewrite_task.RewriteTask, file: output_file.WrittenFile) -> dict[tuple[int, int], int]:
    """What manifests tell about the NaNs of row groups that came as bytes, by their place and field id: where an input
    has none, or all of its row groups are here, so that it does not matter which of them has how many."""
    found: dict[tuple[int, int], int] = {}
    here: dict[int, list[int]] = {}
    for group in file.copied:
        here.setdefault(group.step.number, []).append(group.place)
    for number, places in here.items():
        counts = task.nan_counts[number] if task.nan_counts else {}
        filled = sum(
            1 for rows in next(g.step for g in file.copied if g.step.number == number).footer.group_rows if rows
        )
        for field_id, count in counts.items():
            if not count or len(places) == filled:
                found.update({(place, field_id): 0 for place in places})
                found[places[0], field_id] = count
    return found


def _told(task: rewrite_task.RewriteTask, file: output_file.WrittenFile) -> dict[tuple[int, int], file_metrics.Told]:
    """What manifests tell about nulls and bounds of columns that came as bytes, by row group and field id. It is about
    a whole input, so it is exact only if all of its rows are here; and nulls count once, if no footer tells some."""
    found: dict[tuple[int, int], file_metrics.Told] = {}
    by_input: dict[int, list[output_file.CopiedGroup]] = {}
    for group in file.copied if task.told else ():
        by_input.setdefault(group.step.number, []).append(group)
    for number, groups in by_input.items():
        if len(groups) != sum(1 for rows in groups[0].step.footer.group_rows if rows):
            continue
        columns = [group.step.chunks() for group in groups]
        for field_id, (nulls, low, high) in task.told[number].items():
            if not all(field_id in chunks for chunks in columns):
                continue  # encoded, and looked at by then
            if any(format_fields.Statistics.NULLS in chunks[field_id].statistics for chunks in columns):
                nulls = None
            for group in groups:
                found[group.place, field_id] = file_metrics.Told(nulls=nulls, low=low, high=high)
                nulls = None if nulls is None else 0
    return found


def _as_execute_error(task: rewrite_task.RewriteTask, error: Exception, left: tuple[str, ...]) -> errors.ExecuteError:
    kind = type(error) if isinstance(error, errors.ExecuteError) else errors.ExecuteError
    told = str(error) if isinstance(error, errors.CompactionError) else f"Task {task.id} failed: {error}"
    made = kind(f"{told} These files could not be removed: {', '.join(left)}." if left else told)
    made.path, made.left = getattr(error, "path", None), left
    return made
