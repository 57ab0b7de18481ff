"""Tasks and results as rows of a Spark DataFrame, and the code between them on an executor. What tasks share travels in
the closure and never as a row: rows show up in Spark's pages and logs, closures do not."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.execute import engine, failure
from iceberg_compaction.execute.spark import watch
from iceberg_compaction.model.task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pyspark.sql.types import StructType

_RESULTS = pa.schema([("task_id", pa.int64()), ("result", pa.string()), ("failure", pa.string())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What every executor needs besides its rows."""

    context: RewriteContext
    rewrite: engine.Rewrite
    max_attempts: int  # how often Spark starts a task; failures of the last attempt come back as data
    marker: str | None  # a file that exists as long as the run may go on; None: executors would not see it


def results_type() -> StructType:
    """The columns of what comes back. As an object, since Spark's JVM takes its time to understand text."""
    from pyspark.sql.types import LongType, StringType, StructType

    return StructType().add("task_id", LongType()).add("result", StringType()).add("failure", StringType())


def to_table(tasks: Sequence[RewriteTask]) -> pa.Table:
    return pa.table({"task_id": [task.id for task in tasks], "task": [task.model_dump_json() for task in tasks]})


def from_rows(rows: Iterable[Sequence[object]]) -> tuple[list[TaskResult], failure.Failure | None]:
    """Results of finished tasks, and the failure that ended the chunk, if one did."""
    results, failed = [], None
    for _, result, problem in rows:
        if isinstance(result, str):
            results.append(TaskResult.model_validate_json(result))
        elif isinstance(problem, str):
            failed = failure.Failure.model_validate_json(problem)
    return results, failed


def executor_function(job: Job) -> Callable[[Iterable[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """The function that Spark carries to the executors; its name shows in query plans."""

    def rewrite_tasks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        return perform(batches, job)

    return rewrite_tasks


def perform(batches: Iterable[pa.RecordBatch], job: Job) -> Iterator[pa.RecordBatch]:
    """On an executor: one row out per task, until one fails or the run is stopped. If Spark gives this attempt up (it
    will retry a failure, or is gone), files of tasks already finished in it are removed again, because their results
    never arrive."""
    texts = (text for batch in batches for text in batch.column("task").to_pylist())
    finished: list[TaskResult] = []
    try:
        for outcome in _outcomes(texts, job):
            if isinstance(outcome, TaskResult):
                finished.append(outcome)
            yield _to_batch(outcome)
    except BaseException:
        _discard(finished, job.context)
        raise
    for _ in texts:
        pass  # rows left over are still taken from Spark, else it would not reuse this process


def _outcomes(texts: Iterable[str], job: Job) -> Iterator[TaskResult | failure.Failure]:
    number, attempt = _attempt()
    for text in texts:
        if watch.is_asked(job.marker):
            return
        try:
            outcome = _perform_one(RewriteTask.model_validate_json(text), job, attempt, number + 1 < job.max_attempts)
        except watch.Stopped as stopped:
            if stopped.asked:
                return
            raise
        yield outcome
        if isinstance(outcome, failure.Failure):
            return


def _perform_one(task: RewriteTask, job: Job, attempt: str, retried: bool) -> TaskResult | failure.Failure:
    try:
        with watch.stop_on_request(job.marker, job.rewrite):
            return job.rewrite(task, job.context, attempt)
    except Exception as error:  # noqa: BLE001 - the border where a worker's errors become data
        failed = failure.describe(error, task, job.context)
    if failed.retryable and retried:
        raise failed.rebuild()  # without its cause, which Spark would log with all that it says
    return failed


def _attempt() -> tuple[int, str]:
    """How often Spark has tried these rows before, and a name that no other attempt has, in this application or
    another one."""
    from pyspark import TaskContext

    task = TaskContext.get()
    number, identity = (task.attemptNumber(), task.taskAttemptId()) if task else (0, 0)
    return number, f"{identity}-{number}-{secrets.token_hex(4)}"


def _to_batch(outcome: TaskResult | failure.Failure) -> pa.RecordBatch:
    text = outcome.model_dump_json()
    good = isinstance(outcome, TaskResult)
    row = {"task_id": outcome.task_id, "result": text if good else None, "failure": None if good else text}
    return pa.RecordBatch.from_pylist([row], schema=_RESULTS)


def _discard(finished: Sequence[TaskResult], context: RewriteContext) -> None:
    from iceberg_compaction.catalog import io

    for path in [staged.file_path for result in finished for staged in result.staged]:
        try:
            io.open_io(context.io_properties, path).delete(path)
        except (OSError, ValueError, errors.CompactionError):
            continue  # what cannot be removed now is an orphan, which Iceberg readers never see
