"""Work for engines: tasks over small real files, and a rewrite that behaves as told, task by task. It leaves one file
per finished task and removes its own when it is interrupted, as the real one does."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

from iceberg_compaction.cancel import CancelToken
from iceberg_compaction.execute.engine_door import Job
from iceberg_compaction.model.policies import ProofLevel, Sizes
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from iceberg_compaction.execute.engine_door import Engine, Rewrite, TaskEnd

SECRET = "wJalrXUtnFEMI-never-shown"
FINE, REFUSE, CRASH, CRASH_ONCE, WAIT, DIE = "fine", "refuse", "crash", "crash-once", "wait", "die"


def make_context(folder: Path, table: str = "shop.events") -> RewriteContext:
    return RewriteContext(
        run_id="run",
        table=table,
        table_location=str(folder),
        table_schema="{}",
        partition_specs={},
        properties={},
        sizes=Sizes(target=1000, min=750, max=1800),
        verify=ProofLevel.COUNTS,
        io_properties={"s3.access-key-id": "AKIDEXAMPLE", "s3.secret-access-key": SECRET},
    )


def make_tasks(count: int, *, size: int = 1000) -> list[RewriteTask]:
    return [
        RewriteTask(
            id=number,
            group_id=number // 2,
            spec_id=0,
            partition="{}",
            file_paths=(f"in-{number}-a.parquet", f"in-{number}-b.parquet"),
            file_sizes=(size, size),
            record_counts=(10, 10),
        )
        for number in range(count)
    ]


def make_job(count: int, folder: Path, *, size: int = 1000, table: str = "shop.events") -> Job:
    return Job(tasks=tuple(make_tasks(count, size=size)), context=make_context(folder, table))


def perform(engine: Engine, job: Job) -> tuple[list[Any], list[TaskResult]]:
    """What the engine reports of a job, in the order of tasks, and what was staged."""
    with engine.start(job, cancel=CancelToken()) as work:
        ends = list(work.results())
    return sorted(ends, key=lambda end: end.task_id), list(work.staged)


def in_pairs(ends: Iterator[TaskEnd]) -> Iterable[TaskEnd]:
    """A script for the fake engine: two tasks are done before the first of them is reported."""
    while pair := list(itertools.islice(ends, 2)):
        yield from pair


def make_rewrite(behaviours: Mapping[int, str] | None = None) -> Rewrite:
    """A nested function, so that it travels to Spark's workers by value: they do not know the tests."""
    told, secret = dict(behaviours or {}), SECRET

    def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        import os
        import time
        from pathlib import Path

        from iceberg_compaction import errors
        from iceberg_compaction.model.policies import ProofLevel
        from iceberg_compaction.model.proof import Proof, Side
        from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

        folder, behaviour = Path(context.table_location), told.get(task.id, "fine")
        output = folder / f"out-{task.id}-{attempt}.parquet"
        output.write_text("half")
        try:
            if behaviour == "wait":
                (folder / f"started-{task.id}").touch()
                time.sleep(60)
            if behaviour == "refuse":
                raise errors.ProofError(f"Task {task.id} lost a row.")
            crashed = folder / f"crashed-{task.id}"
            if behaviour == "crash" or (behaviour == "crash-once" and not crashed.exists()):
                crashed.write_text(attempt)
                raise ZeroDivisionError(f"went wrong with s3.secret-access-key {secret}")
            if behaviour == "die":
                os._exit(7)
            output.write_text("whole")
            staged = StagedFile(file_path=str(output), file_size_in_bytes=5, record_count=20, spec_id=0, partition="{}")
            side = Side(rows=20)
            return TaskResult(
                task_id=task.id,
                group_id=task.group_id,
                staged=(staged,),
                proof=Proof(level=ProofLevel.COUNTS, expected_rows=20, source=side, sink=side, footers=side),
                bytes_read=task.bytes,
                bytes_written=5,
                seconds=0.0,
            )
        except BaseException:
            output.unlink()
            raise

    return rewrite


def outputs(folder: Path) -> set[str]:
    """Every output file that exists, whole or not."""
    return {str(path) for path in folder.glob("out-*")}


def staged(results: Iterable[TaskResult]) -> set[str]:
    return {file.file_path for result in results for file in result.staged}


def no_engine() -> Any:
    """A factory that nobody may ask."""
    raise AssertionError("an engine was opened that nobody needs")
