"""Seeing and planning a table of a million files: cold, with a warm cache, after a commit, and with deletes; beside
Iceberg Java and PyIceberg on the same table. Each figure comes from a process of its own, leaves out its start, and is
the best of a few within it, for peers as for us: other work on a machine only ever adds, and in a virtual machine the
first use of memory costs more than the work does.

`python -m bench.plan [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import work

from bench import bar_lines, tables
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.model.policies import Policy

FILES, QUICK_FILES = 1_000_000, 100_000
NEW_FILES = 12_500
PATIENCE = 120  # seconds; what would take PyIceberg longer is told from a tenth of the files
GROWTH = 1.15  # a file may cost so much more in a table ten times as large: clocks are not exact
Figures = dict[str, float]


def seconds(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def peak_megabytes() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def cache_of(root: Path) -> Path:
    return root / "cache"


def doors(root: Path) -> tuple[Callable[[], Any], Callable[..., Any]]:
    """Health and plan, as every outside calls them."""
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.model.policies import Policy

    catalog = tables.connect(root)

    def health() -> Any:
        return diagnose.diagnose(catalog, tables.NAME, Policy(), diagnose.HealthLook(cache=wiring.manifest_cache()))

    def plan(policy: Policy | None = None) -> Any:
        return work.plan_table(catalog, tables.NAME, policy or Policy(), wiring.new_run())

    import datafusion  # noqa: F401 - part of the start, not of the work

    return health, plan


def cold(root: Path) -> Figures:
    """Inventory and health from nothing, then the plan; the cache is empty and is filled. The best of three."""
    health, plan = doors(root)
    taken = []
    for _ in range(3):
        shutil.rmtree(cache_of(root), ignore_errors=True)
        taken.append(seconds(lambda: (health(), plan())))
    return {"seconds": min(taken), "first": taken[0], "megabytes": peak_megabytes()}


def warm(root: Path) -> Figures:
    """Health and plans with a cache that knows every manifest; the best of seven."""
    from iceberg_compaction.model.policies import Policy

    health, plan = doors(root)
    first = seconds(health)
    by_files, by_bytes = Policy(max_files_to_rewrite=10_000), Policy(max_bytes_to_rewrite=100 << 30)
    rounds = [
        (seconds(health), seconds(lambda: plan(by_files)), seconds(lambda: plan(by_bytes)), seconds(plan))
        for _ in range(7)
    ]
    best = dict(zip(("health", "by files", "by bytes", "plan"), map(min, zip(*rounds, strict=True)), strict=True))
    return {"first health": first, **best}


def commit(root: Path) -> Figures:
    """The inventory after commits of one manifest each; the best of five."""
    from iceberg_compaction.interfaces import wiring
    from iceberg_compaction.metadata import look

    table, cache = tables.connect(root).load_table(tables.NAME), wiring.manifest_cache()
    look.look(table, name=tables.NAME, cache=cache)
    first = look.look(table, name=tables.NAME, cache=cache).view.files.num_rows
    found = []
    for number in range(5):
        table = tables.append_files(table, first + number * NEW_FILES, NEW_FILES)
        found.append(seconds(partial(look.look, table, name=tables.NAME, cache=cache)))
    return {"inventory": min(found)}


def deletes(root: Path) -> Figures:
    """The delete index over the table, with a delete file for every tenth data file; the best of three."""
    from iceberg_compaction.metadata import look
    from iceberg_compaction.metadata.deletes import delete_index

    table = tables.connect(root).load_table(tables.NAME)
    data_files = look.look(table, name=tables.NAME).view.files.num_rows
    table = tables.append_deletes(table, data_files // 10)
    files = look.look(table, name=tables.NAME).view.files

    def index() -> None:
        delete_index.build(files, unpartitioned_specs=frozenset()).counts_per_data_file()

    return {"seconds": min(seconds(index) for _ in range(3)), "deletes": files.num_rows - data_files}


def pyiceberg(root: Path) -> Figures:
    """PyIceberg's own planning, the best of two."""
    table = tables.connect(root).load_table(tables.NAME)
    taken = [seconds(lambda: list(table.scan().plan_files())) for _ in range(2)]
    return {"seconds": min(taken), "first": taken[0], "megabytes": peak_megabytes()}


def java(root: Path) -> Figures:
    """Iceberg Java's planner for rewrites, the best of three: the first finds the JVM cold."""
    from tests.factories import java as oracle

    spark = oracle.session(root)
    jvm: Any = spark.sparkContext._jvm
    load = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable

    def plan() -> None:
        planner = jvm.org.apache.iceberg.actions.BinPackRewriteFilePlanner(
            load(spark._jsparkSession, f"lake.{tables.NAME}")
        )
        planner.init(jvm.java.util.HashMap())
        planner.plan().totalGroupCount()

    taken = [seconds(plan) for _ in range(3)]
    pid = int(jvm.java.lang.ProcessHandle.current().pid())
    peak = next(line for line in Path(f"/proc/{pid}/status").read_text().splitlines() if line.startswith("VmHWM"))
    spark.stop()
    return {"seconds": min(taken), "first": taken[0], "megabytes": int(peak.split()[1]) / 1024}


STEPS: dict[str, Callable[[Path], Figures]] = {
    step.__name__: step for step in (cold, warm, commit, deletes, pyiceberg, java)
}


def measure(step: str, root: Path) -> Figures:
    """A step in a process of its own; its cache is in the table's folder."""
    command = [sys.executable, "-m", "bench.plan", "--step", step, "--root", str(root)]
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(cache_of(root))}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        return {}
    figures: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in figures.items()), flush=True)
    return figures


def measure_all(folder: Path, files: int) -> dict[str, dict[str, float]]:
    """All steps, on tables of `files`, a tenth and a hundredth of them."""
    found = {}
    for share in (100, 10, 1):
        root = folder / str(share)
        taken = seconds(partial(tables.make, root, files // share))
        print(f"{files // share} files, made in {taken:.0f} s", flush=True)
        found[f"cold 1/{share}"] = measure("cold", root)
        if share == 10:
            found["pyiceberg"] = {**measure("pyiceberg", root), "times": 10}
    if 10 * found["pyiceberg"].get("seconds", PATIENCE) <= PATIENCE:
        found["pyiceberg"] = {**measure("pyiceberg", root), "times": 1}
    for step in ("warm", "java", "commit", "deletes"):
        found[step] = measure(step, root)
    return found


def bars(found: dict[str, dict[str, float]], files: int) -> list[dict[str, Any]]:
    """What is to be reached, and what was."""
    size = f"{files:,} files"
    whole, tenth = found["cold 1/1"], found["cold 1/10"]
    missing = float("inf")
    growth = whole.get("seconds", missing) / (10 * tenth.get("seconds", missing))
    early = tenth.get("seconds", missing) / (10 * found["cold 1/100"].get("seconds", missing))
    peer = found["pyiceberg"]
    times_faster = peer["times"] * peer.get("seconds", 0) / whole.get("seconds", missing)
    scaled = "" if peer["times"] == 1 else " (a tenth of the files, x 10)"
    java_times = found["java"].get("seconds", 0) / whole.get("seconds", missing)
    warm_figures = found["warm"]
    rows = [
        (f"{size}, cold: inventory, health and plan, s", whole.get("seconds"), "<=", 6.0),
        (f"{size}, cold: peak memory, MB", whole.get("megabytes"), "<=", 1200.0),
        ("cold, times faster than Iceberg Java's BinPackRewriteFilePlanner", java_times, ">=", 1.0),
        (f"cold, times faster than PyIceberg's plan_files{scaled}", times_faster, ">=", 15.0),
        (f"{size}, warm: health, ms", 1000 * warm_figures.get("health", missing), "<=", 100.0),
        (f"{size}, warm: plan capped by files, ms", 1000 * warm_figures.get("by files", missing), "<=", 100.0),
        (f"{size}, warm: plan capped by bytes, ms", 1000 * warm_figures.get("by bytes", missing), "<=", 100.0),
        (f"{size}, warm: plan, ms", 1000 * warm_figures.get("plan", missing), "<=", 500.0),
        ("one new manifest after a commit, ms", 1000 * found["commit"].get("inventory", missing), "<=", 300.0),
        (
            f"delete index, {found['deletes'].get('deletes', 0):,} delete files, s",
            found["deletes"].get("seconds"),
            "<=",
            3.0,
        ),
        ("cost of a file, table of 100 % to 10 %", growth, "<=", GROWTH),
        ("cost of a file, table of 10 % to 1 %", early, "<=", GROWTH),
    ]
    return [_bar(*row) for row in rows]


def _bar(name: str, value: float | None, sign: str, reach: float) -> dict[str, Any]:
    known = value is not None and value == value and abs(value) != float("inf")
    ok = known and value is not None and (value <= reach if sign == "<=" else value >= reach)
    return {"name": name, "value": round(value, 3) if known and value else None, "reach": f"{sign} {reach:g}", "ok": ok}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_FILES} files instead of {FILES}")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](arguments.root)))
        return 0
    files = QUICK_FILES if arguments.quick else FILES
    with tempfile.TemporaryDirectory(prefix="bench-plan-") as name:
        found = measure_all(Path(name), files)
    reached = bars(found, files)
    print(f"{'':75} {'value':>10}  reach")
    bar_lines.show(reached)
    print(json.dumps({"bench": "plan", "files": files, "figures": found, "bars": reached}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
