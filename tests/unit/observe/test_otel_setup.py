"""Which variables of OpenTelemetry ask for what, and what happens without a tracer."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iceberg_compaction.observe.tracing import otel_setup

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}


@pytest.mark.parametrize(
    ("environ", "traces", "metrics"),
    [
        ({}, None, None),
        ({"OTEL_SERVICE_NAME": "x"}, None, None),
        (ENDPOINT, "otlp_proto_http", "otlp_proto_http"),
        (ENDPOINT | {"OTEL_SDK_DISABLED": "true"}, None, None),
        (ENDPOINT | {"OTEL_METRICS_EXPORTER": "none"}, "otlp_proto_http", None),
        (ENDPOINT | {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "otlp_proto_grpc", "otlp_proto_grpc"),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://t:1"}, "otlp_proto_http", None),
        ({"OTEL_TRACES_EXPORTER": "console"}, "console", None),
    ],
)
def test_variables_name_the_exporters(environ: dict[str, str], traces: str | None, metrics: str | None) -> None:
    assert otel_setup._exporter_name(environ, "TRACES") == traces
    assert otel_setup._exporter_name(environ, "METRICS") == metrics


def run(code: str) -> str:
    """What a process of its own prints."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip() + done.stderr.strip()


def test_an_exporter_that_no_package_has_is_one_warning() -> None:
    code = (
        "from iceberg_compaction.observe.tracing import otel_setup as o; o.set_up({'OTEL_TRACES_EXPORTER': 'pigeon'})"
    )
    assert run(code) == (
        "OpenTelemetry could not be set up: LookupError: no installed package has the exporter 'pigeon' for traces"
    )


def test_an_executor_without_the_package_performs_tasks_without_spans() -> None:
    code = """
import sys
sys.modules["opentelemetry"] = None  # not installed
from iceberg_compaction.observe.tracing import otel_setup, spans
otel_setup.set_up({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"})
with spans.of_task({"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}, {}) as span:
    print(span)
otel_setup.flush()
"""
    assert run(code) == "None"


def test_a_collector_that_does_not_answer_holds_nobody_up() -> None:
    code = """
import threading
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider, export
from iceberg_compaction.observe.tracing import otel_setup, spans

class Silent(export.SpanExporter):
    def export(self, spans):
        threading.Event().wait()

provider = TracerProvider(shutdown_on_exit=False)
provider.add_span_processor(export.BatchSpanProcessor(Silent()))
trace.set_tracer_provider(provider)
with spans.of_run("db.t", "r"):
    pass
otel_setup.flush(0.1)
"""
    lost = "Spans or metrics may be lost: the collector of OpenTelemetry took more than 0.1 s."
    assert run(code) == lost


def test_metrics_without_their_package_are_a_fault_of_the_setup_with_its_remedy() -> None:
    code = """
import sys
sys.modules["prometheus_client"] = None  # not installed
from iceberg_compaction import RunMetrics
from iceberg_compaction.errors import SetupError
try:
    RunMetrics(port="0")
except SetupError as error:
    print(error)
"""
    assert run(code) == (
        "Metrics need prometheus_client, which this Python does not have: pip install 'iceberg-compaction[metrics]'."
    )
