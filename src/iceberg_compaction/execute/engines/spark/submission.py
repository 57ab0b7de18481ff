"""The Spark jobs of one run: one chunk of tasks each, submitted from as many threads as there are cores, and stopped
together. Chunks come in; results and failures go out; Spark's own errors are translated here."""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import threading
from concurrent import futures
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure
from iceberg_compaction.execute.engines.spark import chunks, labels, rows, spark_session

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from pyspark import Broadcast

    from iceberg_compaction.execute.engine_door import TaskEnd
    from iceberg_compaction.execute.engines.spark.spark_session import Spark
    from iceberg_compaction.model.listing_task import KnownHashes
    from iceberg_compaction.model.rewrite_task import RewriteContext

log = logging.getLogger(__name__)

POLL_SECONDS = 0.1  # how long a cancel or Ctrl-C may go unnoticed
_GRACE_SECONDS = 5.0  # for a worker to come out of a long write and to remove its files
_STACK_TRACES = ("JVM stacktrace:", "Driver stacktrace:")

# Spark has tried often enough: it is the task that does not come to an end, and not Spark that does not work.
_GAVE_UP = re.compile(r"Task \S+ in stage \S+ failed \d+ times")
_NO_PYTHON = ("ModuleNotFoundError", "ImportError")  # no task would come further

Done: TypeAlias = "list[TaskEnd]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Submission:
    """Everything that the jobs of a run share."""

    spark: Spark
    shared: rows.Shared
    tag: str = field(default_factory=lambda: f"iceberg-compaction-{secrets.token_hex(8)}")
    hashes: Broadcast[KnownHashes] | None = None  # those of the context, which may be large: sent once for all jobs
    marker: Path | None = None  # workers that see this file vanish stop by themselves
    stopping: threading.Event = field(default_factory=threading.Event)
    failed: set[int] = field(default_factory=set)  # groups

    @property
    def context(self) -> RewriteContext:
        return self.shared.context

    def perform(self, chunk: chunks.TaskChunk) -> Done:
        """One Spark job from start to end, in a thread of its own. Tasks that take their executor with them until Spark
        gives up do not fail the others of the chunk: each is tried once more, by itself."""
        return self._perform(chunk, self.shared)

    def _perform(self, chunk: chunks.TaskChunk, shared: rows.Shared) -> Done:
        left = chunk.without(self.failed)
        if not left.tasks:
            return []
        try:
            ends = self._submit(left, shared)
        except _GaveUpError as error:
            if len(left.tasks) > 1:
                again = replace(shared, unheard=shared.unheard + shared.max_attempts)
                return [end for one in left.alone() for end in self._perform(one, again)]
            ends = [task_failure.lost(str(error), left.tasks[0])]
        self.failed.update(end.group_id for end in ends if isinstance(end, task_failure.Failure))
        return ends

    def _submit(self, chunk: chunks.TaskChunk, shared: rows.Shared) -> Done:
        if self.stopping.is_set():
            raise errors.CancelledError(f"Rewriting {self.context.table} was stopped.")
        description = chunk.describe(self.context.table)
        try:
            labels.label(self.spark, description, self.tag)
            if spark_session.is_connect(self.spark):
                return rows.on_connect(self.spark, chunk.tasks, shared)
            return rows.on_context(self.spark, chunk.tasks, shared, self.hashes)
        except Exception as error:  # Spark's errors, py4j's and gRPC's share no class
            message = task_failure.clean(gist(str(error)), self.context)
            own = _GAVE_UP.search(str(error)) and not any(name in str(error) for name in _NO_PYTHON)
            kind = _GaveUpError if own else errors.ExecuteError
            raise kind(f"Spark job '{description}' failed: {message}{_hint(message)}") from error
        finally:
            with contextlib.suppress(Exception):  # of a lost JVM: it must not hide why the job failed
                labels.unlabel(self.spark, self.tag)

    def stop(self, jobs: Collection[futures.Future[Done]]) -> None:
        """Ends the running jobs and waits for their threads: gently where workers see the marker, else by Spark."""
        self.stopping.set()
        running = [job for job in jobs if not job.done()]  # `wait` would wait for cancelled ones for ever
        if self.marker is not None:
            self.marker.unlink(missing_ok=True)
            futures.wait(running, _GRACE_SECONDS)
        while not all(job.done() for job in running):
            # Again and again, because a job that a thread was just about to start is not known to Spark yet.
            try:
                labels.stop(self.spark, self.tag)
            except Exception as error:  # noqa: BLE001 - a lost JVM or server has ended the jobs, too
                log.debug("cancelling Spark jobs failed: %s", type(error).__name__)
            futures.wait(running, POLL_SECONDS)


class _GaveUpError(errors.ExecuteError):
    """Spark has given up on a job after as many attempts as it makes."""


def _hint(message: str) -> str:
    """A session that was passed in has workers of its own choice of Python, which may lack modules that a task
    needs; and the memory of an executor's Java does not include Python's."""
    if "ExecutorLostFailure" in message:
        return "; if it was for memory, spark.executor.memoryOverhead gives tasks more"
    if "ModuleNotFoundError" not in message:
        return ""
    return "; Spark's workers run another Python: set PYSPARK_PYTHON to one with iceberg-compaction before the session"


def gist(text: str) -> str:
    """The line of a Spark error that names the cause: a Python traceback's last line, else the message of the innermost
    Java exception in the first line."""
    for marker in _STACK_TRACES:
        text = text.split(marker)[0]
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith((" ", "\t"))]
    lines = [line for line in lines if not line.startswith("An error occurred while calling ")]  # py4j's preface
    if not lines:
        return "no message."
    if any(line.endswith("Traceback (most recent call last):") for line in lines):
        return lines[-1]
    return lines[0].rpartition("Exception: ")[2]
