"""Start-up is imports: which modules a command loads, and which it must not. Each command is a process of its own that
lists its modules at the end. Time is measured by `python -m bench.startup`, not here."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

LISTED = """
import atexit, gc, json, sys
file = sys.argv.pop()

@atexit.register
def end():
    frozen, searches = gc.get_freeze_count(), gc.get_stats()[2]["collections"]
    with open(file, "w") as stream:
        json.dump({"modules": list(sys.modules), "frozen": frozen, "searches": searches}, stream)

from iceberg_compaction.interfaces.cli import main
main()
"""
VERBS = (
    "doctor",
    "plan",
    "explain",
    "policy",
    "apply",
    "run",
    "manifests",
    "history",
    "report",
    "watch",
    "verify",
    "undo",
    "cache",
    "serve",
    "demo",
)
HEAVY = frozenset({"datafusion", "numpy", "pandas", "pyarrow", "pydantic", "pyiceberg", "pyspark", "sqlalchemy"})
# Needed by neither: engines and their packages, HTTP clients for local files, and the tests' own.
NOT_FOR_METADATA = frozenset(
    {
        "boto3",
        "datafusion",
        "fsspec",
        "hypothesis",
        "opentelemetry",
        "pandas",
        "prometheus_client",
        "py4j",
        "pyiceberg_core",
        "pyspark",
        "requests",
        "urllib3",
    }
)
NOT_OURS_FOR_METADATA = ("commit", "execute", "interfaces.html", "interfaces.library")
# A floor of about 155 and 185 modules of ours, with room for a few more: each costs one to three milliseconds.
MOST_OURS = 312


def end_of(args: Sequence[str], folder: Path) -> dict[str, Any]:
    """The state of a command's process at its end."""
    file = folder / "end.json"
    subprocess.run(
        [sys.executable, "-c", LISTED, *args, str(file)],
        check=True,
        capture_output=True,
        env={**os.environ, "ICEBERG_COMPACTION_CACHE": str(folder / "cache")},
        stdin=subprocess.DEVNULL,
        timeout=120,
    )
    end: dict[str, Any] = json.loads(file.read_text())
    return end


def modules(args: Sequence[str], folder: Path) -> set[str]:
    """The modules that a command has loaded at its end."""
    return set(end_of(args, folder)["modules"])


@pytest.fixture
def three_tables(tmp_path: Path) -> list[str]:
    lake = lakes.file_lake(tmp_path / "lake")
    for name in ("a", "b", "c"):
        lakes.append_small_files(lakes.make_table(lake.catalog, lake.name(name)), 6)
    lakes.close(lake)
    return ["--catalog-uri", str(lake.settings.uri), "--warehouse", str(lake.settings.warehouse)]


@pytest.mark.parametrize("args", [["--help"], *([verb, "--help"] for verb in VERBS)], ids=" ".join)
def test_help_loads_no_heavy_package(args: list[str], tmp_path: Path) -> None:
    loaded = modules(args, tmp_path)
    assert "typer" in loaded
    assert loaded & HEAVY == set()


@pytest.mark.parametrize("args", [["doctor"], ["plan", "--table", "db.*"]], ids=["doctor", "plan"])
def test_metadata_alone_needs_neither_engines_nor_pandas(
    args: list[str], three_tables: list[str], tmp_path: Path
) -> None:
    state = ["--state", str(tmp_path / "runs.db")] if args[0] == "plan" else []
    modules([*args, *three_tables, *state], tmp_path)  # parses the manifests, with datafusion, and keeps them
    loaded = modules([*args, *three_tables, *state], tmp_path)
    assert "pyiceberg.catalog.sql" in loaded
    assert loaded & NOT_FOR_METADATA == set()
    ours = {name.removeprefix("iceberg_compaction.") for name in loaded if name.startswith("iceberg_compaction.")}
    assert {name for name in ours if name.startswith(NOT_OURS_FOR_METADATA)} == set()
    assert len(ours) <= MOST_OURS, Counter(name.partition(".")[0] for name in ours)


def test_manifests_are_looked_at_without_engines_and_pandas(three_tables: list[str], tmp_path: Path) -> None:
    args = ["manifests", "--dry-run", "--table", "db.*", *three_tables, "--state", str(tmp_path / "runs.db")]
    assert modules(args, tmp_path) & NOT_FOR_METADATA <= {"datafusion"}


def test_nobody_searches_all_objects_for_garbage_on_the_way_or_at_the_end(
    three_tables: list[str], tmp_path: Path
) -> None:
    end = end_of(["doctor", *three_tables], tmp_path)
    assert end["searches"] == 0
    assert end["frozen"] > 100_000


def test_pandas_that_pyarrow_did_not_look_for_is_there_for_those_who_import_it() -> None:
    code = (
        "import sys; from iceberg_compaction.interfaces.cli import lean_start; lean_start.spare_pandas()\n"
        "import pyarrow as pa, pyarrow.dataset; assert pa.array([1]).to_pylist() == [1]\n"
        "assert 'pandas' not in sys.modules\n"
        "import pandas; assert pa.table({'a': [1]}).to_pandas().equals(pandas.DataFrame({'a': [1]}))\n"
        "assert pa.array(pandas.Series([1, 2])).to_pylist() == [1, 2]"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)
