"""The commands of the pages on the service work as they stand: blocks marked `shell` are run by a shell, against a
service on the lake of the demo, at another port than the pages say. What is shipped in deploy/service can be used."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
import requests
import yaml
from tests.e2e.test_docs_examples import ROOT, blocks

from iceberg_compaction.catalog import connect, sample_lake
from iceberg_compaction.interfaces.service import service_settings

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PAGES = ("how-to/service.md", "tuning.md", "troubleshooting.md", "deployment.md")
DEPLOY = ROOT / "deploy" / "service"
pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("service")
    (made / "lake").mkdir()
    catalog = connect.connect(sample_lake.create(made / "lake"))
    sample_lake.build(catalog)
    catalog.close()
    return made


@pytest.fixture(scope="module")
def address(folder: Path) -> Iterator[str]:
    """A service as the page starts it, in a process of its own."""
    command = (
        "-m iceberg_compaction serve --catalog-uri sqlite:///lake/catalog.db --store runs.db --port 0 --engine inline"
    )
    process = subprocess.Popen(
        [sys.executable, *command.split()], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    found = re.search(r"http://([\d.]+:\d+)", line)
    assert found, line
    yield found[1]
    process.send_signal(signal.SIGTERM)
    rest = process.communicate(timeout=30)[0]
    assert process.returncode == 0, rest


def shell_blocks() -> Iterator[pytest.ParameterSet]:
    for page in PAGES:
        for number, (kind, text) in enumerate(blocks(ROOT / "docs" / page), start=1):
            if kind == "shell":
                yield pytest.param(text, id=f"{page}-{number}")


@pytest.mark.parametrize("text", list(shell_blocks()))
def test_commands_of_the_pages(text: str, folder: Path, address: str) -> None:
    script = text.replace("localhost:8080", address)
    bins = folder / "bin"
    bins.mkdir(exist_ok=True)
    for name, words in (("iceberg-compact", "-m iceberg_compaction"), ("python", "")):
        program = bins / name
        program.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        program.chmod(0o755)
    env = os.environ | {"PATH": f"{bins}{os.pathsep}{os.environ['PATH']}"}
    shell = subprocess.run(
        ["/bin/sh", "-e", "-c", script], cwd=folder, env=env, capture_output=True, text=True, check=False, timeout=120
    )
    assert shell.returncode == 0, shell.stdout + shell.stderr


def test_there_are_commands_to_run() -> None:
    assert len(list(shell_blocks())) >= 5


def compose_environment() -> dict[str, str]:
    """The variables of the shipped compose file, where nobody sets others."""
    text = (DEPLOY / "docker-compose.yml").read_text()
    text = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", text)
    environment: dict[str, str] = yaml.safe_load(text)["services"]["compaction"]["environment"]
    return environment


def test_the_compose_file_says_what_the_guide_says() -> None:
    environ = compose_environment()
    guide = {"CATALOG_TYPE": "rest", "CATALOG_URI": "http://catalog:8181", "REDIS_URL": "redis://redis:6379"}
    assert guide.items() <= environ.items()
    for given in (environ, guide):
        loaded = service_settings.load({}, None, given)
        assert loaded.port == 8080
        assert loaded.store == "redis://redis:6379"
        assert loaded.catalogs["default"].uri == "http://catalog:8181"
        assert loaded.catalogs["default"].type == "rest"
    assert service_settings.load({}, None, environ).auth is service_settings.AuthMode.NONE


def test_the_shipped_settings_and_policy_can_be_read() -> None:
    loaded = service_settings.load({}, str(DEPLOY / "service.yaml"), {})
    assert list(loaded.catalogs) == ["lake", "archive"]
    assert loaded.tenants["shop"].hourly_cost_limit == 5
    checked = subprocess.run(
        [sys.executable, "-m", "iceberg_compaction", "policy", "check", str(DEPLOY / "policy.yaml")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert checked.returncode == 0, checked.stdout


def test_the_image_has_extras_that_exist() -> None:
    import tomllib

    extras = re.search(r"/sources\[([\w,]+)\]", (DEPLOY / "Dockerfile").read_text())
    assert extras is not None
    declared: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras[1].split(",")) <= declared.keys()


def test_the_service_answers_within_seconds_and_without_spark(folder: Path, address: str) -> None:
    started = time.monotonic()
    assert requests.get(f"http://{address}/readyz", timeout=10).status_code == 200
    assert time.monotonic() - started < 5
