"""How many cores one task keeps busy: one group of 1 GB becomes one output file, on two cores, inline and on an
embedded Spark. Busy is CPU time of all processes over wall clock and cores, of the best of a few warm runs.

`python -m bench.cores [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from pyiceberg.catalog.sql import SqlCatalog

from bench import bar_lines, proof

CORES, TARGET = 2, 1200 << 20
ROWS, FILES, QUICK_FILES = 100_000, 175, 22  # about 5.9 MB each
ROUNDS, QUICK_ROUNDS = 3, 1
REACH = 0.85
WAYS = {"default": {}, "encoded": {"copy-row-groups": "never"}}


def connect(root: Path) -> SqlCatalog:
    return SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


def make(root: Path, files: int) -> None:
    catalog = connect(root)
    catalog.create_namespace("bench")
    table = catalog.create_table("bench.t", proof.SCHEMA)
    parts = [proof.make_table(ROWS, seed) for seed in range(4)]
    for number in range(files):
        table.append(parts[number % len(parts)])


def cpu_seconds() -> float:
    """Of this process and all below it, ended ones included."""
    total = 0.0
    for process in (psutil.Process(), *psutil.Process().children(recursive=True)):
        times = process.cpu_times()
        total += times.user + times.system + times.children_user + times.children_system
    return total


def perform(root: Path, engine: str, way: str, rounds: int) -> dict[str, Any]:
    """The share of two cores that runs kept busy, after a first one that warms up. Every run finds the same table."""
    from iceberg_compaction import Compactor

    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    table = connect(root).load_table("bench.t")
    before = table.current_snapshot()
    assert before is not None
    busy, seconds, outputs = [], [], 0
    options = {"rewrite-all": True, **WAYS[way]}
    conf = {"spark.master": f"local[{CORES}]"} if engine == "spark" else {}
    with Compactor(connect(root), target_file_size=TARGET, engine=engine, options=options, conf=conf) as compactor:
        for _ in range(rounds + 1):
            cpu, started = cpu_seconds(), time.perf_counter()
            outcome = compactor.compact_table("bench.t")
            seconds.append(time.perf_counter() - started)
            busy.append((cpu_seconds() - cpu) / (seconds[-1] * CORES))
            assert outcome.kind.value == "compacted", outcome.sentence
            table = connect(root).load_table("bench.t")
            outputs = len(paths := table.inspect.files()["file_path"].to_pylist())
            table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
            for path in paths:
                Path(path.removeprefix("file://")).unlink()
    return {"busy": busy[1:], "seconds": seconds[1:], "files": outputs}


def measure(root: Path, engine: str, way: str, rounds: int) -> dict[str, Any]:
    command = [sys.executable, "-m", "bench.cores", "--step", engine, way, str(rounds), "--root", str(root)]
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache")}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {engine}, {way}: {figures}", flush=True)
    return {
        "name": f"one group, {figures['files']} output file, {engine}, {way}: CPU in use of {CORES} cores",
        "value": round(max(figures["busy"]), 3),
        "reach": f">= {REACH:g}",
        "ok": max(figures["busy"]) >= REACH,
        "seconds": round(min(figures["seconds"]), 1),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="an eighth of the bytes and one run")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        engine, way, rounds = arguments.step
        print(json.dumps(perform(arguments.root, engine, way, int(rounds))))
        return 0
    files, rounds = (QUICK_FILES, QUICK_ROUNDS) if arguments.quick else (FILES, ROUNDS)
    with tempfile.TemporaryDirectory(prefix="bench-cores-") as name:
        make(Path(name), files)
        bars = [measure(Path(name), engine, way, rounds) for engine in ("inline", "spark") for way in WAYS]
    bar_lines.show(bars)
    print(json.dumps({"bench": "cores", "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
