"""Tasks and results as rows, and the code between them on an executor. What tasks share travels in the closure and
never as a row: rows show up in Spark's pages and logs, closures do not."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute import engine_door, perform_task, task_failure
from iceberg_compaction.execute.engines import progress_channel, progress_reports
from iceberg_compaction.execute.engines.spark import worker_watch
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
from iceberg_compaction.observe.tracing import otel_setup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark import Broadcast, SparkContext
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from iceberg_compaction.model.listing_task import KnownHashes

Row: TypeAlias = "tuple[int, str | None, str | None]"  # task id, result, failure

_RESULTS = pa.schema([("task_id", pa.int64()), ("result", pa.string()), ("failure", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What every executor needs besides its rows."""

    context: RewriteContext
    rewrite: engine_door.Rewrite
    max_attempts: int  # how often Spark starts a task; failures of the last attempt come back as data
    unheard: int = 0  # attempts that may have been made before, or beside this one, and that no result tells of
    marker: str | None  # a file that exists as long as the run may go on; None: executors would not see it
    reports: progress_channel.Address | None = None  # where progress within a task is sent; None: nowhere


def on_context(
    context: SparkContext, tasks: Sequence[RewriteTask], shared: Shared, hashes: Broadcast[KnownHashes] | None = None
) -> list[engine_door.TaskEnd]:
    """What became of each task, in one Spark job. By an RDD, because a DataFrame would have the JVM load Spark SQL, and
    that takes longer than all the rest of a start. `hashes`: those of the context, which Spark has sent before."""
    light = shared if hashes is None else _knowing(shared, None)

    def rewrite_tasks(texts: Iterable[str]) -> Iterator[Row]:
        return perform(texts, light if hashes is None else _knowing(light, hashes.value))

    texts = context.parallelize([task.model_dump_json() for task in tasks], 1)
    return _ends(texts.mapPartitions(rewrite_tasks).collect())


def _knowing(shared: Shared, hashes: KnownHashes | None) -> Shared:
    return replace(shared, context=shared.context.model_copy(update={"known_hashes": hashes}))


def on_connect(session: SparkSession, tasks: Sequence[RewriteTask], shared: Shared) -> list[engine_door.TaskEnd]:
    """The same on Spark Connect, which has DataFrames only."""

    def rewrite_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for row in perform((text for batch in batches for text in batch.column("task").to_pylist()), shared):
            yield pa.RecordBatch.from_pylist([dict(zip(_RESULTS.names, row, strict=True))], schema=_RESULTS)

    texts = session.createDataFrame(pa.table({"task": [task.model_dump_json() for task in tasks]})).coalesce(1)
    return _ends(texts.mapInArrow(rewrite_tasks, _results_type()).collect())


def _results_type() -> StructType:
    from pyspark.sql.types import LongType, StringType, StructType

    return StructType().add("task_id", LongType()).add("result", StringType()).add("failure", StringType())


def _ends(rows: Iterable[Sequence[object]]) -> list[engine_door.TaskEnd]:
    ends: list[engine_door.TaskEnd] = []
    for _, result, problem in rows:
        if isinstance(result, str):
            ends.append(TaskResult.model_validate_json(result))
        elif isinstance(problem, str):
            ends.append(task_failure.Failure.model_validate_json(problem))
    return ends


def perform(texts: Iterable[str], shared: Shared) -> Iterator[Row]:
    """On an executor: one row out per task, until the run is stopped. If Spark gives this attempt up (it will retry a
    failure, or is gone), files of tasks already finished in it are removed again, because their results
    never arrive."""
    texts = iter(texts)
    finished: list[TaskResult] = []
    if shared.context.trace:
        otel_setup.set_up(os.environ)
    try:
        for outcome in _outcomes(texts, shared):
            if isinstance(outcome, TaskResult):
                finished.append(outcome)
            yield _to_row(outcome)
    except BaseException:
        _remove(finished, shared.context)
        raise
    finally:
        if shared.context.trace:
            otel_setup.flush()
    for _ in texts:
        pass  # rows left over are still taken from Spark, else it would not reuse this process


def _outcomes(texts: Iterable[str], shared: Shared) -> Iterator[engine_door.TaskEnd]:
    attempt = _attempt(shared)
    failed: set[int] = set()
    with progress_reports.Reporter() as reporter:
        for text in texts:
            if worker_watch.is_requested(shared.marker):
                return
            task = RewriteTask.model_validate_json(text)
            if task.group_id in failed:
                continue  # what it would write could not be committed
            try:
                outcome = _perform_one(task, shared, attempt, reporter)
            except worker_watch.Stopped as stopped:
                if stopped.requested:
                    return
                raise
            if isinstance(outcome, task_failure.Failure):
                failed.add(outcome.group_id)
            yield outcome


def _perform_one(
    task: RewriteTask, shared: Shared, attempt: _Attempt, reporter: progress_reports.Reporter
) -> engine_door.TaskEnd:
    send = None if shared.reports is None else progress_channel.sender(shared.reports, task.id)
    with reporter.reporting(task, send), worker_watch.stop_on_request(shared.marker, shared.rewrite):
        end = perform_task.perform_task(task, shared.context, attempt.name, shared.rewrite)
    if isinstance(end, task_failure.Failure) and end.retryable and attempt.retried:
        raise end.rebuild()  # without its cause, which Spark would log with all that it says
    # Whatever ended the first attempt may have kept it from removing its files.
    lost = {"left_behind": True, "attempts": attempt.number + 1}
    return end.model_copy(update=lost) if attempt.number else end


@dataclass(frozen=True, slots=True, kw_only=True)
class _Attempt:
    """One attempt of Spark at a partition of rows."""

    number: int  # 0: the first, and the only one so far
    name: str  # that no other attempt has, in this application or another one
    retried: bool  # there will be another one if this fails


def _attempt(shared: Shared) -> _Attempt:
    from pyspark import TaskContext

    task = TaskContext.get()
    at, identity = (task.attemptNumber(), task.taskAttemptId()) if task else (0, 0)
    number = at + shared.unheard
    name = perform_task.new_attempt(f"{identity}-{number}")
    return _Attempt(number=number, name=name, retried=at + 1 < shared.max_attempts)


def _to_row(outcome: engine_door.TaskEnd) -> Row:
    text = outcome.model_dump_json()
    return (outcome.task_id, text, None) if isinstance(outcome, TaskResult) else (outcome.task_id, None, text)


def _remove(finished: Sequence[TaskResult], context: RewriteContext) -> None:
    from iceberg_compaction.storage import file_io, remove

    for path in [staged.file_path for result in finished for staged in result.staged]:
        try:
            io = file_io.open_io(context.io_properties, path)
        except (OSError, ValueError, errors.CompactionError):
            continue  # a file that cannot be removed now is an orphan, which Iceberg readers never see
        remove.remove_files(io, [path], remove.RemovalProof.NEVER_SENT)
