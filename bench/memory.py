"""The memory that a task takes, as it was foreseen and in truth: tasks of many shapes, each in a process of its own.

`python -m bench.memory [--quick]` prints a table, and as its last line one JSON object with the bars. The shapes with
pages of more than a hundred megabytes are measured, but no task can hold less than a page.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import bar_lines, memory_shapes

MIB = 2**20
MOST_MB, GROWTH = 700, 1.2
LEAST, MOST = 1.0, 1.6  # foreseen bytes for a byte that a process takes, libraries included
HUGE = "texts of 20 MB"
SMALL, LARGE = "12 columns", "the same, ten times as much"
_CHILD = """
import json, sys, time
from iceberg_compaction.execute.worker import budgets, execute_task
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask
task = RewriteTask.model_validate_json(sys.stdin.readline())
context = RewriteContext.model_validate_json(sys.stdin.readline())
started = time.process_time()
effort = execute_task.rewrite(task, context, "0", budgets.Budgets(cores=int(sys.argv[1]))).effort
peak = next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({"foreseen": effort.memory_foreseen, "peak": peak, "cpu": time.process_time() - started}))
"""


def measure(name: str, cores: int) -> dict[str, Any]:
    """One task in a process of its own, with so many cores."""
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        task, context = memory_shapes.build(Path(folder), memory_shapes.SHAPES[name])
        given = f"{task.model_dump_json()}\n{context.model_dump_json()}\n"
        command = [sys.executable, "-c", _CHILD, str(cores)]
        done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True)
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    ratio = figures["foreseen"] / figures["peak"]
    cells = [task.bytes / MIB, figures["foreseen"] / MIB, figures["peak"] / MIB]
    print(f"{name:34}" + "".join(f"{cell:10.0f}" for cell in cells) + f"{ratio:10.2f}{figures['cpu']:8.1f}", flush=True)
    return {**figures, "megabytes": figures["peak"] / 1e6, "ratio": ratio}


def bars(figures: dict[str, dict[str, Any]]) -> list[dict[str, Any]]:
    """The worst shapes."""
    usual = {name: run for name, run in figures.items() if name != HUGE}
    worst = max(usual, key=lambda name: usual[name]["megabytes"])
    low = min(figures, key=lambda name: figures[name]["ratio"])
    encoded = {name: run for name, run in figures.items() if not memory_shapes.SHAPES[name].copies}
    high = max(encoded, key=lambda name: encoded[name]["ratio"])
    growth = figures[LARGE]["peak"] / figures[SMALL]["peak"]
    return [
        _bar(f"peak memory of a task, MB: {worst}", usual[worst]["megabytes"], f"<= {MOST_MB}", most=MOST_MB),
        _bar(f"foreseen to real peak at least: {low}", figures[low]["ratio"], f">= {LEAST}", least=LEAST),
        _bar(f"foreseen to real peak at most: {high}", encoded[high]["ratio"], f"<= {MOST}", most=MOST),
        _bar("peak memory, ten times the input to once", growth, f"<= {GROWTH}", most=GROWTH),
    ]


def _bar(name: str, value: float, reach: str, *, least: float = 0.0, most: float = float("inf")) -> dict[str, Any]:
    return {"name": name, "value": round(value, 2), "reach": reach, "ok": least <= value <= most}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="six of the shapes")
    parser.add_argument("--only", nargs="*", choices=tuple(memory_shapes.SHAPES), help="these shapes, without bars")
    parser.add_argument("--cores", type=int, default=1, help="cores of a task")
    options = parser.parse_args()
    print(f"{'':34}{'input MB':>10}{'foreseen':>10}{'peak':>10}{'ratio':>10}{'CPU s':>8}", flush=True)
    if options.only:
        for name in options.only:
            measure(name, options.cores)
        return 0
    chosen = [name for name, shape in memory_shapes.SHAPES.items() if shape.quick or not options.quick]
    figures = bars({name: measure(name, options.cores) for name in chosen})
    bar_lines.show(figures)
    print(json.dumps({"bench": "memory", "bars": figures}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
