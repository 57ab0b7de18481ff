"""Rewriting the manifests of a table of a million files, whose partitions are scattered over all of them; and the same
by Iceberg Java's `rewrite_manifests`. Each in a process of its own, with nothing cached.

`python -m bench.manifests [--quick]` prints figures, and as its last line one JSON object with the bars.
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
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import work

from bench import tables

if TYPE_CHECKING:
    from collections.abc import Callable

FILES, QUICK_FILES = 1_000_000, 100_000
MEGABYTES = 1000
Figures = dict[str, float]


def make(root: Path, files: int) -> Figures:
    """Every manifest holds files of every day and tenant."""
    tables.FILES_PER_DAY = 1
    tables.make(root, files)
    return {}


def ours(root: Path, files: int) -> Figures:
    from iceberg_compaction.interfaces import wiring

    catalog = tables.connect(root)
    head = catalog.load_table(tables.NAME).current_snapshot()
    started, used = time.perf_counter(), time.process_time()
    outcome = work.rewrite_manifests(catalog, tables.NAME, wiring.new_run())
    taken = {"seconds": time.perf_counter() - started, "cpu": time.process_time() - used}
    assert outcome.manifest_entries == files, outcome.sentence
    assert head is not None
    catalog.load_table(tables.NAME).manage_snapshots().rollback_to_snapshot(head.snapshot_id).commit()
    return {**taken, "megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def java(root: Path, files: int) -> Figures:
    from tests.factories import java as oracle

    spark = oracle.session(root)
    spark.sql(f"select count(*) from lake.{tables.NAME}.manifests").collect()  # a warm JVM
    started = time.perf_counter()
    spark.sql(f"call lake.system.rewrite_manifests('{tables.NAME}')").collect()
    taken = time.perf_counter() - started
    jvm: Any = spark.sparkContext._jvm
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {"seconds": taken, "megabytes": int(peak.split()[1]) / 1024}


STEPS: dict[str, Callable[[Path, int], Figures]] = {step.__name__: step for step in (make, ours, java)}


def measure(step: str, root: Path, files: int) -> Figures:
    command = [sys.executable, "-m", "bench.manifests", "--step", step, "--root", str(root), "--files", str(files)]
    done = subprocess.run(
        command, env={**os.environ, "ICEBERG_COMPACTION_CACHE": "off"}, stdout=subprocess.PIPE, text=True
    )
    if done.returncode:
        return {}
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {step}: " + ", ".join(f"{name} {value:.1f}" for name, value in figures.items()), flush=True)
    return figures


def bars(found: dict[str, Figures], files: int) -> list[dict[str, Any]]:
    mine, peer = found["ours"], found["java"]
    missing = float("inf")
    memory = mine.get("megabytes", missing)
    faster = peer.get("seconds", 0.0) / mine.get("seconds", missing)
    return [
        {
            "name": f"memory of rewriting the manifests of {files:,} files, MB",
            "reach": f"<= {MEGABYTES}",
            "value": round(memory),
            "ok": memory <= MEGABYTES,
        },
        {
            "name": "times as fast as Iceberg Java's rewrite_manifests",
            "reach": ">= 1",
            "value": round(faster, 1),
            "ok": faster >= 1,
        },
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--step", choices=STEPS)
    parser.add_argument("--root", type=Path)
    parser.add_argument("--files", type=int)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](arguments.root, arguments.files)))
        return
    files = QUICK_FILES if arguments.quick else FILES
    with tempfile.TemporaryDirectory() as folder:
        found = {step: measure(step, Path(folder) / "lake", files) for step in STEPS}
    print(json.dumps({"bench": "manifests", "files": files, "figures": found, "bars": bars(found, files)}))


if __name__ == "__main__":
    main()
