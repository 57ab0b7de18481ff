"""Metrics of real runs: scraped from a port, read from a file, pushed to a gateway. Each of the names that people know
from elsewhere is there, and trouble with an output never fails a run."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import subprocess
import sys
import threading
import urllib.request
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import servers, serving

from iceberg_compaction import Compactor
from iceberg_compaction.observe.metrics import metric_list, metric_outputs, prometheus_text
from iceberg_compaction.observe.metrics.run_metrics import RunMetrics

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.observe.metrics.metric_values import Snapshot

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "metrics.md"
TABLES = ("a", "b")


def fill(lake: lakes.Lake, *names: str) -> list[str]:
    for name in names:
        lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(name)), 6)
    return [lake.name(name) for name in names]


def scrape(port: int | None) -> str:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def command(lake: lakes.Lake, *args: str, **environ: str) -> subprocess.CompletedProcess[str]:
    where = ["--catalog-uri", str(lake.settings.uri), "--warehouse", str(lake.settings.warehouse), "--engine", "inline"]
    return subprocess.run(
        [sys.executable, "-m", "iceberg_compaction", "run", *where, *args],
        capture_output=True,
        text=True,
        env={**os.environ, **environ},
        timeout=240,
        check=False,
    )


def known_names() -> dict[str, str]:
    """The names of the mapping page, each with the name of ours."""
    section = PAGE.read_text().partition("## Names that you may know")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `([^`]+)`", section, re.MULTILINE)
    return dict(rows)


@pytest.mark.server
def test_each_name_of_the_mapping_is_scraped_after_real_runs(s3_lake: lakes.Lake) -> None:
    name = fill(s3_lake, "t")[0]
    with (
        RunMetrics(port="127.0.0.1:0") as metrics,
        Compactor(s3_lake.settings, engine="inline", on_event=metrics.on_event) as compactor,
    ):
        assert compactor.compact_table(name).ok
        text = scrape(metrics.port)
    names = known_names()
    assert len(names) == 19  # twenty, of which one stands in both lists
    families = set(re.findall(r"^# TYPE (\w+)", text, re.MULTILINE))
    rules = (PAGE.parents[2] / "deploy" / "monitoring" / "rules.yml").read_text()
    for known, ours in names.items():
        recorded = ":" in ours
        assert f"record: {ours}\n" in rules if recorded else ours.partition("{")[0] in families, known
    values = prometheus_text.parse(text)
    assert values[metric_list.REQUESTS, ("get",)] > 0
    assert values[metric_list.REQUESTS, ("put",)] > 0
    assert values[metric_list.COST, (name,)] > 0
    assert values[metric_list.TASK_SECONDS, (name,)] > 0


def test_the_page_lists_each_metric_with_its_type_unit_and_labels() -> None:
    rows = {
        f"| `{metric.full_name}` | {metric.kind.value} | {metric.unit.strip('{}')} | "
        f"{', '.join(f'`{label}`' for label in metric.labels)} | {metric.help} |".replace("|  |", "| |")
        for metric in metric_list.METRICS
    }
    assert rows - set(PAGE.read_text().splitlines()) == set()


def run(lake: lakes.Lake, *tables: str, **outputs: str) -> None:
    """Compact tables in this process, as a command does."""
    with RunMetrics(**outputs) as metrics:
        metrics.expect(tables)
        with Compactor(lake.catalog, engine="inline", on_event=metrics.on_event) as compactor:
            for table in tables:
                compactor.compact_table(table)


def test_counters_of_a_file_go_on_from_run_to_run(local_lake: lakes.Lake, tmp_path: Path) -> None:
    first, second = fill(local_lake, *TABLES)
    file = tmp_path / "compaction.prom"
    for name in (first, second, second):
        run(local_lake, name, file=str(file))
    values = prometheus_text.parse(file.read_text())
    assert values[metric_list.RUNS, ("compacted", first)] == 1
    assert values[metric_list.RUNS, ("compacted", second)] == 1
    assert values[metric_list.RUNS, ("healthy", second)] == 1
    assert values[metric_list.FILES_COMPACTED, (second,)] == 6
    assert values[metric_list.ACTIVE, ()] == 0
    assert [path.name for path in tmp_path.iterdir() if "prom" in path.name] == ["compaction.prom"]
    assert file.stat().st_mode & 0o044 == 0o044  # node_exporter is another user


def test_processes_that_write_one_file_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    file = tmp_path / "compaction.prom"
    code = """
import sys
from pathlib import Path
from iceberg_compaction.observe.metrics import metric_list, metric_values, textfile
values, file = metric_values.MetricValues(), textfile.Textfile(Path(sys.argv[1]), 10)
for _ in range(30):
    values.add(metric_list.TASKS, 1, "done")
    values.observe(metric_list.TASK_DURATION, 1.0)
    file.write(values.snapshot())
"""
    processes = [subprocess.Popen([sys.executable, "-c", code, str(file)]) for _ in range(3)]
    assert [process.wait(120) for process in processes] == [0, 0, 0]
    values = prometheus_text.parse(file.read_text())
    assert values[metric_list.TASKS, ("done",)] == 90
    assert values[metric_list.TASK_DURATION, ()].total == 90  # type: ignore[union-attr]


def test_a_port_can_be_scraped_for_a_while_after_the_end(local_lake: lakes.Lake) -> None:
    (name,) = fill(local_lake, "t")
    port = servers.free_port()
    texts: list[str] = []

    def look() -> None:
        while not ended.wait(0.05):
            with contextlib.suppress(OSError):
                texts.append(scrape(port))

    ended = threading.Event()
    thread = threading.Thread(target=look)
    thread.start()
    done = command(local_lake, "--table", name, "--metrics-port", str(port), ICEBERG_COMPACTION_METRICS_WAIT="30s")
    ended.set()
    thread.join()
    assert done.returncode == 0, done.stderr
    assert f'iceberg_compaction_runs_total{{outcome="compacted",table="{name}"}} 1.0' in texts[-1]


class Gateway:
    """A push gateway as far as this program sees it: the last push of each group."""

    def __init__(self) -> None:
        self.groups: dict[str, str] = {}
        self.address = ""

    def text(self) -> str:
        lines = []
        for path, content in self.groups.items():
            words = path.split("/")[2:]
            extra = ",".join(f'{name}="{label}"' for name, label in zip(words[::2], words[1::2], strict=True))
            for line in content.splitlines():
                name, brace, rest = line.partition("{")
                if line.startswith("#"):
                    lines.append(line)
                elif brace:
                    lines.append(f'{name}{{{extra},instance="",{rest}')
                else:
                    lines.append(f'{line.split()[0]}{{{extra},instance=""}} {line.split()[1]}')
        return "\n".join(lines) + "\n"


@pytest.fixture
def gateway() -> Iterator[Gateway]:
    made = Gateway()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(made.text().encode())

        def do_PUT(self) -> None:
            made.groups[self.path] = self.rfile.read(int(self.headers["Content-Length"])).decode()
            self._answer(b"")

        def _answer(self, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *said: Any) -> None:
            """Says nothing."""

    with serving.serving(serving.QuietServer(("127.0.0.1", 0), Handler)) as address:
        made.address = address
        yield made


def values_of(gateway: Gateway, path: str) -> Snapshot:
    return prometheus_text.parse(gateway.groups[path])


def test_counters_at_a_gateway_go_on_from_run_to_run(local_lake: lakes.Lake, gateway: Gateway) -> None:
    first, second = fill(local_lake, *TABLES)
    for tables in ([first], [first], [first, second]):
        run(local_lake, *tables, push=f"http://{gateway.address}")
    alone = values_of(gateway, f"/metrics/job/iceberg_compaction/scope/{first}")
    assert alone[metric_list.RUNS, ("compacted", first)] == 1
    assert alone[metric_list.RUNS, ("healthy", first)] == 1
    assert sum(alone[metric_list.RUN_DURATION, ("compacted",)].counts) == 1  # type: ignore[union-attr]
    several = values_of(gateway, "/metrics/job/iceberg_compaction/scope/several")
    assert several[metric_list.RUNS, ("compacted", second)] == 1


def test_the_url_of_a_gateway_may_name_the_group(local_lake: lakes.Lake, gateway: Gateway) -> None:
    run(local_lake, *fill(local_lake, "t"), push=f"http://{gateway.address}/metrics/job/nightly/team/sales")
    assert list(gateway.groups) == ["/metrics/job/nightly/team/sales"]


def test_outputs_in_trouble_are_one_warning_each_and_the_run_succeeds(local_lake: lakes.Lake, tmp_path: Path) -> None:
    (name,) = fill(local_lake, "t")
    notes = tmp_path / "notes.txt"
    notes.write_text("Buy milk.\n")
    with RunMetrics(port="127.0.0.1:0") as taken:
        trouble = ["--metrics-port", f"127.0.0.1:{taken.port}", "--metrics-file", str(notes)]
        trouble += ["--metrics-push", f"http://me:geheim@127.0.0.1:{servers.free_port()}"]
        done = command(local_lake, "--table", name, *trouble, "--no-progress", "--output", "json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["kind"] == "compacted"
    port, file, push = done.stderr.splitlines()
    assert "Metrics cannot be scraped" in port
    assert "Metrics cannot be written to" in file
    assert notes.read_text() == "Buy milk.\n"
    assert "Metrics cannot be pushed to 127.0.0.1" in push
    assert "geheim" not in push


def test_a_folder_that_another_process_keeps_locked_does_not_hold_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(metric_outputs, "END_SECONDS", 0.1)
    handle = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    with RunMetrics(file=str(tmp_path / "runs.prom")):
        pass
    os.close(handle)
    assert "The last metrics may be lost" in caplog.text


def test_a_listener_that_fails_stops_no_run(local_lake: lakes.Lake, caplog: pytest.LogCaptureFixture) -> None:
    (name,) = fill(local_lake, "t")

    def broken() -> float:
        raise ValueError("no time")

    with RunMetrics(clock=broken) as metrics:
        assert Compactor(local_lake.catalog, engine="inline", on_event=metrics.on_event).compact_table(name).ok
    assert [record.message for record in caplog.records if "Metrics" in record.message] == [
        "Metrics are not complete: ValueError"
    ]
