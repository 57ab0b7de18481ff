"""The wheel in environments of its own, with what the package index has today: alone, and with each extra. The base is
installed once; an extra's environment looks into it and has only what the extra adds. The extras spark and connect are
those of the development environment itself, where all other tests run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.factories import lake as lakes
from tests.factories import whole_way

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

pytestmark = [pytest.mark.interop, pytest.mark.package]

ROOT = Path(__file__).resolve().parents[2]
# What the code imports once somebody asks for the extra.
MODULES = {
    "postgres": ("psycopg", "pyiceberg.catalog.sql"),
    "redis": ("redis",),
    "etcd": ("etcd3gw",),
    "metrics": ("prometheus_client",),
    "otel": ("opentelemetry.sdk.trace", "opentelemetry.exporter.otlp.proto.http.trace_exporter"),
    "hive": ("iceberg_compaction.catalog.drivers.hive",),
    "glue": ("pyiceberg.catalog.glue",),
    "azure": ("adlfs",),
    "statistics": ("datasketches",),
    "service": ("fastapi", "uvicorn", "jwt", "prometheus_client"),
}
ELSEWHERE = {"spark", "connect"}


class Environment:
    """A virtual environment that shares nothing with the one that runs the tests."""

    def __init__(self, folder: Path, base: Path | None = None) -> None:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        self.bin = folder / "bin"
        (self.packages,) = folder.glob("lib/python*/site-packages")
        if base is not None:
            (self.packages / "base.pth").write_text(f"{base}\n")

    def run(self, program: str, *arguments: str, cwd: Path | None = None) -> str:
        environment = {key: os.environ[key] for key in ("HOME", "PATH", "TMPDIR", "LANG") if key in os.environ}
        environment |= {
            key: value for key, value in os.environ.items() if key.startswith(("PIP_", "SSL_", "REQUESTS_"))
        }
        command = [str(self.bin / program), *arguments]
        ended = subprocess.run(command, env=environment, cwd=cwd, capture_output=True, text=True, timeout=900)
        assert ended.returncode == 0, (command, ended.stdout[-3000:], ended.stderr[-3000:])
        return ended.stdout

    def install(self, what: str) -> None:
        self.run("python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", what)
        self.run("python", "-m", "pip", "--disable-pip-version-check", "check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def base(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = Environment(tmp_path_factory.mktemp("base") / "venv")
    environment.install(str(wheel))
    return environment


def compact_inline(environment: Environment, folder: Path, program: str = "iceberg-compact") -> None:
    """Help, doctor, a run and its proof, as somebody would who has just installed it."""
    lake = lakes.file_lake(folder)
    whole_way.sick_table(lake.catalog, "shop.events")
    lakes.close(lake)
    flags = ["--catalog-uri", str(lake.settings.uri)]
    state = ["--state", str(folder / "runs.db")]
    assert "Compact tables" in environment.run(program, "--help")
    assert (
        json.loads(environment.run(program, "doctor", *flags, "--output", "json"))[0]["data_files"] == whole_way.FILES
    )
    run = ["run", "--table", "shop.events", "--engine", "inline", "--output", "json", *flags, *state]
    assert json.loads(environment.run(program, *run))["kind"] == "compacted"
    assert (
        json.loads(environment.run(program, "verify", "latest", "--output", "json", *flags, *state))["verdict"]
        == "proved"
    )


def test_alone(base: Environment, tmp_path: Path) -> None:
    compact_inline(base, tmp_path)
    assert not (base.packages / "pyspark").exists()
    assert (base.packages / "iceberg_compaction" / "py.typed").exists()


def test_every_extra_is_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert set(project["optional-dependencies"]) == MODULES.keys() | ELSEWHERE


@pytest.mark.parametrize("extra", MODULES)
def test_with_an_extra(base: Environment, wheel: Path, extra: str, tmp_path: Path) -> None:
    environment = Environment(tmp_path / "venv", base.packages)
    environment.install(f"iceberg-compaction[{extra}] @ {wheel.as_uri()}")
    environment.run("python", "-c", "; ".join(f"import {module}" for module in MODULES[extra]), cwd=tmp_path)
    assert "Usage" in environment.run(
        "python",
        "-c",
        "import sys; sys.argv[1:] = ['--help']; from iceberg_compaction.interfaces.cli import main; main()",
    )
