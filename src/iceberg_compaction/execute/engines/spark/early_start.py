"""A session that opens while the caller does something else, such as planning. A thread starts the JVM and the context
and has the Python workers import their modules. Errors are raised where the session is first used; a session that
nobody uses ends without a word."""

from __future__ import annotations

import logging
import sys
import threading
from concurrent import futures
from contextlib import suppress
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import daemon, early_daemon, jvm, spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from typing_extensions import Self

    from iceberg_compaction.execute.engines.spark.spark_session import OpenSession, Spark

_END_SECONDS = 15.0  # for a context that is half made
_log = logging.getLogger(__name__)


class EarlyStart:
    """Begins with the `with`, and ends the session with it. On a cluster only the JVM comes up early, because an
    application that nobody needs would show there; on Spark Connect there is nothing to begin."""

    def __init__(self, conf: Mapping[str, str]) -> None:
        self.conf = dict(conf)
        spark_session.check_packages(self.conf)
        self._daemon = early_daemon.EarlyDaemon()
        self._jvm = jvm.Jvm(self._daemon.variables)
        self._session: futures.Future[OpenSession] = futures.Future()
        self._local = spark_session.is_embedded(self.conf)
        work = self._open if self._local else self._launch
        self._thread = threading.Thread(target=work, daemon=True, name="spark-start")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session.done() and self._session.exception() is None:
            self._session.result().close()
        elif self._jvm.end():  # else a context that is half made would have to be awaited
            spark_session.forget()
        self._thread.join(_END_SECONDS)
        if self._thread.is_alive():
            self._jvm.kill()
        self._daemon.close()

    @property
    def ready(self) -> bool:
        """Whether nobody has to wait for the session."""
        return self._session.done()

    def opened(self) -> OpenSession:
        """The session, as soon as it is open. Raises the error that kept it from opening."""
        if not self._local and not self._session.done():
            self._thread.join()  # while it starts the JVM, the environment looks like that of spark-submit
            self._session.set_result(spark_session.open_session(self.conf, self._jvm))
        return self._session.result()

    def _launch(self) -> None:
        with suppress(Exception):  # raised where the session is opened
            spark_session.launch(self.conf, self._jvm)

    def _open(self) -> None:
        try:
            if spark_session.needs_daemon(self.conf):
                command = (*jvm.WITHOUT_INTERRUPTS, sys.executable, "-m", *daemon.arguments())
                self._daemon.start(command, spark_session.worker_environment(self.conf))
            session = spark_session.open_session(self.conf, self._jvm)
        except BaseException as error:  # noqa: BLE001 - raised by `opened`
            self._session.set_exception(error)
            return
        self._session.set_result(session)
        if session.ours:
            _warm_up(session.spark)


def _warm_up(spark: Spark) -> None:
    """A job without a task of ours: the first one has the JVM load its scheduler and start the process that workers
    are forked from."""
    assert not spark_session.is_connect(spark)
    try:
        spark.setJobDescription("iceberg-compaction: start of the Python workers")
        spark.parallelize([0], 1).mapPartitions(list).collect()
    except Exception as error:  # noqa: BLE001 - of a session that ends already, or that the first task will meet again
        _log.debug("warming up Spark failed: %s", type(error).__name__)
