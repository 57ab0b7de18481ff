"""A collector of OpenTelemetry over real HTTP. It keeps the spans and the names of metrics that arrive."""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

from opentelemetry.proto.collector.metrics.v1 import metrics_service_pb2
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2
from tests.factories import serving

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceivedSpan:
    """A span as it arrived, with ids as hexadecimal text."""

    name: str
    span_id: str
    parent_id: str
    trace_id: str
    attributes: dict[str, Any]
    failed: bool
    process: int | None  # that it comes from


@dataclass(slots=True, kw_only=True)
class Collector:
    """What has arrived so far."""

    endpoint: str = ""
    spans: list[ReceivedSpan] = field(default_factory=list)
    metrics: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def variables(self) -> dict[str, str]:
        """The environment of a process that sends here."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.endpoint}

    def named(self, name: str) -> list[ReceivedSpan]:
        with self._lock:
            return [span for span in self.spans if span.name == name]

    def wait_for(self, name: str, count: int, seconds: float = 30) -> list[ReceivedSpan]:
        """The spans of a name, when so many have arrived."""
        end = time.monotonic() + seconds
        while len(self.named(name)) < count and time.monotonic() < end:
            time.sleep(0.05)
        return self.named(name)

    def receive(self, path: str, body: bytes) -> None:
        with self._lock:
            if path.endswith("/traces"):
                self._receive_spans(trace_service_pb2.ExportTraceServiceRequest.FromString(body))
            elif path.endswith("/metrics"):
                request = metrics_service_pb2.ExportMetricsServiceRequest.FromString(body)
                self.metrics |= {
                    metric.name
                    for resource in request.resource_metrics
                    for scope in resource.scope_metrics
                    for metric in scope.metrics
                }

    def _receive_spans(self, request: Any) -> None:
        for resource in request.resource_spans:
            for span in (each for scope in resource.scope_spans for each in scope.spans):
                attributes = {pair.key: _plain(pair.value) for pair in span.attributes}
                self.spans.append(
                    ReceivedSpan(
                        name=span.name,
                        span_id=span.span_id.hex(),
                        parent_id=span.parent_span_id.hex(),
                        trace_id=span.trace_id.hex(),
                        attributes=attributes,
                        failed=span.status.code == 2,
                        process=attributes.get("process.pid"),
                    )
                )


def _plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@contextlib.contextmanager
def collecting() -> Iterator[Collector]:
    """A collector that listens on a port of its own."""
    collector = Collector()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            collector.receive(self.path, self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *said: Any) -> None:
            """Says nothing."""

    with serving.serving(serving.QuietServer(("127.0.0.1", 0), Handler)) as address:
        collector.endpoint = f"http://{address}"
        yield collector
