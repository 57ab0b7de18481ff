"""The command as an operating system sees it: streams, signals, and Spark as the engine."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes
from tests.factories import storage

if TYPE_CHECKING:
    from collections.abc import Sequence

COMMAND = [sys.executable, "-m", "iceberg_compaction"]


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


def test_version() -> None:
    from iceberg_compaction import __version__

    assert call("--version").stdout == f"iceberg-compact {__version__}\n"
    assert call("version").stdout == f"iceberg-compact {__version__}\n"


@pytest.mark.spark
def test_spark_compacts_and_only_data_is_on_standard_output(local_lake: lakes.Lake, tmp_path: Path) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("events")), 6)
    before = storage.row_multiset(table.scan().to_arrow())
    ended = call(
        "run", *flags(local_lake, tmp_path / "runs.db"), "--output", "json", "--conf", "spark.ui.enabled=false"
    )
    assert ended.returncode == 0, ended.stderr
    outcome = json.loads(ended.stdout)
    assert (outcome["kind"], outcome["files_removed"], outcome["files_added"]) == ("compacted", 6, 1)
    assert "6 of 6 files" in ended.stderr
    assert storage.row_multiset(table.refresh().scan().to_arrow()) == before


@pytest.mark.spark
def test_a_healthy_table_has_spark_end_without_a_word(local_lake: lakes.Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, local_lake.name("events")), 1)
    ended = call("run", *flags(local_lake, tmp_path / "runs.db"), "--output", "json")
    assert (ended.returncode, json.loads(ended.stdout)["kind"]) == (0, "healthy")
    assert all(line.startswith(local_lake.name("events")) for line in ended.stderr.splitlines())


@pytest.mark.parametrize(
    ("number", "engine"),
    [(signal.SIGTERM, "inline"), pytest.param(signal.SIGINT, "spark", marks=pytest.mark.spark)],
)
def test_a_signal_cancels_and_leaves_nothing(
    local_lake: lakes.Lake, tmp_path: Path, number: signal.Signals, engine: str
) -> None:
    # Tiny targets make many tasks of many files, so that the first is done long before the last.
    table = lakes.make_table(
        local_lake.catalog, local_lake.name("events"), properties={"write.target-file-size-bytes": "2000"}
    )
    lakes.append_small_files(table, 30, rows_each=2000)
    before, snapshot = data_files(local_lake), table.metadata.current_snapshot_id
    process = subprocess.Popen(
        [*COMMAND, "run", *flags(local_lake, tmp_path / "runs.db"), "--engine", engine, "--rewrite-all"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while data_files(local_lake) == before and process.poll() is None:
        time.sleep(0.02)
    process.send_signal(number)
    told, said = process.communicate(timeout=120)
    assert process.returncode == 130, said
    assert told == ""
    assert "\nerror: " in said
    assert "cancelled" in said.lower()
    assert "Traceback" not in said
    deadline = time.monotonic() + 20  # a cancelled task removes its own file, a moment after the command has ended
    while data_files(local_lake) != before and time.monotonic() < deadline:
        time.sleep(0.1)
    assert data_files(local_lake) == before
    assert table.refresh().metadata.current_snapshot_id == snapshot
