"""Spark as the engine. Small jobs run side by side, as many as there are cores, so results arrive while others still
run; each job carries a few tasks to one executor core and brings their results back as rows."""

from __future__ import annotations

import tempfile
import threading
from concurrent import futures
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import (
    chunks,
    interrupts,
    labels,
    rows,
    shipping,
    spark_session,
    submission,
)
from iceberg_compaction.model.rewrite_task import TaskResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from iceberg_compaction.execute.engine_door import OnEnd, Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask


class SparkEngine:
    """Performs tasks on Spark. A session that is passed in, or already active in this process, stays its owner's;
    otherwise one is made when the first task needs it and stopped by `close` or at the end of a `with`.

    On a local master a cancelled task notices within a tenth of a second and removes what it has written. On a cluster
    Spark kills the task's Python process some seconds later, and its files stay behind as orphans; unfinished ones on
    an object store were never visible."""

    def __init__(
        self,
        session: SparkSession | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        rewrite: Rewrite | None = None,
    ) -> None:
        self._open = None if session is None else spark_session.OpenSession(session=session, ours=False)
        self._conf = dict(conf or {})
        self._rewrite = rewrite
        self._cancelled = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stops the session if it was made here."""
        if self._open is not None and self._open.ours:
            self._open.close()
            self._open = None

    def cancel(self) -> None:
        # Spark itself is told by `run`: a signal handler must not talk to the JVM in the middle of something else.
        self._cancelled.set()

    def cores(self) -> int:
        return labels.cores(self._session())

    def run(self, tasks: Sequence[RewriteTask], context: RewriteContext, on_end: OnEnd) -> list[TaskResult]:
        if not tasks:
            return []
        self._check_cancelled(context)
        session = self._session()
        results = _Results(on_end)
        with interrupts.without_sparks_handler(), tempfile.TemporaryDirectory(prefix="iceberg-compaction-") as folder:
            self._perform(self._submission(session, context, Path(folder)), tasks, results)
        return [results.done[task.id] for task in tasks if task.id in results.done]

    def _perform(self, work: submission.Submission, tasks: Sequence[RewriteTask], results: _Results) -> None:
        cores = labels.cores(work.session)
        with futures.ThreadPoolExecutor(max_workers=cores, thread_name_prefix="spark-job") as threads:
            jobs = [threads.submit(work.perform, chunk) for chunk in chunks.build_chunks(tasks, cores)]
            try:
                waiting = set(jobs)
                while waiting:
                    self._check_cancelled(work.context)
                    done, waiting = futures.wait(waiting, submission.POLL_SECONDS, futures.FIRST_COMPLETED)
                    for job in done:
                        results.take(job)
            except BaseException:
                threads.shutdown(wait=False, cancel_futures=True)
                work.stop(jobs)
                results.take_finished(jobs)
                raise

    def _check_cancelled(self, context: RewriteContext) -> None:
        if self._cancelled.is_set():
            raise errors.CancelledError(f"Rewriting {context.table} was cancelled.")

    def _session(self) -> SparkSession:
        if self._open is None:
            self._open = spark_session.open_session(self._conf)
        return self._open.session

    def _submission(self, session: SparkSession, context: RewriteContext, folder: Path) -> submission.Submission:
        rewrite = self._rewrite
        if rewrite is None:
            from iceberg_compaction.execute.worker import execute_task

            rewrite = execute_task.rewrite
        marker = None
        if labels.is_connect(session) or not spark_session.is_local(session.sparkContext.master or ""):
            shipping.ship(session)
        else:
            marker = folder / "running"
            marker.touch()
        job = rows.Job(
            context=context,
            rewrite=rewrite,
            max_attempts=labels.max_attempts(session),
            unheard=1 if labels.speculates(session) else 0,
            marker=None if marker is None else str(marker),
        )
        return submission.Submission(session=session, job=job, marker=marker)


class _Results:
    """What became of tasks, each reported once."""

    def __init__(self, on_end: OnEnd) -> None:
        self.done: dict[int, TaskResult] = {}
        self._heard: set[int] = set()
        self._on_end = on_end

    def take(self, job: futures.Future[submission.Done]) -> None:
        """Reports what became of a job's tasks, or raises what kept Spark from performing it."""
        for end in job.result():
            if end.task_id not in self._heard:
                self._heard.add(end.task_id)
                if isinstance(end, TaskResult):
                    self.done[end.task_id] = end
                self._on_end(end)

    def take_finished(self, jobs: Sequence[futures.Future[submission.Done]]) -> None:
        """After a failure: what other jobs have brought to an end all the same."""
        for job in jobs:
            try:
                self.take(job)
            except (errors.CompactionError, futures.CancelledError):
                continue  # the first failure is the one that is raised
