"""The rows of data files as they are read now, deletes applied: figures of a proof for each task, or the reason why
files cannot be read. An engine reads, and nothing is written."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from iceberg_compaction.execute import task_failure
from iceberg_compaction.execute.prepare import measure_job
from iceberg_compaction.model import events
from iceberg_compaction.model.proof import Side
from iceberg_compaction.operations import engine_for_work
from iceberg_compaction.operations.rewrite_files import task_rounds

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pyarrow as pa
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine, Job
    from iceberg_compaction.execute.task_failure import Failure
    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.past_rows import PastRows
    from iceberg_compaction.model.rewrite_task import RewriteTask
    from iceberg_compaction.record.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesToMeasure:
    """Data files of one snapshot, and how to read them."""

    live: pa.Table  # model.table_view.FILES: these files, and the delete files that may apply to them
    paths: pa.Array
    schema: Schema
    past_rows: PastRows | None = None  # that are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The rows of some files of one partition."""

    partition_key: PartitionKey
    files: int
    side: Side | None  # None: they could not be read
    failure: Failure | None = None


def measure(table: Table, requests: Sequence[FilesToMeasure], engine: Engine, run: Run) -> list[list[Measurement]]:
    """The measurements of each request. Files that cannot be read are measurements, too; an error means that storage
    or the engine can do no work at all, or that the run was cancelled."""
    jobs = [
        measure_job.prepare(table, each.live, each.paths, each.schema, run.run_id, each.past_rows) for each in requests
    ]
    engine = engine_for_work.for_jobs(engine, jobs, ".".join(table.name()), run)
    engine.cores()
    progress = ReadingProgress(run=run, table=".".join(table.name()), jobs=jobs)
    return [_measure(table, job, engine, run, progress) for job in jobs]


def _measure(table: Table, job: Job, engine: Engine, run: Run, progress: ReadingProgress) -> list[Measurement]:
    if not job.tasks:
        return []
    by_id = {task.id: task for task in job.tasks}
    progress.begin(job)
    job = replace(job, on_progress=progress.moved if run.has_listener else None)
    measurements = []
    work = task_rounds.Rounds(engine, job, cancel=run.cancel, renew=task_rounds.renewing(table))
    with run.cancel.looking(), work:
        for end in work.results():
            task = by_id[end.task_id]
            progress.done(task)
            failure = end if isinstance(end, task_failure.Failure) else None
            measurements.append(
                Measurement(
                    partition_key=(task.spec_id, task.partition),
                    files=len(task.file_paths),
                    side=None if isinstance(end, task_failure.Failure) else end.proof.source,
                    failure=failure,
                )
            )
    return measurements


def total(measurements: Iterable[Measurement]) -> Side:
    """The rows of all files that could be read."""
    return sum((each.side for each in measurements if each.side is not None), Side(row_checksum=0))


class ReadingProgress:
    """How far the reading of all jobs has come."""

    def __init__(self, *, run: Run, table: str, jobs: Sequence[Job]) -> None:
        tasks = [task for job in jobs for task in job.tasks]
        self._run = run
        self._figures: dict[str, Any] = {
            "table": table,
            "run_id": run.run_id,
            "files_total": sum(len(task.file_paths) for task in tasks),
            "bytes_total": sum(task.bytes for task in tasks),
        }
        self._files, self._bytes = 0, 0
        self._sizes: dict[int, int] = {}
        self._within: dict[int, int] = {}

    def begin(self, job: Job) -> None:
        self._sizes, self._within = {task.id: task.bytes for task in job.tasks}, {}
        self._emit()

    def moved(self, done: Mapping[int, int]) -> None:
        self._within |= {task: min(size, self._sizes[task]) for task, size in done.items() if task in self._sizes}
        self._emit()

    def done(self, task: RewriteTask) -> None:
        self._within.pop(task.id, None)
        self._files += len(task.file_paths)
        self._bytes += self._sizes.pop(task.id, 0)
        self._emit()

    def _emit(self) -> None:
        bytes_done = self._bytes + sum(self._within.values())
        self._run.emit(events.Comparing(files_done=self._files, bytes_done=bytes_done, **self._figures))
