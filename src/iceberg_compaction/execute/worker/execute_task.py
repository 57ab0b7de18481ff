"""One task from its inputs to staged files with a proof: source → arrange → sink. If an attempt fails, its own files
are removed; after a passing fault there is another attempt, which writes files of its own."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import budgets, list_task, measure_task, source
from iceberg_compaction.execute.worker.arrange import arrange_rows
from iceberg_compaction.execute.worker.copy import mixed_rows
from iceberg_compaction.execute.worker.memory import memory_use
from iceberg_compaction.execute.worker.output import sink
from iceberg_compaction.execute.worker.position_deletes import position_task
from iceberg_compaction.execute.worker.proof import measurements
from iceberg_compaction.execute.worker.sketch import sketch_task
from iceberg_compaction.model import rewrite_task
from iceberg_compaction.model.proof import Proof, Side
from iceberg_compaction.storage import passing_faults, request_counts, task_progress

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker.memory import memory_budget
    from iceberg_compaction.model import policies

_NO_EFFORT = rewrite_task.Effort()
_log = logging.getLogger(__name__)
ATTEMPTS = passing_faults.Patience(
    retries=3, first=1.0, longest=20.0, total=900.0
)  # of a task, beside those of each request


def rewrite(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    attempt: str,
    limits: budgets.Budgets = budgets.DEFAULT,
) -> rewrite_task.TaskResult:
    """Writes the task's rows anew. If this raises, nothing stays behind, except for the files that the error names."""
    if 1 < limits.cores != pa.cpu_count():
        # Threads that decode the columns of a batch; with one core there are none. Spark's workers begin with one,
        # whatever cores a task has: Spark tells libraries about the cores that it reserves.
        pa.set_cpu_count(limits.cores)
    if task.sizes is not None:
        context = context.model_copy(update={"sizes": task.sizes})
    with request_counts.counting() as count:
        result = _rewrite(task, context, attempt, limits)
    return result.model_copy(update={"requests": count.requests})


def _rewrite(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, attempt: str, limits: budgets.Budgets
) -> rewrite_task.TaskResult:
    waits = None
    for number in itertools.count():
        try:
            return _attempt(task, context, f"{attempt}-{number}" if number else attempt, limits)
        except Exception as error:
            if not passing_faults.is_passing(error) or (isinstance(error, errors.ExecuteError) and error.left):
                raise
            waits = waits or ATTEMPTS.waits()
            if (wait := next(waits, None)) is None:
                raise _with_attempts(error, number + 1) from error
            _log.info("Task %d is tried again in %.1f s: %s", task.id, wait, type(error).__name__)
            ATTEMPTS.sleep(wait)
    raise AssertionError("unreachable")


def _attempt(
    task: rewrite_task.RewriteTask, context: rewrite_task.RewriteContext, attempt: str, limits: budgets.Budgets
) -> rewrite_task.TaskResult:
    task_progress.current().begin()
    memory = memory_use.MemoryUse(limits)
    with memory.reservation:
        result = _perform(task, context, attempt, limits, memory.reservation)
        return result.model_copy(update={"effort": result.effort + memory.effort})


def _perform(
    task: rewrite_task.RewriteTask,
    context: rewrite_task.RewriteContext,
    attempt: str,
    limits: budgets.Budgets,
    reservation: memory_budget.Reservation,
) -> rewrite_task.TaskResult:
    started = time.monotonic()
    if context.known_hashes is not None:
        nothing = Proof(level=context.verify, expected_rows=0, source=Side(), sink=Side(), footers=Side())
        listed = list_task.list_folders(task, context)
        return _result(task, started, proof=nothing).model_copy(update={"listed": listed})
    if context.position_deletes is not None:
        proof, deletes = position_task.write(task, context, attempt, limits, reservation)
        return _result(task, started, proof=proof, staged=deletes)
    rows = source.open_source(task, context, limits, reservation)
    if context.sketched:
        proof, sketches = sketch_task.sketch(rows, context.verify)
        return _result(task, started, proof=proof).model_copy(update={"sketches": sketches})
    if context.only_measured:
        return _result(task, started, proof=measure_task.measure(rows, context.verify))
    prepared = rows.prepared
    request = sink.SinkRequest(
        task=task,
        context=context,
        attempt=attempt,
        plan=prepared.output,
        budgets=prepared.budgets,
        cores=prepared.cores,
        mixed=prepared.steps.copies,
    )
    output = sink.open_sink(prepared.io, request)
    try:
        if prepared.steps.copies:
            copies, effort = _copy_and_encode(rows, output, context.verify)
        else:
            copies, effort = _encode(rows, output)
        whole = measurements.combine(context.verify, rows.measurements, output.take_measurements(), copies)
        if whole.failures:
            raise errors.ProofError(f"{whole.sentence} Task {task.id} of group {task.group_id} was undone.")
        staged = output.stage()
    except BaseException as error:
        left = output.abort()
        if isinstance(error, Exception) and (left or not isinstance(error, errors.CompactionError)):
            raise _as_execute_error(task, error, left) from error
        raise
    return _result(task, started, proof=whole, staged=staged, effort=effort)


def _result(
    task: rewrite_task.RewriteTask,
    started: float,
    *,
    proof: Proof,
    staged: tuple[rewrite_task.StagedFile, ...] = (),
    effort: rewrite_task.Effort = _NO_EFFORT,
) -> rewrite_task.TaskResult:
    return rewrite_task.TaskResult(
        task_id=task.id,
        group_id=task.group_id,
        staged=staged,
        proof=proof,
        bytes_read=task.bytes,
        bytes_written=sum(file.file_size_in_bytes for file in staged),
        seconds=time.monotonic() - started,
        effort=effort,
    )


def _encode(rows: source.TaskSource, output: sink.Sink) -> tuple[measurements.CopyMeasurements, rewrite_task.Effort]:
    """Every row is decoded, arranged and encoded."""
    started = time.monotonic()
    arrangement = rows.prepared.output.arrangement(rows.prepared.budgets)
    with contextlib.closing(arrange_rows.arrange(rows.batches(), arrangement)) as arranged:
        for batch in arranged:
            output.expect(rows.expected_rows)
            output.write(batch)
    output.close()
    seconds = rewrite_task.Effort(encode_seconds=time.monotonic() - started)
    return measurements.NOTHING_COPIED, rows.effort + seconds


def _copy_and_encode(
    rows: source.TaskSource, output: sink.Sink, level: policies.ProofLevel
) -> tuple[measurements.CopyMeasurements, rewrite_task.Effort]:
    """Row groups are copied where that is possible. Rows keep their order and their partition."""
    mixed = mixed_rows.MixedRows(rows.part, output.only_writer(), level)
    mixed.move()
    started = time.monotonic()
    files = output.close()
    seconds = rewrite_task.Effort(encode_seconds=time.monotonic() - started)
    return mixed.take_measurements(files), mixed.effort + seconds


def _with_attempts(error: Exception, attempts: int) -> Exception:
    if not isinstance(error, errors.CompactionError) or attempts == 1:
        return error
    counted = type(error)(f"{error} The task was tried {attempts} times.")
    counted.path = error.path
    return counted


def _as_execute_error(task: rewrite_task.RewriteTask, error: Exception, left: tuple[str, ...]) -> errors.ExecuteError:
    kind = type(error) if isinstance(error, errors.ExecuteError) else errors.ExecuteError
    sentence = str(error) if isinstance(error, errors.CompactionError) else f"Task {task.id} failed: {error}"
    translated = kind(f"{sentence} These files could not be removed: {', '.join(left)}." if left else sentence)
    translated.path, translated.left = getattr(error, "path", None), left
    return translated
