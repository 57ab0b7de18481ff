"""How long people wait for commands that read metadata alone: `--help`, `doctor` and `plan` on three small tables, each
as a process of its own, from a warm file cache.

Wall clock and processor time of the process; the bars are for the best of the rounds, because other work on the machine
only ever adds. Every round also measures the import of PyIceberg's SQL catalog, which is the floor. `python -m
bench.startup [--quick]` prints a table, and as its last line one JSON object with the bars.
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

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

from bench import bar_lines

ROUNDS, QUICK_ROUNDS = 10, 2
TABLES, FILES = 3, 6
REACH_S, HELP_REACH_S = 1.5, 0.3
COMMAND = "from iceberg_compaction.interfaces.cli import main; main()"
FLOOR = "import of PyIceberg's SQL catalog"
Figures = dict[str, dict[str, float]]


def make(root: Path) -> None:
    """Three tables of small files."""
    rows = pa.table({"id": list(range(100)), "amount": [n / 7 for n in range(100)]})
    with SqlCatalog("default", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}") as catalog:
        catalog.create_namespace("bench")
        for number in range(TABLES):
            table = catalog.create_table(f"bench.small_{number}", rows.schema)
            for _ in range(FILES):
                table.append(rows)


def commands(root: Path) -> dict[str, list[str]]:
    """What is measured, by name."""
    catalog = ["--catalog-uri", f"sqlite:///{root}/catalog.db", "--warehouse", f"file://{root}"]
    call = [sys.executable, "-c", COMMAND]
    return {
        "--help": [*call, "--help"],
        "doctor --help": [*call, "doctor", "--help"],
        "doctor on three small tables": [*call, "doctor", *catalog],
        "plan of three small tables": [*call, "plan", "--table", "bench.*", "--state", f"{root}/runs.db", *catalog],
        FLOOR: [sys.executable, "-c", "import pyiceberg.catalog.sql"],
    }


def measure(command: list[str], root: Path) -> dict[str, float]:
    """One call of a command."""
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache")}
    cpu, started = sum(os.times()[2:4]), time.perf_counter()
    subprocess.run(command, env=environ, check=True, capture_output=True, stdin=subprocess.DEVNULL)
    return {"s": time.perf_counter() - started, "CPU s": sum(os.times()[2:4]) - cpu}


def best_of(rounds: int, root: Path) -> Figures:
    """The lowest figures of each command; a first call that fills the caches does not count."""
    best: Figures = {}
    for number in range(rounds + 1):
        for name, command in commands(root).items():
            figures = measure(command, root)
            if number:
                known = best.setdefault(name, figures)
                best[name] = {unit: round(min(value, known[unit]), 3) for unit, value in figures.items()}
    return best


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two rounds")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    rounds = QUICK_ROUNDS if given.quick else given.rounds
    with tempfile.TemporaryDirectory(prefix="bench-startup-") as name:
        make(Path(name))
        best = best_of(rounds, Path(name))
    for what, figures in best.items():
        print(f"  {what:40} {figures['s']:.2f} s, {figures['CPU s']:.2f} CPU s")
    bars: list[dict[str, Any]] = []
    for what, figures in best.items():
        if what == FLOOR:
            continue
        reach = HELP_REACH_S if "--help" in what else REACH_S
        bars += [
            {"name": f"{what}, {unit}", "value": value, "reach": f"<= {reach:g}", "ok": value <= reach}
            for unit, value in figures.items()
        ]
    bar_lines.show(bars)
    print(json.dumps({"bench": "startup", "rounds": rounds, "best": best, "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
