"""Everybody on one table at once for ten minutes: two of our compactors, a streaming appender, a position-deleter, an
equality-deleter, an expirer and Iceberg Java's own compaction. Rows are compared with a model at every tenth snapshot,
as Iceberg Java and a plain reader see them, and in the end.

A group that was in conflict, was planned anew in the same run and then landed has landed. `python -m bench.race
[--quick]` prints figures, and as its last line one JSON object with the bars; `--quick` is 45 s, without Java.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

MINUTES, QUICK_S = 10, 45
PACE = 2.5  # an append a second, an equality delete every 2.5 s, a position delete every 5 s
REST, QUICK_REST = 12.0, 3.0  # our compactors run every 18 and 30 s, Java's every minute
RETENTION_S = 120
LANDED = 0.95


def race(folder: Path, seconds: float, *, rest: float, java: bool) -> dict[str, Any]:
    """The verdict of the race lab, which forks and therefore is a process of its own."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.lab.race", str(folder / "lake"), str(seconds)]
    command += ["--pace", str(PACE), "--rest", str(rest), "--retention", str(RETENTION_S)]
    command += ["--java"] if java else []
    environment = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(folder / "cache")}
    root = Path(__file__).resolve().parents[1]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, cwd=root, env=environment, check=True)
    verdict: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return verdict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_S} s without Java instead of {MINUTES} min")
    parser.add_argument("--minutes", type=float, default=MINUTES)
    parser.add_argument("--no-java", action="store_true")
    given = parser.parse_args()
    seconds = QUICK_S if given.quick else given.minutes * 60
    with tempfile.TemporaryDirectory(prefix="race-") as folder:
        rest = QUICK_REST if given.quick else REST
        figures = race(Path(folder), seconds, rest=rest, java=not (given.quick or given.no_java))
    for name, value in figures.items():
        print(f"{name:32} {value}")
    wrong = figures["rows_lost"] + figures["rows_revived"]
    share = figures["groups_landed_in_the_end_share"]
    bars = [
        {"name": "rows lost or revived", "value": wrong, "reach": 0, "ok": wrong == 0 and not figures["failed"]},
        {"name": "groups landed", "value": round(share, 4), "reach": LANDED, "ok": share >= LANDED},
    ]
    print(json.dumps({"bench": "race", "seconds": seconds, **figures, "bars": bars}))
    return 0 if bars[0]["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
