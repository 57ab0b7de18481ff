"""Looking for the orphans of a table of a million files that lie on a local disk, one in a hundred of them an orphan;
the same by tasks on a warm local Spark; and by Iceberg Java's `remove_orphan_files` with `dry_run`. Each in a process
of its own, with nothing cached.

`python -m bench.housekeeping --part orphans`; `python -m bench.housekeeping_orphans --quick` measures it alone.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import bar_lines, tables

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.execute.engine_door import Engine

FILES, QUICK_FILES = 1_000_000, 50_000
ONE_IN = 100
MEGABYTES, TIMES = 1000, 5.0
LONGEST = 900  # seconds of a step
OLD = 1_700_000_000  # seconds; far older than any age
Figures = dict[str, float]


def make(root: Path, files: int) -> Figures:
    """The table, and all of its files: empty, old, and in folders of partitions."""
    from iceberg_compaction.metadata.reach import reachable_files

    tables.FILES_PER_DAY = max(1, files // 50)  # 50 days of 50 tenants
    tables.DATA = f"file://{root}/bench/events/data"
    table = tables.make(root, files)
    orphans = 0
    for batch in reachable_files.snapshot_files(table.io, table.metadata.snapshots):
        for path in batch.column("path").to_pylist():
            local = Path(path.removeprefix("file://"))
            if not local.exists():
                _touch(local)
                if orphans * ONE_IN < files and hash(path) % ONE_IN == 0:
                    _touch(local.with_suffix(".orphan"))
                    orphans += 1
    for path in Path(root, "bench").rglob("metadata/*"):
        os.utime(path, (OLD, OLD))
    return {"orphans": orphans}


def _touch(path: Path) -> None:
    try:
        path.touch()
    except FileNotFoundError:
        path.parent.mkdir(parents=True)
        path.touch()
    os.utime(path, (OLD, OLD))


def ours(root: Path, files: int) -> Figures:
    from iceberg_compaction.execute.engines.inline_engine import InlineEngine

    return _scan(root, files, InlineEngine(), spread=False)


def spark(root: Path, files: int) -> Figures:
    """Folders are listed by tasks, on a session that has started before, as Java's has."""
    from iceberg_compaction.execute.engines.spark.spark_engine import SparkEngine

    with SparkEngine(conf={"spark.master": "local[2]"}) as engine:
        engine.cores()
        return _scan(root, files, engine, spread=True)


def _scan(root: Path, files: int, engine: Engine, *, spread: bool) -> Figures:
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.model.orphan_plan import OrphanGoal
    from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans
    from iceberg_compaction.workflow import operate

    catalog = tables.connect(root)
    house = operate.House(catalog=catalog, engines=wiring.engine_factory(engine))
    operation = RemoveOrphans(table=tables.NAME, goal=OrphanGoal(), spread_from=0 if spread else sys.maxsize)
    started, used = time.perf_counter(), time.process_time()
    plan = operate.plan_only(operation, house, wiring.new_run())
    taken = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    assert plan.listed >= files, plan.sentence
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {**taken, "megabytes": peak, "orphans": len(plan.files.paths)}


def java(root: Path, files: int) -> Figures:
    from tests.factories import java as oracle

    spark = oracle.session(root)
    spark.sql(f"select count(*) from lake.{tables.NAME}.manifests").collect()  # a warm JVM
    before = datetime.fromtimestamp(time.time() - 3 * 86_400, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
    started = time.perf_counter()
    orphans = spark.sql(
        f"call lake.system.remove_orphan_files(table => '{tables.NAME}', dry_run => true,"
        f" older_than => timestamp '{before}')"
    ).collect()
    taken = time.perf_counter() - started
    jvm: Any = spark.sparkContext._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {"seconds": taken, "megabytes": int(peak.split()[1]) / 1024, "orphans": len(orphans)}


STEPS: dict[str, Callable[[Path, int], Figures]] = {step.__name__: step for step in (make, ours, spark, java)}


def measure(step: str, root: Path, files: int) -> Figures:
    """The figures of one step; none if it fails."""
    command = [sys.executable, "-W", "ignore", "-m", "bench.housekeeping_orphans", "--step", step]
    try:
        done = subprocess.run(
            [*command, "--root", str(root), "--files", str(files)],
            env={**os.environ, "ICEBERG_COMPACTION_CACHE": "off", "PYTHONHASHSEED": "0"},
            stdout=subprocess.PIPE,
            text=True,
            timeout=LONGEST,
        )
    except subprocess.TimeoutExpired:
        print(f"  {step}: not done in {LONGEST} seconds", flush=True)
        return {}
    if done.returncode:
        return {}
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {step}: " + ", ".join(f"{name} {value:.1f}" for name, value in figures.items()), flush=True)
    return figures


def bars(quick: bool) -> list[dict[str, Any]]:
    """How fast and how large, beside Iceberg Java."""
    files = QUICK_FILES if quick else FILES
    with tempfile.TemporaryDirectory() as folder:
        figures = {step: measure(step, Path(folder) / "lake", files) for step in STEPS}
    mine, peer, tasks = figures["ours"], figures["java"], figures["spark"]
    missing = float("inf")
    memory = mine.get("megabytes", missing)
    faster = peer.get("seconds", 0.0) / mine.get("seconds", missing)
    same = mine.get("orphans") == peer.get("orphans") == figures["make"].get("orphans")
    return [
        {
            "name": f"orphan scan of {files:,} files, times as fast as Iceberg Java's",
            "reach": f">= {TIMES:g}",
            "value": round(faster, 1),
            "ok": faster >= TIMES and same,
        },
        {
            "name": f"memory of an orphan scan of {files:,} files, MB",
            "reach": f"<= {MEGABYTES}",
            "value": None if memory == missing else round(memory),
            "ok": memory <= MEGABYTES,
        },
        {
            "name": f"the same by tasks on Spark, local[2], {files:,} files, seconds",
            "reach": "the same orphans",
            "value": round(tasks["seconds"], 1) if tasks else None,
            "ok": bool(tasks) and tasks["orphans"] == mine.get("orphans"),
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--files", type=int)
    given = parser.parse_args()
    if given.step:
        print(json.dumps(STEPS[given.step](given.root, given.files)))
        return
    measured = bars(given.quick)
    bar_lines.show(measured)
    print(json.dumps({"bench": "housekeeping", "quick": given.quick, "bars": measured}))


if __name__ == "__main__":
    main()
