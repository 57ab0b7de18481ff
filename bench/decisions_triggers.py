"""The time of the trigger check over all tables of a large lake, from stored health alone: 10,000 looks in a SQLite run
store, a policy with thresholds of its own for each table, and the answer for each. A store object of its own for each
round, as a command or a scheduler's turn has it.

`python -m bench.decisions_triggers [--quick]` measures this part alone."""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

from bench import bar_lines
from iceberg_compaction.interfaces import run_stores
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.run_figures import HealthEntry, PartitionExtremes, TableFigures
from iceberg_compaction.model.table_health import SizeBucket
from iceberg_compaction.plan.triggers import table_check
from iceberg_compaction.record import health_log

TABLES, REACH_S, ROUNDS = 10_000, 2.0, 3
MIB, HOUR_MS = 2**20, 3_600_000
NOW_MS = 1_767_225_600_000
BARS = ("< 1%", "1%-10%", "10%-25%", "25%-75%", "near target (75%-180%)", "> 180%")


def bars(quick: bool) -> list[dict[str, Any]]:
    """One bar: effective thresholds and check of all tables, the best of some rounds."""
    tables = TABLES // 10 if quick else TABLES
    with tempfile.TemporaryDirectory() as folder:
        url = str(Path(folder) / "runs.db")
        entries = run_stores.open_entries(url)
        health_log.HealthLog(entries=entries).save([look(number) for number in range(tables)])
        entries.close()
        seconds = min(_round(url, tables) for _ in range(ROUNDS))
    reach = REACH_S * tables / TABLES
    name = f"effective policy and trigger check of {tables:,} tables from stored health, s"
    return [{"name": name, "value": round(seconds, 3), "reach": f"<= {reach:g}", "ok": seconds <= reach}]


def look(number: int) -> HealthEntry:
    """The health of a table: some are quiet, some are due, some have never been rewritten."""
    dice = random.Random(number)
    files, target = dice.randrange(1, 5000), 128 * MIB
    most = dice.randrange(1, 200)
    size = files * dice.randrange(MIB, 2 * target)
    rewritten_ms = None if dice.random() < 0.3 else NOW_MS - dice.randrange(72 * HOUR_MS)
    extremes = PartitionExtremes(
        small_file_bytes=32 * MIB,
        target_bytes=target,
        fragment_size_divisor=8,
        min_target_size_ratio=0.75,
        values={
            "files": float(most),
            "mean_bytes": float(dice.randrange(MIB, target)),
            "delete_ratio": round(dice.random() / 4, 4),
            "small_files": float(dice.randrange(most)),
            "commits": float(dice.randrange(40)),
            "fragments": float(dice.randrange(most)),
            "position_deletes": float(dice.randrange(3)),
            "duplicate_ratio": round(dice.random() / 4, 4),
            "undersized_targets": round(dice.random() * 2, 4),
        },
        oldest_ms=dict.fromkeys(("since_rewrite", "since_rewrite_of_fragments", "since_rewrite_of_work"), rewritten_ms),
    )
    figures = TableFigures(
        snapshot_id=dice.getrandbits(62),
        data_files=files,
        small_files=files // 2,
        bytes=size,
        records=size // 100,
        delete_files=dice.randrange(100),
        snapshots=dice.randrange(1, 500),
        target_file_bytes=target,
        score=dice.randrange(101),
        sick=dice.random() < 0.5,
        histogram=tuple(SizeBucket(label=bar, upto=None, files=files // 6, bytes=size // 6) for bar in BARS),
        extremes=extremes,
    )
    return HealthEntry(at_ms=NOW_MS - number, catalog="sql lake", table=f"db{number % 50}.t{number}", figures=figures)


def options(number: int) -> dict[str, Any]:
    """The options of a table, as policies of teams have them."""
    if number % 3 == 0:
        return {"triggers": {"preset": "guide", "max_file_count_per_partition": 50 + number % 100}}
    if number % 3 == 1:
        return {"triggers": {"preset": "amoro", "full_trigger_interval": "7d"}}
    return {"triggers": {"rewrite_interval": f"{1 + number % 48}h", "commits_since_rewrite": 10 + number % 20}}


def _round(url: str, tables: int) -> float:
    began = time.perf_counter()
    entries = run_stores.open_entries(url)
    looks = health_log.HealthLog(entries=entries).each_latest()
    answers = [
        table_check.check(each, Policy.model_validate(options(number)), NOW_MS) for number, each in enumerate(looks)
    ]
    seconds = time.perf_counter() - began
    entries.close()
    states = Counter(answer.state.value for answer in answers)
    print(f"  {seconds:.2f} s: {dict(states)}")
    assert len(answers) == tables
    return seconds


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the tables")
    given = parser.parse_args()
    measured = bars(given.quick)
    bar_lines.show(measured)
    print(json.dumps({"bench": "decisions-triggers", "quick": given.quick, "bars": measured}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
