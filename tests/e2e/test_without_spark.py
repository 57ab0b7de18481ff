"""The package without the extra `spark`: all but the engine spark works, and that is asked for in one sentence. Each
test is a process of its own, whose Python finds every installed package but these."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
from tests.factories import lake as lakes

SOURCE = Path(__file__).resolve().parents[2] / "src"

COMMAND = "from iceberg_compaction.interfaces.cli import main\nmain()\n"
SENTENCE = (
    "The engine spark needs pyspark, which this Python does not have: "
    "pip install 'iceberg-compaction[spark]', or choose the engine inline (--engine inline)."
)
EVERY_MODULE = """
import importlib, pkgutil
import iceberg_compaction
for module in pkgutil.walk_packages(iceberg_compaction.__path__, "iceberg_compaction."):
    importlib.import_module(module.name)
    print(module.name)
"""
LIBRARY = """
import json
from iceberg_compaction import CompactionError, Compactor
compactor = Compactor({uri!r}, engine={engine!r})
print(json.dumps(compactor.inspect_table("db.events").data_files))
try:
    print(json.dumps(compactor.compact_table("db.events").kind))
except CompactionError as error:
    print(json.dumps([type(error).__name__, str(error)]))
"""


class Pythons:
    """Pythons that lack packages. Each imports from a folder with links to all that is installed except for these."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __call__(
        self, code: str, *args: str, missing: tuple[str, ...] = ("pyspark", "pandas")
    ) -> subprocess.CompletedProcess[str]:
        program = [sys.executable, "-S", "-c", code, *args]  # -S: without the installed packages
        environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(self._packages_without(missing)), str(SOURCE)])}
        return subprocess.run(
            program, env=environment, capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL
        )

    def _packages_without(self, missing: tuple[str, ...]) -> Path:
        folder = self._folder / "-".join(missing)
        if not folder.exists():
            folder.mkdir()
            for installed in Path(sysconfig.get_path("purelib")).iterdir():
                if installed.name.partition("-")[0] not in missing:
                    (folder / installed.name).symlink_to(installed)
        return folder


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Pythons:
    return Pythons(tmp_path_factory.mktemp("packages"))


@pytest.fixture
def lake(tmp_path: Path) -> lakes.Lake:
    made = lakes.file_lake(tmp_path)
    lakes.append_small_files(lakes.make_table(made.catalog, "db.events"), 6)
    lakes.close(made)
    return made


def test_every_module_can_be_imported(python: Pythons) -> None:
    imported = python(EVERY_MODULE)
    assert imported.returncode == 0, imported.stderr
    assert "iceberg_compaction.interfaces.library" in imported.stdout.split()


def test_a_table_is_compacted_inline(python: Pythons, lake: lakes.Lake, tmp_path: Path) -> None:
    args = ["--catalog-uri", str(lake.settings.uri), "--table", "db.events", "--state", str(tmp_path / "runs.db")]
    ended = python(COMMAND, "run", *args, "--engine", "inline", "--output", "json")
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kind"] == "compacted"


def test_spark_is_asked_for_in_one_sentence(python: Pythons, tmp_path: Path) -> None:
    """Before anything else, so that it does not depend on whether the table needs compaction."""
    ended = python(COMMAND, "run", "--catalog-uri", f"sqlite:///{tmp_path}/no.db", "--table", "db.t")
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == f"error: {SENTENCE}\n"


def test_what_spark_connect_needs_is_asked_for_in_one_sentence(python: Pythons, tmp_path: Path) -> None:
    args = ["--catalog-uri", f"sqlite:///{tmp_path}/no.db", "--table", "db.t", "--conf", "spark.remote=sc://h;token=x"]
    ended = python(COMMAND, "run", *args, missing=("pandas", "grpc", "grpc_status", "google", "zstandard"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert ended.stderr == (
        "error: Spark Connect at sc://h needs pandas, grpcio, grpcio-status, googleapis-common-protos and zstandard, "
        "which this Python does not have: pip install 'iceberg-compaction[connect]'.\n"
    )


@pytest.mark.spark
def test_spark_needs_no_pandas(python: Pythons, lake: lakes.Lake, tmp_path: Path) -> None:
    args = ["--catalog-uri", str(lake.settings.uri), "--table", "db.events", "--state", str(tmp_path / "runs.db")]
    ended = python(COMMAND, "run", *args, "--output", "json", missing=("pandas",))
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["kind"] == "compacted"


def test_the_demo_asks_before_it_builds_anything(python: Pythons, tmp_path: Path) -> None:
    ended = python(COMMAND, "demo", "--keep", str(tmp_path / "lake"))
    assert (ended.returncode, ended.stdout) == (1, "")
    assert "iceberg-compaction[spark]" in ended.stderr
    assert not (tmp_path / "lake").exists()


@pytest.mark.parametrize("engine", ["inline", "spark"])
def test_the_library_needs_spark_only_to_rewrite_on_it(python: Pythons, engine: str, lake: lakes.Lake) -> None:
    ended = python(LIBRARY.format(uri=str(lake.settings.uri), engine=engine))
    assert ended.returncode == 0, ended.stderr
    files, outcome = map(json.loads, ended.stdout.splitlines())
    assert files > 1
    assert outcome == ("compacted" if engine == "inline" else ["SetupError", SENTENCE])
