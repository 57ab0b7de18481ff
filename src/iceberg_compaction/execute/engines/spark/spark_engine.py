"""Spark as the engine. Small jobs run side by side, as many as there are cores, so results arrive while others still
run; each job carries a few tasks to one executor core and brings their results back as rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute import perform_task
from iceberg_compaction.execute.engines.spark import spark_session, spark_work
from iceberg_compaction.execute.engines.spark.executors import probe, session_settings

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from pyspark.sql import SparkSession
    from typing_extensions import Self

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Job, Rewrite
    from iceberg_compaction.execute.engines.spark.early_start import EarlyStart
    from iceberg_compaction.execute.engines.spark.spark_session import Spark


class SparkEngine:
    """Performs tasks on Spark. A session that is passed in, or already active in this process, stays its owner's;
    otherwise one is made when the first task needs it, or taken from an early start, and stopped by `close` or at the
    end of a `with`.

    On a local master a cancelled task notices within a tenth of a second and removes what it has written. On a cluster
    Spark kills the task's Python process some seconds later, and its files stay behind as orphans; unfinished ones on
    an object store were never visible."""

    def __init__(
        self,
        session: SparkSession | None = None,
        conf: Mapping[str, str] | None = None,
        *,
        rewrite: Rewrite | None = None,
        early: EarlyStart | None = None,
        memory: int | None = None,
    ) -> None:
        self._memory = memory
        self._open = None if session is None else spark_session.OpenSession(spark=spark_session.of(session), ours=False)
        self._conf = dict(conf or {})
        self._rewrite = rewrite
        self._early = early
        self._settings: session_settings.SessionSettings | None = None  # of the open session
        self._checked = False  # whether executors can perform tasks

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
            self._open = self._settings = None

    @property
    def starting(self) -> str | None:
        if self._open is not None or (self._early is not None and self._early.ready):
            return None
        return spark_session.describe(self._early.conf if self._early else self._conf)

    def cores(self) -> int:
        return self._read_settings(self._spark()).cores

    def start(self, job: Job, *, cancel: CancelToken) -> spark_work.SparkWork:
        spark = self._spark()
        settings = self._read_settings(spark)
        rewrite = self._rewrite or perform_task.worker(
            settings.task_cores(len(job.tasks)), settings.memory_share(self._memory)
        )
        return spark_work.SparkWork(spark, settings, job, cancel, rewrite)

    def _read_settings(self, spark: Spark) -> session_settings.SessionSettings:
        if self._settings is None:
            self._settings = session_settings.read(spark)
        return self._settings

    def _spark(self) -> Spark:
        if self._open is None:
            self._open = self._early.opened() if self._early else spark_session.open_session(self._conf)
        if not self._checked:
            probe.check(self._open.spark)
            self._checked = True
        return self._open.spark
