"""`iceberg-compact serve` as an operating system sees it: how it starts, what it refuses, and how it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests
from tests.factories import lake as lakes
from tests.factories import storage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.factories.servers import S3Server
    from tests.factories.store_servers import StoreServer

COMMAND = [sys.executable, "-m", "iceberg_compaction", "serve"]
# The request of an Airflow guide, as it stands there.
AIRFLOW = {"table": "sales", "strategy": "time-series", "options": {"target_file_size": "1GB", "max_cost": 10.0}}


def free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])


@contextlib.contextmanager
def serving(*flags: str, **environ: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """A service that answers, and its process."""
    port = free_port()
    process = subprocess.Popen(
        [*COMMAND, "--port", str(port), *flags],
        env={**os.environ, **environ},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    url = f"http://127.0.0.1:{port}"
    try:
        wait_for(url, process)
        yield url, process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def wait_for(url: str, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        assert process.poll() is None, process.communicate()[0]
        with contextlib.suppress(requests.ConnectionError):
            if requests.get(f"{url}/readyz", timeout=5).ok:
                return
        time.sleep(0.02)
    raise AssertionError("the service does not answer")


def ended(process: subprocess.Popen[str]) -> str:
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=40)
    assert process.returncode == 0, said
    return said


def flags_of(lake: lakes.Lake, folder: Path) -> tuple[str, ...]:
    return ("--catalog-uri", str(lake.settings.uri), "--engine", "inline", "--store", str(folder / "runs.db"))


def test_a_service_compacts_refuses_a_twin_and_ends(local_lake: lakes.Lake, tmp_path: Path) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("sales")), 6)
    before = storage.row_multiset(table.scan().to_arrow())
    flags = flags_of(local_lake, tmp_path)
    with serving(*flags) as (url, process):
        answer = requests.post(f"{url}/api/v1/compact?wait=60", json={"table": "sales"}, timeout=90)
        assert answer.status_code == 200, answer.text
        assert answer.json()["work"]["outcome"] == "compacted"
        modules = subprocess.run(
            ["cat", f"/proc/{process.pid}/maps"], capture_output=True, text=True, check=True
        ).stdout
        assert "py4j" not in modules
        workers = requests.get(f"{url}/api/v1/workers", timeout=30).json()["items"]
        assert [(each["role"], each["process"]["pid"]) for each in workers] == [("all", process.pid)]
        twin = subprocess.run([*COMMAND, "--port", "0", *flags], capture_output=True, text=True, timeout=60)
        assert twin.returncode == 2
        assert f"Process {process.pid}" in twin.stderr
        assert "postgresql://" in twin.stderr
        taken = subprocess.run(
            [*COMMAND, "--port", url.rpartition(":")[2], *flags[:-1], "memory://"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert taken.returncode == 2
        assert "cannot listen at" in taken.stderr
        process.send_signal(signal.SIGTERM)  # whoever signals a process and its group sends two, which are one
        said = ended(process)
    assert "listens on this machine alone" in said
    assert f"--store {tmp_path / 'runs.db'}` makes one" in said
    assert f"compact {local_lake.name('sales')}: done, 6 files" in said
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before
    with serving(*flags) as (url, process):  # the place is free again
        runs = requests.get(f"{url}/api/v1/runs", timeout=30).json()["items"]
        assert [each["outcome"]["kind"] for each in runs][-1:] == ["compacted"]
        ended(process)


def test_a_store_that_is_taken_away_is_noticed(local_lake: lakes.Lake, tmp_path: Path) -> None:
    with serving(*flags_of(local_lake, tmp_path)) as (url, process):
        while not requests.get(f"{url}/api/v1/workers", timeout=30).json()["items"][0]["slots"]:
            time.sleep(0.1)  # until all of it has begun
        (tmp_path / "runs.db").rename(tmp_path / "away.db")
        answer = requests.get(f"{url}/readyz", timeout=30)
        assert answer.status_code == 503
        assert "moved, deleted or replaced; put it back" in answer.json()["sentence"]
        refused = requests.get(f"{url}/api/v1/runs", timeout=30)
        assert (refused.status_code, "is gone" in refused.json()["detail"]) == (503, True)
        assert requests.get(f"{url}/healthz", timeout=30).ok
        said = ended(process)
    assert not (tmp_path / "runs.db").exists()
    assert "Traceback" not in said


def test_an_api_does_no_work_and_a_worker_has_no_api(local_lake: lakes.Lake, tmp_path: Path) -> None:
    flags = flags_of(local_lake, tmp_path)
    lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("sales")), 3)
    with serving(*flags, "--role", "api") as (url, process):
        answer = requests.post(f"{url}/api/v1/compact?wait=1.5", json={"table": "sales"}, timeout=90)
        assert answer.json()["work"]["state"] == "queued"
        stream = requests.get(f"{url}{answer.json()['events']}", stream=True, timeout=30)
        lines = stream.iter_lines(decode_unicode=True)
        assert next(lines) == "event: work"
        ended(process)  # a client that watches does not hold it up
    with serving(*flags, SERVICE_ROLE="worker") as (url, process):
        assert requests.get(f"{url}/api/v1/runs", timeout=30).status_code == 404
        deadline = time.monotonic() + 60
        while "iceberg_compaction_runs_total" not in (text := requests.get(f"{url}/metrics", timeout=30).text):
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert 'outcome="compacted"' in text
        ended(process)


def test_settings_are_checked_in_words(local_lake: lakes.Lake, tmp_path: Path) -> None:
    file = tmp_path / "service.yaml"
    good = {"uri": str(local_lake.settings.uri), "name": "default"}
    content: dict[str, Any] = {
        "store": str(tmp_path / "runs.db"),
        "catalogs": {"lake": good, "away": {"uri": "http://127.0.0.1:1"}},
        "tenants": {"shop": {"tables": ["shop"]}},
    }
    file.write_text(json.dumps(content))
    checked = subprocess.run(
        [*COMMAND, "--settings", str(file), "--check"], capture_output=True, text=True, timeout=120
    )
    assert checked.returncode == 1, checked.stderr
    lines = checked.stdout.splitlines()
    assert any(line.startswith("ok     catalog lake:") for line in lines)
    assert any(line.startswith("wrong  catalog away:") for line in lines)
    policy = tmp_path / "policy.yaml"
    policy.write_text('tables:\n  shop.a: {schedule: {cron: "0 2 * * *", time-zone: Mars/Base}}\n')
    checked = subprocess.run(
        [*COMMAND, "--settings", str(file), "--policy", str(policy), "--check"],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert any(
        line.startswith("wrong  policy:") and "'Mars/Base' is no time zone" in line
        for line in checked.stdout.splitlines()
    )
    file.write_text(json.dumps({**content, "colour": "red"}))
    refused = subprocess.run([*COMMAND, "--settings", str(file)], capture_output=True, text=True, timeout=60)
    assert refused.returncode == 2
    assert "colour" in refused.stderr
    assert "Traceback" not in refused.stderr


def test_an_open_service_needs_a_word(local_lake: lakes.Lake, tmp_path: Path) -> None:
    flags = flags_of(local_lake, tmp_path)
    refused = subprocess.run(
        [*COMMAND, *flags, "--host", "0.0.0.0", "--port", "0"], capture_output=True, text=True, timeout=60
    )
    assert refused.returncode == 2
    assert "AUTH=none" in refused.stderr


@pytest.mark.server
def test_the_environment_of_a_compose_file_is_enough(
    s3_server: S3Server, store_server: Callable[[str], StoreServer], s3_lake: lakes.Lake
) -> None:
    """CATALOG_TYPE, CATALOG_URI and REDIS_URL as a guide has them; how SeaweedFS lets us in comes by flags."""
    table = lakes.append_small_files(lakes.make_table(s3_lake.catalog, s3_lake.name("sales")), 3)
    before = storage.row_multiset(table.scan().to_arrow())
    flags = [f"--catalog-property={name}={value}" for name, value in s3_server.rest_properties.items()]
    environ = {
        "CATALOG_TYPE": "rest",
        "CATALOG_URI": s3_server.rest_uri,
        "REDIS_URL": store_server("redis").new_url(),
        "AUTH": "none",
        "CATALOG_WAREHOUSE": s3_server.warehouse,
        "CATALOG_NAMESPACE": s3_lake.namespace,
    }
    with serving("--engine", "inline", *flags, **environ) as (url, process):
        order = {**AIRFLOW, "strategy": "full", "options": {**AIRFLOW["options"], "min-input-files": 2}}  # type: ignore[dict-item]
        answer = requests.post(f"{url}/api/v1/compact?wait=60", json=order, timeout=90)
        assert answer.status_code == 200, answer.text
        assert answer.json()["work"]["outcome"] == "compacted"
        assert "everybody who reaches this address" in ended(process)
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before
