"""The memory that a task takes, by its forecast and in truth: tasks of many shapes, each in a process of its own.

`python -m bench.memory [--quick]` prints a table, and as its last line one JSON object with the bars.
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

from bench import memory_shapes

MIB = 2**20
_CHILD = """
import json, sys, time
import pyarrow as pa
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask
def status(name):
    return next(int(line.split()[1]) * 1024 for line in open("/proc/self/status") if line.startswith(name))
task = RewriteTask.model_validate_json(sys.stdin.readline())
context = RewriteContext.model_validate_json(sys.stdin.readline())
base = status("VmRSS")
started = time.process_time()
result = execute_task.rewrite(task, context, "0")
print(json.dumps({"base": base, "peak": status("VmHWM"), "pool": pa.default_memory_pool().max_memory(),
    "cpu": time.process_time() - started, "foreseen": result.effort.memory_foreseen}))
"""


def measure(name: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="bench-memory-") as folder:
        task, context = memory_shapes.build(Path(folder), memory_shapes.SHAPES[name])
        given = f"{task.model_dump_json()}\n{context.model_dump_json()}\n"
        done = subprocess.run(
            [sys.executable, "-c", _CHILD], input=given, stdout=subprocess.PIPE, text=True, check=True
        )
    figures: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    figures["input"] = task.bytes
    print(
        f"{name:34} input {task.bytes / MIB:6.0f} base {figures['base'] / MIB:5.0f} peak {figures['peak'] / MIB:5.0f} foreseen {figures['foreseen'] / MIB:5.0f} ratio {figures['foreseen'] / figures['peak']:.2f} pool {figures['pool'] / MIB:5.0f} cpu {figures['cpu']:.1f}",
        flush=True,
    )
    return figures


if __name__ == "__main__":
    for name in sys.argv[1:] or memory_shapes.SHAPES:
        try:
            measure(name)
        except Exception as e:
            print(name, repr(e))
