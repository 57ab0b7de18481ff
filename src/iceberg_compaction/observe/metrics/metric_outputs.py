"""The ways of metrics to Prometheus while a command is at work: a port, a file, a gateway. A thread writes now and
then, so that no run waits. Trouble is one line in the log, and never fails a run."""

from __future__ import annotations

import contextlib
import logging
import threading
from pathlib import Path
from typing import TYPE_CHECKING

import prometheus_client

from iceberg_compaction.observe.metrics import prometheus_text, push_gateway, textfile

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Self

    from iceberg_compaction.observe.metrics.metric_settings import MetricsSettings
    from iceberg_compaction.observe.metrics.metric_values import Snapshot

_EVERY_SECONDS = 15.0
_POLL_SECONDS = 0.1
END_SECONDS = 10.0  # that the end of a command waits for the last values to arrive
_log = logging.getLogger(__name__)


class MetricOutputs:
    """From the begin of a command to its end."""

    def __init__(self, settings: MetricsSettings, snapshot: Callable[[], Snapshot]) -> None:
        self._settings = settings
        self._snapshot = snapshot
        self._collector = prometheus_text.Collector(snapshot)
        self._file = None if settings.file is None else textfile.Textfile(Path(settings.file), settings.tables)
        self._gateway = None if settings.push is None else push_gateway.PushGateway(settings.push)
        self._open = contextlib.ExitStack()
        self._ended = threading.Event()
        self._troubled: set[str] = set()
        self.port: int | None = None  # that is open

    def __enter__(self) -> Self:
        if self._settings.port is not None:
            self._serve(self._settings.address or "0.0.0.0", self._settings.port)
        if self._file is not None or self._gateway is not None:
            thread = threading.Thread(target=self._write_often, daemon=True, name="metrics")
            thread.start()
            self._open.callback(self._wait_for, thread)
            self._open.callback(self._ended.set)
        return self

    def __exit__(self, *raised: object) -> None:
        """Everything that the command did is written or pushed at its end; a port has a while to be scraped."""
        before, waited = self._collector.scrapes, 0.0
        while self.port is not None and self._collector.scrapes == before and waited < self._settings.wait:
            waited += _POLL_SECONDS
            self._ended.wait(_POLL_SECONDS)
        self._open.close()

    def begin(self, tables: Sequence[str]) -> None:
        """These are the tables that the command is about."""
        if self._gateway is not None:
            self._gateway.begin(tables)

    def _serve(self, address: str, port: int) -> None:
        registry = prometheus_client.CollectorRegistry(auto_describe=False)
        registry.register(self._collector)
        try:
            server, thread = prometheus_client.start_http_server(port, addr=address, registry=registry)
        except OSError as error:
            _log.warning("Metrics cannot be scraped: port %d of this machine: %s", port, error.strerror or error)
            return
        self.port = server.server_port
        self._open.callback(thread.join)
        self._open.callback(server.server_close)
        self._open.callback(server.shutdown)

    def _wait_for(self, thread: threading.Thread) -> None:
        """The values of the end. A gateway that answers by the drop, or another process that keeps the lock of the
        file, does not hold the command."""
        thread.join(END_SECONDS)
        if thread.is_alive():
            _log.warning("The last metrics may be lost: they were not taken within %g s.", END_SECONDS)

    def _write_often(self) -> None:
        while not self._ended.wait(_EVERY_SECONDS):
            self._write()
        self._write()

    def _write(self) -> None:
        now = self._snapshot()
        if self._file is not None:
            with self._one_warning(f"written to {self._settings.file}"):
                self._file.write(now)
        if self._gateway is not None:
            with self._one_warning(f"pushed to {self._gateway.host}"):
                self._gateway.push(now)

    @contextlib.contextmanager
    def _one_warning(self, aim: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # noqa: BLE001 - metrics inform, and never fail a run
            level = logging.DEBUG if aim in self._troubled else logging.WARNING
            self._troubled.add(aim)
            _log.log(level, "Metrics cannot be %s: %s", aim, _reason(error))


def _reason(error: Exception) -> str:
    """Without the URL, which may hold a password."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    response = getattr(error, "response", None)
    if response is not None:
        return f"the gateway answers {response.status_code}"
    return str(error) if isinstance(error, ValueError) and type(error) is ValueError else type(error).__name__
