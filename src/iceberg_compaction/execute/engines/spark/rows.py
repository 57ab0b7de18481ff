"""Tasks and results as rows of a Spark DataFrame, and the code between them on an executor. What tasks share travels in
the closure and never as a row: rows show up in Spark's pages and logs, closures do not."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute import engine_door, perform_task, task_failure
from iceberg_compaction.execute.engines.spark import worker_watch
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

_RESULTS = pa.schema([("task_id", pa.int64()), ("result", pa.string()), ("failure", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """What every executor needs besides its rows."""

    context: RewriteContext
    rewrite: engine_door.Rewrite
    max_attempts: int  # how often Spark starts a task; failures of the last attempt come back as data
    unheard: int = 0  # attempts that may have been made before, or beside this one, and that no result tells of
    marker: str | None  # a file that exists as long as the run may go on; None: executors would not see it


def results_type() -> StructType:
    """The columns of what comes back. As an object, since Spark's JVM takes its time to understand text."""
    from pyspark.sql.types import LongType, StringType, StructType

    return StructType().add("task_id", LongType()).add("result", StringType()).add("failure", StringType())


def to_table(tasks: Sequence[RewriteTask]) -> pa.Table:
    return pa.table({"task_id": [task.id for task in tasks], "task": [task.model_dump_json() for task in tasks]})


def from_rows(rows: Iterable[Sequence[object]]) -> list[engine_door.TaskEnd]:
    """What became of each task."""
    ends: list[engine_door.TaskEnd] = []
    for _, result, problem in rows:
        if isinstance(result, str):
            ends.append(TaskResult.model_validate_json(result))
        elif isinstance(problem, str):
            ends.append(task_failure.Failure.model_validate_json(problem))
    return ends


def executor_function(shared: Shared) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function that Spark carries to the executors; its name shows in query plans."""

    def rewrite_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return perform(batches, shared)

    return rewrite_tasks


def perform(batches: Iterable[pa.RecordBatch], shared: Shared) -> Iterator[pa.RecordBatch]:
    """On an executor: one row out per task, until the run is stopped. If Spark gives this attempt up (it will retry a
    failure, or is gone), files of tasks already finished in it are removed again, because their results
    never arrive."""
    texts = (text for batch in batches for text in batch.column("task").to_pylist())
    finished: list[TaskResult] = []
    try:
        for outcome in _outcomes(texts, shared):
            if isinstance(outcome, TaskResult):
                finished.append(outcome)
            yield _to_batch(outcome)
    except BaseException:
        _remove(finished, shared.context)
        raise
    for _ in texts:
        pass  # rows left over are still taken from Spark, else it would not reuse this process


def _outcomes(texts: Iterable[str], shared: Shared) -> Iterator[engine_door.TaskEnd]:
    attempt = _attempt(shared)
    failed: set[int] = set()
    for text in texts:
        if worker_watch.is_requested(shared.marker):
            return
        task = RewriteTask.model_validate_json(text)
        if task.group_id in failed:
            continue  # what it would write could not be committed
        try:
            outcome = _perform_one(task, shared, attempt)
        except worker_watch.Stopped as stopped:
            if stopped.requested:
                return
            raise
        if isinstance(outcome, task_failure.Failure):
            failed.add(outcome.group_id)
        yield outcome


def _perform_one(task: RewriteTask, shared: Shared, attempt: _Attempt) -> engine_door.TaskEnd:
    with worker_watch.stop_on_request(shared.marker, shared.rewrite):
        end = perform_task.perform_task(task, shared.context, attempt.name, shared.rewrite)
    if isinstance(end, task_failure.Failure) and end.retryable and attempt.retried:
        raise end.rebuild()  # without its cause, which Spark would log with all that it says
    # Whatever ended the first attempt may have kept it from removing its files.
    return end.model_copy(update={"left_behind": True}) if attempt.number else end


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


def _to_batch(outcome: engine_door.TaskEnd) -> pa.RecordBatch:
    text = outcome.model_dump_json()
    good = isinstance(outcome, TaskResult)
    row = {"task_id": outcome.task_id, "result": text if good else None, "failure": None if good else text}
    return pa.RecordBatch.from_pylist([row], schema=_RESULTS)


def _remove(finished: Sequence[TaskResult], context: RewriteContext) -> None:
    from iceberg_compaction.storage import file_io, remove

    for path in [staged.file_path for result in finished for staged in result.staged]:
        try:
            io = file_io.open_io(context.io_properties, path)
        except (OSError, ValueError, errors.CompactionError):
            continue  # a file that cannot be removed now is an orphan, which Iceberg readers never see
        remove.remove_files(io, [path], remove.RemovalProof.NEVER_SENT)
