"""Small files that stand for gigabytes, and the memory that a process of its own needs to rewrite them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

_CHILD = """
import json, sys
from iceberg_compaction import errors
from iceberg_compaction.execute.worker import budgets, execute_task as rewrite
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask
task = RewriteTask.model_validate_json(sys.stdin.readline())
context = RewriteContext.model_validate_json(sys.stdin.readline())
try:
    result = rewrite.rewrite(task, context, "0", budgets.Budgets(cores=int(sys.argv[1])))
    found = {"rows": sum(file.record_count for file in result.staged), "deleted": result.proof.deleted_rows}
    found["files"] = [file.file_path for file in result.staged]
    found["foreseen_megabytes"] = result.effort.memory_foreseen / 2**20
    found["peak_megabytes"] = result.effort.memory_peak / 2**20
except errors.CompactionError as error:
    found = {"error": str(error)}
# Unlike getrusage's, this peak is not that of the parent process.
peak = next(line for line in open("/proc/self/status") if line.startswith("VmHWM"))
print(json.dumps({**found, "megabytes": int(peak.split()[1]) / 1024}))
"""


def rewrite(task: RewriteTask, context: RewriteContext, cores: int = 1) -> dict[str, Any]:
    """What became of a task, or its error, and the peak of its memory."""
    given = f"{task.model_dump_json()}\n{context.model_dump_json()}\n"
    command = [sys.executable, "-c", _CHILD, str(cores)]
    done = subprocess.run(command, input=given, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ))
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def texts(rows: int, different: int, length: int) -> pa.DictionaryArray:
    """Long texts, of which only a few differ."""
    values = pa.array([f"{number:08}" + "x" * (length - 8) for number in range(different)])
    return pa.DictionaryArray.from_arrays(pa.array(np.arange(rows, dtype=np.int32) % different), values)


def write(path: Path, columns: dict[str, pa.Array], schema: pa.Schema, **options: Any) -> Path:
    """A file whose dictionaries are as large as they need be; `schema` has the field ids."""
    fields = [schema.field(name).with_type(array.type) for name, array in columns.items()]
    table = pa.Table.from_arrays(list(columns.values()), schema=pa.schema(fields))
    settings = {"compression": "zstd", "dictionary_pagesize_limit": 2**30, "store_schema": False, **options}
    pq.write_table(table, path, row_group_size=len(table), **settings)
    return path
