"""A real Prometheus on a loopback port, which scrapes what a test gives it, and its promtool."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import servers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

MONITORING = Path(__file__).parents[2] / "deploy" / "monitoring"
_CONFIG = """
global: {{scrape_interval: 200ms, scrape_timeout: 200ms, evaluation_interval: 500ms}}
rule_files: ["{rules}"]
scrape_configs:
  - job_name: compaction
    static_configs: [{{targets: ["127.0.0.1:{port}"]}}]
"""


def program(name: str) -> str:
    """`prometheus` or `promtool`. The test is skipped where there is none, but not in CI, which has one."""
    server = os.environ.get("PROMETHEUS") or shutil.which("prometheus")
    found = shutil.which(name, path=str(Path(server).parent)) if server else None
    if found is None and os.environ.get("ICEBERG_COMPACTION_NO_SKIP"):
        pytest.fail(f"There is no {name}; scripts/ensure_prometheus.sh should have installed it.")
    if found is None:
        pytest.skip(f"There is no {name} (scripts/ensure_prometheus.sh installs it).")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Prometheus:
    """A running server."""

    url: str

    def get(self, path: str, **query: str) -> Any:
        """The data of an answer of its API."""
        with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression: str) -> list[float]:
        """The values that an expression has now."""
        return [float(series["value"][1]) for series in self.get("query", query=expression)["result"]]

    def wait_for(self, expression: str, is_right: Callable[[list[float]], bool], seconds: float = 30) -> list[float]:
        """The values of an expression, when they are right or time is up."""
        end = time.monotonic() + seconds
        while not is_right(values := self.query(expression)) and time.monotonic() < end:
            time.sleep(0.1)
        return values


@contextlib.contextmanager
def scraping(port: int, folder: Path) -> Iterator[Prometheus]:
    """A Prometheus with our rules that scrapes a port of this machine."""
    listens = servers.free_port()
    config = folder / "prometheus.yml"
    config.write_text(_CONFIG.format(rules=MONITORING / "rules.yml", port=port))
    flags = [f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}"]
    flags += [f"--web.listen-address=127.0.0.1:{listens}", "--log.level=error"]
    with subprocess.Popen([program("prometheus"), *flags], stderr=subprocess.DEVNULL) as process:
        try:
            server = Prometheus(url=f"http://127.0.0.1:{listens}")
            _wait_until_ready(server, process)
            yield server
        finally:
            process.terminate()


def _wait_until_ready(server: Prometheus, process: subprocess.Popen[bytes]) -> None:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        assert process.poll() is None, "Prometheus has ended"
        with contextlib.suppress(OSError, urllib.error.URLError), urllib.request.urlopen(f"{server.url}/-/ready"):
            return
        time.sleep(0.1)
    raise AssertionError("Prometheus does not start")
