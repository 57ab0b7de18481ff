"""The command as an operating system sees it: streams, signals, start-up time, and Spark as the engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = [sys.executable, "-c", "from iceberg_compaction.interfaces.cli import main; main()"]


def call(*args: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *args], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL)


def flags(lake: lakes.Lake, state: Path) -> Sequence[str]:
    settings = lake.settings
    return (
        *("--catalog-uri", str(settings.uri)),
        *("--warehouse", str(settings.warehouse)),
        *("--table", lake.name("events")),
        *("--state", str(state)),
    )


def data_files(lake: lakes.Lake) -> set[Path]:
    return set(Path(str(lake.settings.warehouse).removeprefix("file://")).rglob("*.parquet"))


def test_help_is_quick_and_light() -> None:
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        told = call("--help")
        seconds.append(time.monotonic() - started)
        assert told.returncode == 0
        assert "doctor" in told.stdout
    assert min(seconds) < 0.5
    loaded = subprocess.run(
        [sys.executable, "-X", "importtime", *COMMAND[1:], "run", "--help"], capture_output=True, text=True, check=True
    ).stderr
    for heavy in ("pyspark", "pyiceberg", "pyarrow", "datafusion", "sqlalchemy"):
        assert f" {heavy}\n" not in loaded


def test_version() -> None:
    from iceberg_compaction import __version__

    assert call("--version").stdout == f"iceberg-compact {__version__}\n"
    assert call("version").stdout == f"iceberg-compact {__version__}\n"


@pytest.mark.spark
def test_spark_compacts_and_only_data_is_on_standard_output(local_lake: lakes.Lake, tmp_path: Path) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("events")), 6)
    before = table.scan().to_arrow().sort_by("id")
    ended = call(
        "run", *flags(local_lake, tmp_path / "runs.db"), "--output", "json", "--conf", "spark.ui.enabled=false"
    )
    assert ended.returncode == 0, ended.stderr
    outcome = json.loads(ended.stdout)
    assert (outcome["kind"], outcome["files_removed"], outcome["files_added"]) == ("compacted", 6, 1)
    assert "6 of 6 files" in ended.stderr
    assert table.refresh().scan().to_arrow().sort_by("id").equals(before)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_and_leaves_nothing(local_lake: lakes.Lake, tmp_path: Path, number: signal.Signals) -> None:
    table = lakes.make_table(
        local_lake.catalog, local_lake.name("events"), properties={"write.target-file-size-bytes": "2000"}
    )
    # Many tasks, so that the first one ends long before the last.
    lakes.append_small_files(table, 8, rows_each=4000)
    before, snapshot = data_files(local_lake), table.metadata.current_snapshot_id
    process = subprocess.Popen(
        [*COMMAND, "run", *flags(local_lake, tmp_path / "runs.db"), *SLOW],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "rewriting" in line:
            break
    process.send_signal(number)
    told, said = process.communicate(timeout=60)
    assert process.returncode == 130, said
    assert told == ""
    assert "error: " in said
    assert "Traceback" not in said
    assert data_files(local_lake) == before
    assert table.refresh().metadata.current_snapshot_id == snapshot


SLOW = ("--engine", "inline", "--option", "rewrite-all=true", "--verify", "deep")
