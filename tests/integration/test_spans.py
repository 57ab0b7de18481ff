"""Spans of real runs: the tree from a run to its tasks, in one process and over the border of processes, sent to a
collector over HTTP. Each process of its own, because a process sets OpenTelemetry up once."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import collector as collectors
from tests.factories import lake as lakes

if TYPE_CHECKING:
    from collections.abc import Iterator

# A library user who has set up the SDK in the process, as an application does.
IN_PROCESS = """
import json, sys
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from iceberg_compaction import Compactor

exporter, provider = InMemorySpanExporter(), TracerProvider()
provider.add_span_processor(SimpleSpanProcessor(exporter))
trace.set_tracer_provider(provider)
uri, warehouse, *tables = sys.argv[1:]
from iceberg_compaction import CatalogSettings
with trace.get_tracer("app").start_as_current_span("nightly"):
    with Compactor(CatalogSettings(uri=uri, warehouse=warehouse), engine="inline") as compactor:
        for table in tables:
            try:
                compactor.compact_table(table)
            except Exception:
                pass
print(json.dumps([
    {"name": span.name, "id": span.context.span_id, "parent": span.parent and span.parent.span_id,
     "status": span.status.status_code.name, "events": len(span.events), **span.attributes}
    for span in exporter.get_finished_spans()
]))
"""


@pytest.fixture
def table(local_lake: lakes.Lake) -> str:
    name = local_lake.name("t")
    lakes.append_small_files(lakes.make_table(local_lake.catalog, name), 6)
    return name


@pytest.fixture
def collector() -> Iterator[collectors.Collector]:
    with collectors.collecting() as collector:
        yield collector


def compact(lake: lakes.Lake, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    where = ["--catalog-uri", str(lake.settings.uri), "--warehouse", str(lake.settings.warehouse)]
    return subprocess.run(
        [sys.executable, "-m", "iceberg_compaction", "run", *where, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        stdin=subprocess.DEVNULL,
        timeout=240,
        check=False,
    )


def in_process(lake: lakes.Lake, *tables: str) -> list[dict[str, Any]]:
    args = [sys.executable, "-c", IN_PROCESS, str(lake.settings.uri), str(lake.settings.warehouse), *tables]
    done = subprocess.run(args, capture_output=True, text=True, check=True, timeout=240)
    spans: list[dict[str, Any]] = json.loads(done.stdout)
    return spans


def test_a_run_is_a_tree_of_spans_under_that_of_the_application(local_lake: lakes.Lake, table: str) -> None:
    spans = in_process(local_lake, table)
    by_name = {span["name"]: span for span in spans}
    names = {span["id"]: span["name"] for span in spans}
    assert {span["name"]: names.get(span["parent"]) for span in spans} == {
        "nightly": None,
        "compact_table": "nightly",
        "planning": "compact_table",
        "execution": "compact_table",
        "task": "execution",
        "commit": "compact_table",
    }
    run = by_name["compact_table"]
    assert (run["table_name"], run["strategy"], run["outcome"]) == (table, "small-files", "compacted")
    assert (by_name["execution"]["partitions"], by_name["execution"]["total_files"]) == (1, 6)
    assert by_name["task"]["files"] == 6


def test_a_run_that_fails_has_the_class_of_its_error_and_no_sentence(local_lake: lakes.Lake, table: str) -> None:
    for path in local_lake.catalog.load_table(table).inspect.files()["file_path"].to_pylist():
        with open(path.removeprefix("file://"), "wb") as file:
            file.write(b"damaged")
    spans = {span["name"]: span for span in in_process(local_lake, table, local_lake.name("missing"))}
    assert spans["task"]["status"] == "ERROR"
    assert spans["compact_table"]["status"] == "ERROR"
    assert {span["events"] for span in spans.values()} == {0}


def test_a_command_sends_spans_and_metrics_by_the_variables_of_opentelemetry(
    local_lake: lakes.Lake, table: str, collector: collectors.Collector
) -> None:
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    flags = ["--engine", "inline", "--table", table, "--log-format", "json", "-v"]
    done = compact(local_lake, *flags, **collector.variables(), TRACEPARENT=parent)
    assert done.returncode == 0, done.stderr
    (run,) = collector.wait_for("compact_table", 1)
    (task,) = collector.named("task")
    assert (run.trace_id, run.parent_id) == tuple(parent.split("-")[1:3])
    assert task.parent_id == collector.named("execution")[0].span_id
    assert "iceberg_compaction.files_compacted" in collector.metrics
    lines = [json.loads(line) for line in done.stderr.splitlines()]
    assert {line["trace_id"] for line in lines if "run_id" in line} == {run.trace_id}


@pytest.mark.spark
def test_tasks_on_spark_are_spans_of_their_own_process_under_the_execution(
    local_lake: lakes.Lake, table: str, collector: collectors.Collector
) -> None:
    done = compact(local_lake, "--table", table, "--conf", "spark.master=local[2]", **collector.variables())
    assert done.returncode == 0, done.stderr
    (execution,) = collector.wait_for("execution", 1)
    (task,) = collector.wait_for("task", 1)
    assert (task.parent_id, task.trace_id) == (execution.span_id, execution.trace_id)
    assert task.attributes["table_name"] == table


def test_a_collector_that_is_away_is_one_line_and_fails_nothing(local_lake: lakes.Lake, table: str) -> None:
    away = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_EXPORTER_OTLP_TIMEOUT": "1"}
    done = compact(local_lake, "--engine", "inline", "--table", table, "--no-progress", **away)
    assert done.returncode == 0, done.stderr
    assert len(done.stderr.splitlines()) <= 2, done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_variables_nothing_of_opentelemetry_is_loaded(local_lake: lakes.Lake, table: str) -> None:
    code = "\n".join(
        [
            "import sys",
            "from iceberg_compaction import CatalogSettings, Compactor",
            "uri, warehouse, table = sys.argv[1:]",
            "catalog = CatalogSettings(uri=uri, warehouse=warehouse)",
            "assert Compactor(catalog, engine='inline').compact_table(table).snapshot_id",
            "print([name for name in sys.modules if 'opentelemetry' in name or 'prometheus' in name])",
        ]
    )
    args = [str(local_lake.settings.uri), str(local_lake.settings.warehouse), table]
    done = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True, check=True, timeout=240)
    assert done.stdout.strip() == "[]"
