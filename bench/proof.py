"""What proof costs: the same rewrite without meters and at each level, in turns, by processor time.

The cost of a level is the time spent in proving (both meters, footers re-read, outputs read back) over the rest of the
same run, so that a machine which is faster or slower from one run to the next does not blur it. Times of whole runs are
shown beside it. `python -m bench.proof [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    NestedField,
    StringType,
    TimestampType,
)

from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task, prepared_task, source
from iceberg_compaction.execute.worker.output import rolling_writer, sink
from iceberg_compaction.execute.worker.proof import measure, verify_files
from iceberg_compaction.model.policies import Policy, ProofLevel, resolve_sizes
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask

Runs = dict[ProofLevel | None, list[tuple[float, float]]]  # seconds of each run, and of its proof
REACH = 0.20  # of the rewrite, for level `checksum`
COLUMNS = [
    ("id", LongType()),
    ("ts", TimestampType()),
    ("day", DateType()),
    ("amount", DecimalType(12, 2)),
    ("price", DoubleType()),
    ("score", FloatType()),
    ("count", IntegerType()),
    ("active", BooleanType()),
    ("country", StringType()),
    ("status", StringType()),
    ("event", StringType()),
    ("url", StringType()),
]
SCHEMA = Schema(*[NestedField(i + 1, name, kind, required=False) for i, (name, kind) in enumerate(COLUMNS)])


def make_table(rows: int, seed: int) -> pa.Table:
    """Events as sites write them: times, amounts, categories, random identifiers and links; about 60 bytes per row."""
    random = np.random.default_rng(seed)
    countries = np.array(["de", "fr", "us", "in", "br", "jp", "ng", "se"])
    cents = pa.array(random.integers(1, 500_000, rows)).cast(pa.decimal128(21, 2)).cast(pa.decimal128(12, 2))
    columns = [
        np.arange(rows) + seed * rows,
        pa.array(np.sort(random.integers(0, 86_400_000_000, rows)) + seed * 86_400_000_000, pa.timestamp("us")),
        pa.array(np.full(rows, 20_000 + seed, dtype=np.int32)).cast(pa.date32()),
        cents,
        random.random(rows) * 100,
        random.random(rows).astype(np.float32),
        pa.array(random.integers(0, 50, rows).astype(np.int32), mask=random.random(rows) < 0.05),
        random.random(rows) < 0.5,
        countries[random.integers(0, 8, rows)],
        np.array(["new", "paid", "sent", "done"])[random.integers(0, 4, rows)],
        [str(uuid.UUID(bytes=random.bytes(16))) for _ in range(rows)],
        [f"https://shop.example/item/{a}?ref={b}" for a, b in random.integers(0, 10**6, (rows, 2))],
    ]
    return pa.table(columns, names=[name for name, _ in COLUMNS]).cast(arrow_schemas.file_schema(SCHEMA))


def make_inputs(root: Path, files: int, rows: int) -> RewriteTask:
    """Input files, and the task over them."""
    paths = [root / f"in-{seed}.parquet" for seed in range(files)]
    for seed, path in enumerate(paths):
        pq.write_table(make_table(rows, seed), path, compression="zstd", store_schema=False)
    return RewriteTask(
        id=0,
        group_id=0,
        spec_id=0,
        partition="{}",
        file_paths=tuple(map(str, paths)),
        file_sizes=tuple(path.stat().st_size for path in paths),
        record_counts=(rows,) * files,
    )


def make_context(root: Path, level: ProofLevel) -> RewriteContext:
    """A run on a table in a local directory."""
    return RewriteContext(
        run_id="bench",
        table="bench.proof",
        table_location=str(root / "table"),
        table_schema=SCHEMA.model_dump_json(),
        partition_specs={0: UNPARTITIONED_PARTITION_SPEC.model_dump_json()},
        properties={},
        sizes=resolve_sizes(Policy(), {}),
        verify=level,
    )


class Clock:
    """Processor seconds spent inside some functions, each counted once however they are nested."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self._depth = 0

    def watch(self, owner: Any, name: str) -> None:
        whole = getattr(owner, name)

        @functools.wraps(whole)
        def watched(*arguments: Any) -> Any:
            self._depth += 1
            started = time.process_time()
            try:
                return whole(*arguments)
            finally:
                self._depth -= 1
                if not self._depth:
                    self.seconds += time.process_time() - started

        setattr(owner, name, watched)


def run(task: RewriteTask, root: Path, level: ProofLevel | None, clock: Clock) -> tuple[float, float]:
    """Processor seconds of one rewrite, and of its proof; its outputs are removed."""
    context = make_context(root, level or ProofLevel.COUNTS)
    before, started = clock.seconds, time.process_time()
    if level is None:
        prepared = prepared_task.prepare(task, context, budgets.DEFAULT)
        request = sink.SinkRequest(
            task=task, context=context, attempt="0", plan=prepared.output, budgets=budgets.DEFAULT
        )
        writer = rolling_writer.RollingWriter(prepared.io, sink.write_request(request), measure.Meter(SCHEMA, None))
        for batch in source.PartSource(prepared, None).all_batches():
            writer.write(batch)
        paths = [file.path for file in writer.close()]
    else:
        paths = [file.file_path for file in execute_task.rewrite(task, context, "0").staged]
    seconds = time.process_time() - started
    for path in paths:
        Path(path).unlink()
    return seconds, clock.seconds - before


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and smaller files")
    quick = parser.parse_args().quick
    files, rows, rounds = (8, 40_000, 3) if quick else (20, 50_000, 5)
    clock = Clock()
    clock.watch(measure.Meter, "add")
    clock.watch(verify_files, "read_footers")
    clock.watch(verify_files, "read_back")
    levels: list[ProofLevel | None] = [None, *ProofLevel]
    runs: Runs = {level: [] for level in levels}
    with tempfile.TemporaryDirectory(prefix="bench-proof-") as name:
        root = Path(name)
        task = make_inputs(root, files, rows)
        run(task, root, None, clock)  # warm
        for _ in range(rounds):
            for level in levels:
                runs[level].append(run(task, root, level, clock))
    report(task, runs)
    return 0


def report(task: RewriteTask, runs: Runs) -> None:
    """A table for people, then one line for machines."""
    print(f"{len(task.file_paths)} files, {task.bytes / 2**20:.0f} MiB, {sum(task.record_counts)} rows, 12 columns")
    print(f"{'level':10} {'best s':>8} {'median s':>9} {'MiB/s':>7} {'proof s':>8} {'cost':>7}")
    costs = {}
    for level, times in runs.items():
        label = "none" if level is None else level.value
        whole = [total for total, _ in times]
        costs[level] = round(statistics.median(proof / (total - proof) for total, proof in times), 4)
        proving = statistics.median(proof for _, proof in times)
        speed = task.bytes / 2**20 / min(whole)
        middle = statistics.median(whole)
        print(f"{label:10} {min(whole):8.2f} {middle:9.2f} {speed:7.1f} {proving:8.3f} {costs[level]:7.1%}")
    bars = [
        {
            "name": "checksum cost / rewrite",
            "value": costs[ProofLevel.CHECKSUM],
            "reach": f"<= {REACH:.2f}",
            "ok": costs[ProofLevel.CHECKSUM] <= REACH,
        },
        {"name": "counts cost / rewrite", "value": costs[ProofLevel.COUNTS], "reach": "told", "ok": True},
        {"name": "deep cost / rewrite", "value": costs[ProofLevel.DEEP], "reach": "told", "ok": True},
    ]
    print(json.dumps({"bench": "proof", "bars": bars}))


if __name__ == "__main__":
    sys.exit(main())
