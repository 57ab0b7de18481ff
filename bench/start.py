"""From the command to the first byte of an output file on the embedded Spark, and to its end: a small local table,
`iceberg-compact run` as a user calls it, each time in a process of its own and on a table of its own.

Wall clock and processor time of the command with all of its processes; the bar is for the best of the rounds, because
other work on the machine only ever adds. `python -m bench.start [--quick]` prints a table, and as its last line one
JSON object with the bars.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from bench import bar_lines

ROUNDS, QUICK_ROUNDS = 5, 1
FILES, ROWS = 40, 5_000
REACH_S = 6.0
COMMAND = "from iceberg_compaction.interfaces.cli import main; main()"
_POLL_S = 0.01
Figures = dict[str, float]


def make(root: Path, rounds: int) -> None:
    """A table of small files for every round."""
    with SqlCatalog("default", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}") as catalog:
        catalog.create_namespace("bench")
        random = np.random.default_rng(1)
        rows = pa.table({"id": np.arange(ROWS), "amount": random.random(ROWS), "key": random.integers(0, 50, ROWS)})
        for number in range(rounds):
            table = catalog.create_table(f"bench.start_{number}", rows.schema)
            for _ in range(FILES):
                table.append(rows)


def measure(root: Path, table: str) -> Figures:
    """One run of the command."""
    before = set(_written(root))
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache" / table)}
    flags = ["--catalog-uri", f"sqlite:///{root}/catalog.db", "--warehouse", f"file://{root}", "--table", table]
    command = [sys.executable, "-c", COMMAND, "run", *flags, "--state", str(root / "runs.db"), "--output", "json", "-q"]
    started = time.perf_counter()
    process = psutil.Popen(command, env=environ, stdout=subprocess.PIPE, text=True)
    while set(_written(root)) <= before and process.poll() is None:
        time.sleep(_POLL_S)
    figures = {"first byte, s": time.perf_counter() - started, "first byte, CPU s": _cpu_seconds(process)}
    outcome = json.loads(process.communicate()[0])
    assert outcome["kind"] == "compacted", outcome
    return {**figures, "end, s": time.perf_counter() - started}


def _written(root: Path) -> list[Path]:
    """The Parquet files that are not empty."""
    return [path for path in root.rglob("*.parquet") if path.stat().st_size]


def _cpu_seconds(process: psutil.Popen) -> float:
    """Of all processes of the command so far, also of those that have ended."""
    total = 0.0
    for each in (process, *process.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            total += sum(each.cpu_times()[:4])
    return total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    rounds = QUICK_ROUNDS if given.quick else given.rounds
    with tempfile.TemporaryDirectory(prefix="bench-start-") as name:
        make(Path(name), rounds)
        measured = []
        for number in range(rounds):
            measured.append(measure(Path(name), f"bench.start_{number}"))
            print("  " + ", ".join(f"{what} {value:.2f}" for what, value in measured[-1].items()), flush=True)
    best = {what: round(min(figures[what] for figures in measured), 2) for what in measured[0]}
    value = best["first byte, s"]
    bars: list[dict[str, Any]] = [
        {
            "name": "command to the first byte of an output file on the embedded Spark, s",
            "value": value,
            "reach": f"<= {REACH_S:g}",
            "ok": value <= REACH_S,
        }
    ]
    bar_lines.show(bars)
    print(json.dumps({"bench": "start", "rounds": rounds, "best": best, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
