"""What a task takes in memory when equality deletes are far more than it may hold: a group of files, and on it one
million and fifty million deletes of one long key. Each rewrite runs in a process of its own, whose peak is measured.

`python -m bench.equality_memory [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, LongType, NestedField, StringType

from iceberg_compaction.execute.worker import arrow_schemas, execute_task
from iceberg_compaction.model.policies import Policy, ProofLevel, resolve_sizes
from iceberg_compaction.model.rewrite_task import DeleteFile, RewriteContext, RewriteTask
from iceberg_compaction.model.table_view import EQUALITY_DELETES

REACH = 700  # MB of resident memory
KEY = NestedField(1, "id", LongType(), required=True)
SCHEMA = Schema(KEY, NestedField(2, "price", DoubleType()), NestedField(3, "note", StringType()))
GOLDEN = 0x9E3779B97F4A7C15  # odd, so that its multiples are different numbers in no order


def keys(first: int, count: int) -> np.ndarray[Any, Any]:
    """Different keys for different numbers, in no order."""
    numbers = np.arange(first, first + count, dtype=np.uint64)
    return (numbers * np.uint64(GOLDEN)).view(np.int64)


def make_data(root: Path, files: int, rows: int) -> None:
    """Data files with the keys from 0 on."""
    random = np.random.default_rng(5)
    for number in range(files):
        notes = [f"{a:016x}{b:016x}" for a, b in random.integers(0, 2**62, (rows, 2))]
        columns = [keys(number * rows, rows), random.random(rows), pa.array(notes)]
        table = pa.table(columns, schema=arrow_schemas.file_schema(SCHEMA))
        pq.write_table(table, root / f"data-{number}.parquet", compression="zstd", store_schema=False)


def make_deletes(root: Path, name: str, files: int, rows: int, hits: int) -> None:
    """Delete files of `rows` keys each; the first `hits` of every file are keys of data."""
    for number in range(files):
        found = keys(number * hits, hits)
        missed = keys(2**40 + number * rows, rows - hits)
        table = pa.table([np.concatenate([found, missed])], schema=arrow_schemas.file_schema(Schema(KEY)))
        pq.write_table(table, root / f"{name}-{number}.parquet", compression="zstd", store_schema=False)


def make_task(root: Path, name: str) -> RewriteTask:
    """The task over everything in a directory."""
    data, deletes = sorted(root.glob("data-*.parquet")), sorted(root.glob(f"{name}-*.parquet"))
    return RewriteTask(
        id=0,
        group_id=0,
        spec_id=0,
        partition="{}",
        file_paths=tuple(map(str, data)),
        file_sizes=tuple(path.stat().st_size for path in data),
        record_counts=tuple(pq.read_metadata(path).num_rows for path in data),
        sequence_numbers=(1,) * len(data),
        deletes=tuple(
            DeleteFile(
                file_path=str(path),
                content=EQUALITY_DELETES,
                file_format="PARQUET",
                file_size_in_bytes=path.stat().st_size,
                record_count=pq.read_metadata(path).num_rows,
                sequence_number=2,
                equality_ids=(1,),
            )
            for path in deletes
        ),
    )


def run_task(root: Path, name: str) -> None:
    """One rewrite in this process; prints what it took."""
    context = RewriteContext(
        run_id="bench",
        table="bench.equality",
        table_location=str(root / f"table-{name}"),
        table_schema=SCHEMA.model_dump_json(),
        partition_specs={0: UNPARTITIONED_PARTITION_SPEC.model_dump_json()},
        properties={},
        sizes=resolve_sizes(Policy(), {}),
        verify=ProofLevel.CHECKSUM,
    )
    started = time.monotonic()
    result = execute_task.rewrite(make_task(root, name), context, "0")
    seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    print(json.dumps({"mb": round(peak), "seconds": round(seconds, 1), "deleted": result.proof.deleted_rows}))


def measured(root: Path, name: str) -> dict[str, Any]:
    """The same in a process of its own."""
    command = [sys.executable, "-m", "bench.equality_memory", "--task", name, "--root", str(root)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    parser.add_argument("--task", help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task:
        run_task(options.root, options.task)
        return 0
    data_rows, files, rows = (50_000, 3, 2_000_000) if options.quick else (500_000, 10, 5_000_000)
    hits = {"few": data_rows // 10, "many": data_rows // 5}
    with tempfile.TemporaryDirectory(prefix="bench-equality-") as name:
        root = Path(name)
        make_data(root, 10, data_rows)
        make_deletes(root, "few", 1, 1_000_000, hits["few"])
        make_deletes(root, "many", files, rows, hits["many"])
        runs = {1_000_000: measured(root, "few"), files * rows: measured(root, "many")}
    report(runs, 10 * data_rows, [hits["few"], files * hits["many"]])
    return 0


def report(runs: dict[int, dict[str, Any]], rows: int, deleted: list[int]) -> None:
    """A table for people, then one line for machines."""
    print(f"{rows} rows in 10 files")
    print(f"{'deletes':>10} {'peak MB':>8} {'seconds':>8} {'rows deleted':>13}")
    bars = []
    for (count, run), expected in zip(runs.items(), deleted, strict=True):
        print(f"{count:10} {run['mb']:8} {run['seconds']:8} {run['deleted']:13}")
        name = f"peak MB, {count} equality deletes"
        bars.append({"name": name, "value": run["mb"], "reach": f"<= {REACH}", "ok": run["mb"] <= REACH})
        right = run["deleted"] == expected
        bars.append({"name": f"rows of {count} deletes", "value": run["deleted"], "reach": f"{expected}", "ok": right})
    print(json.dumps({"bench": "equality_memory", "bars": bars}))


if __name__ == "__main__":
    sys.exit(main())
