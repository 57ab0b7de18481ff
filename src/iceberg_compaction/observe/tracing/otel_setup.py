"""Sets OpenTelemetry up by its own variables, OTEL_*, for a process that is ours: a command, or an executor. A process
that has set it up already is left as it is. Nothing is imported unless the variables ask for it."""

from __future__ import annotations

import contextlib
import logging
import sys
import threading
from importlib import metadata, util
from typing import TYPE_CHECKING, Any

from iceberg_compaction.observe.tracing import otel_state

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_log = logging.getLogger(__name__)
_PROTOCOLS = {"grpc": "otlp_proto_grpc", "http/protobuf": "otlp_proto_http"}
_DEFAULT_PROTOCOL = "http/protobuf"
_SERVICE = "iceberg-compaction"
_PROVIDERS = (("trace", "get_tracer_provider"), ("metrics", "get_meter_provider"))
_TASK_SECONDS = 2.0  # that a task on an executor waits for a collector at most
END_SECONDS = 5.0  # the same for the end of a command


def set_up(environ: Mapping[str, str]) -> None:
    """Make the providers that the variables ask for. What cannot be made is one line in the log."""
    traces, figures = _exporter_name(environ, "TRACES"), _exporter_name(environ, "METRICS")
    if traces is None and figures is None:
        return
    if util.find_spec("opentelemetry") is None or util.find_spec("opentelemetry.sdk") is None:
        _log.info("OTEL_* is set, but opentelemetry-sdk is not installed: pip install 'iceberg-compaction[otel]'")
        return
    _quieten()
    try:
        if traces is not None and not otel_state.has_tracer():
            _set_up_traces(traces, environ)
        if figures is not None and not otel_state.has_meter():
            _set_up_metrics(figures, environ)
    except Exception as error:  # noqa: BLE001 - spans inform, and never fail a run
        _log.warning("OpenTelemetry could not be set up: %s: %s", type(error).__name__, error)


def flush(seconds: float = _TASK_SECONDS) -> None:
    """Send what is waiting, before this process ends or may be killed. A collector that is away holds nobody up for
    longer than this: the SDK itself does not keep to a time."""
    waiting = [_Sending(module, getter) for module, getter in _PROVIDERS if otel_state.is_set_up(module, getter)]
    for sending in waiting:
        sending.start()
    gathering = threading.Thread(target=_join_all, args=(waiting,), daemon=True)
    gathering.start()
    gathering.join(seconds)
    if gathering.is_alive():
        _log.warning("Spans or metrics may be lost: the collector of OpenTelemetry took more than %g s.", seconds)


def _join_all(threads: Sequence[threading.Thread]) -> None:
    for thread in threads:
        thread.join()


class _Sending(threading.Thread):
    """Sends what one provider has. The process may end meanwhile."""

    def __init__(self, signal: str, getter: str) -> None:
        super().__init__(daemon=True, name=f"opentelemetry-{signal}")
        self._provider: Any = getattr(sys.modules[f"opentelemetry.{signal}"], getter)()

    def run(self) -> None:
        if hasattr(self._provider, "force_flush"):
            with contextlib.suppress(Exception):  # spans inform, and never fail a run
                self._provider.force_flush()


def join(environ: Mapping[str, str]) -> None:
    """Go on with the trace that a caller names in TRACEPARENT, as schedulers and CI servers do."""
    parent = {name: environ[name.upper()] for name in ("traceparent", "tracestate") if environ.get(name.upper())}
    if parent and otel_state.has_tracer():
        from opentelemetry import context, propagate

        context.attach(propagate.extract(parent))


def _exporter_name(environ: Mapping[str, str], signal: str) -> str | None:
    """The name that packages register an exporter by; None: the variables ask for none."""
    if environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    chosen = environ.get(f"OTEL_{signal}_EXPORTER", "").strip().lower()
    endpoint = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_ENDPOINT") or environ.get("OTEL_EXPORTER_OTLP_ENDPOINT")
    if chosen == "none" or not (chosen or endpoint):
        return None
    if chosen not in ("", "otlp"):
        return chosen
    protocol = environ.get(f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL") or environ.get("OTEL_EXPORTER_OTLP_PROTOCOL")
    return _PROTOCOLS.get(protocol or _DEFAULT_PROTOCOL, protocol)


def _exporter(name: str, signal: str) -> Any:
    for entry in metadata.entry_points(group=f"opentelemetry_{signal}_exporter", name=name):
        return entry.load()()
    raise LookupError(f"no installed package has the exporter {name!r} for {signal}")


def _set_up_traces(name: str, environ: Mapping[str, str]) -> None:
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider, export

    exporter = _exporter(name, "traces")
    provider = TracerProvider(resource=_resource(environ), shutdown_on_exit=False)  # see `flush`
    provider.add_span_processor(export.BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)


def _set_up_metrics(name: str, environ: Mapping[str, str]) -> None:
    from opentelemetry import metrics
    from opentelemetry.sdk.metrics import MeterProvider, export

    exporter = _exporter(name, "metrics")
    pulled = isinstance(exporter, export.MetricReader)
    reader = exporter if pulled else export.PeriodicExportingMetricReader(exporter)
    metrics.set_meter_provider(MeterProvider([reader], resource=_resource(environ), shutdown_on_exit=False))


def _resource(environ: Mapping[str, str]) -> Any:
    from opentelemetry.sdk import resources

    named = environ.get("OTEL_SERVICE_NAME") or "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    return resources.Resource.create({} if named else {"service.name": _SERVICE})


def _quieten() -> None:
    """A collector that is away is one line, however often a batch is lost."""
    heard: set[str] = set()

    def once(record: logging.LogRecord) -> bool:
        first = record.name not in heard
        heard.add(record.name)
        record.exc_info = record.exc_text = None
        return first

    for name in ("sdk.metrics", "sdk._shared_internal", "exporter.otlp.proto.http.trace_exporter"):
        logging.getLogger(f"opentelemetry.{name}").addFilter(once)
    logging.getLogger("opentelemetry.exporter.otlp.proto.http.metric_exporter").addFilter(once)
