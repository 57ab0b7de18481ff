"""A job on Spark, from its first Spark job to its last. Threads submit the Spark jobs, as many at a time as there are
cores, so that results arrive while others run and while the caller commits."""

from __future__ import annotations

import contextlib
import tempfile
import time
from concurrent import futures
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import (
    chunks,
    interrupts,
    rows,
    shipping,
    spark_session,
    submission,
)
from iceberg_compaction.execute.engines.spark.executors import driver_address
from iceberg_compaction.model.rewrite_task import TaskResult

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark import Broadcast
    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Job, Rewrite, TaskEnd
    from iceberg_compaction.execute.engines import progress_channel
    from iceberg_compaction.execute.engines.spark.executors import session_settings
    from iceberg_compaction.execute.engines.spark.spark_session import Spark
    from iceberg_compaction.model.listing_task import KnownHashes

_REPORT_SECONDS = 0.5


class SparkWork:
    """Begins with the `with`, and has stopped at its end."""

    def __init__(
        self,
        spark: Spark,
        settings: session_settings.SessionSettings,
        job: Job,
        cancel: CancelToken,
        rewrite: Rewrite,
    ) -> None:
        self.staged: list[TaskResult] = []
        self._spark = spark
        self._settings = settings
        self._job = job
        self._cancel = cancel
        self._rewrite = rewrite
        self._heard: set[int] = set()  # tasks
        self._spark_jobs: list[futures.Future[submission.Done]] = []
        self._listener: progress_channel.ReportListener | None = None
        self._reported = 0.0
        self._open = ExitStack()

    def __enter__(self) -> Self:
        self._cancel.check()
        try:
            self._open.enter_context(interrupts.without_sparks_handler())
            folder = self._open.enter_context(tempfile.TemporaryDirectory(prefix="iceberg-compaction-"))
            reports = self._listen()
            self._submit(self._submission(Path(folder), reports))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *raised: object) -> None:
        self._open.close()

    def results(self) -> Iterator[TaskEnd]:
        waiting = set(self._spark_jobs)
        while waiting:
            self._cancel.check()
            self._report()
            done, waiting = futures.wait(waiting, submission.POLL_SECONDS, futures.FIRST_COMPLETED)
            for spark_job in done:
                yield from self._take(spark_job)

    def _listen(self) -> progress_channel.Address | None:
        if self._job.on_progress is None:
            return None
        self._listener = driver_address.listener(self._spark)
        return None if self._listener is None else self._open.enter_context(self._listener).address

    def _report(self) -> None:
        """Progress within tasks, in the thread that takes the results."""
        if self._job.on_progress is not None and time.monotonic() >= self._reported + _REPORT_SECONDS:
            self._reported = time.monotonic()
            news = {} if self._listener is None else self._listener.take()
            self._job.on_progress({task: done for task, done in news.items() if task not in self._heard})

    def _submission(self, folder: Path, reports: progress_channel.Address | None) -> submission.Submission:
        marker = None
        if not self._settings.runs_here:
            shipping.ship(self._spark)
        else:
            marker = folder / "running"
            marker.touch()
        shared = rows.Shared(
            context=self._job.context,
            rewrite=self._rewrite,
            max_attempts=self._settings.max_attempts,
            unheard=1 if self._settings.speculates else 0,
            marker=None if marker is None else str(marker),
            reports=reports,
        )
        return submission.Submission(spark=self._spark, shared=shared, marker=marker, hashes=self._broadcast())

    def _broadcast(self) -> Broadcast[KnownHashes] | None:
        """Spark Connect has no such thing; there, the hashes travel with every job."""
        hashes = self._job.context.known_hashes
        if hashes is None or spark_session.is_connect(self._spark):
            return None
        sent = self._spark.broadcast(hashes)
        self._open.callback(_forget, sent)
        return sent

    def _submit(self, work: submission.Submission) -> None:
        cores = self._settings.cores
        threads = futures.ThreadPoolExecutor(max_workers=cores, thread_name_prefix="spark-job")
        self._open.enter_context(threads)
        self._open.callback(self._stop, work, threads)
        for chunk in chunks.build_chunks(self._job.tasks, cores):
            self._spark_jobs.append(threads.submit(work.perform, chunk))

    def _stop(self, work: submission.Submission, threads: futures.ThreadPoolExecutor) -> None:
        """Ends the Spark jobs that still run, and takes the results of those that have ended all the same."""
        threads.shutdown(wait=False, cancel_futures=True)
        if not all(spark_job.done() for spark_job in self._spark_jobs):
            work.stop(self._spark_jobs)
        for spark_job in self._spark_jobs:
            try:
                self._take(spark_job)
            except (Exception, futures.CancelledError):  # noqa: BLE001 - the first failure is the one that is raised
                continue

    def _take(self, spark_job: futures.Future[submission.Done]) -> list[TaskEnd]:
        """The ends of a Spark job's tasks, each once. Raises the error that kept Spark from performing the job."""
        ends = [end for end in spark_job.result() if end.task_id not in self._heard]
        self._heard.update(end.task_id for end in ends)
        self.staged += [end for end in ends if isinstance(end, TaskResult)]
        return ends


def _forget(sent: Broadcast[KnownHashes]) -> None:
    """Frees the memory and the disks of executors: a session may outlive the work."""
    with contextlib.suppress(Exception):  # of a lost JVM, which has freed all
        sent.destroy()
