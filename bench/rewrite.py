"""Rewriting data files beside Iceberg Java's `rewrite_data_files`: the same tables, the same cores, both on Spark, both
warm, the best of a few runs each; and the memory that a task takes, however large it is.

Inputs are files of one row group and about 6 MB. After each run the table is rolled back to where it was.
`python -m bench.rewrite [--quick]` prints a table, and as its last line one JSON object with the bars.
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
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import bar_lines, proof

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

CORES, TARGET = 2, 32 << 20
ROWS, FILES, QUICK_FILES = 100_000, 54, 12  # about 5.9 MB each
DELETED, KEYS = 0.02, 1_000_000
ROUNDS, QUICK_ROUNDS = 4, 2
LARGE = 10  # a large group is the small one so many times over
KINDS = ("plain", "position", "equality")
WORDS = {
    "plain": "bin-pack, no deletes",
    "position": f"position deletes on {DELETED:.0%} of rows",
    "equality": f"equality deletes, {KEYS:,} keys",
}
REACH, MEMORY_REACH_MB, MEMORY_GROWTH = 4.0, 700.0, 1.2


def connect(root: Path) -> Catalog:
    from pyiceberg.catalog.sql import SqlCatalog

    return SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")


def make(root: Path, files: int) -> None:
    """One table of each kind, with the same rows."""
    catalog = connect(root)
    catalog.create_namespace("bench")
    properties = {"format-version": "2", "write.target-file-size-bytes": str(TARGET)}
    tables = {kind: catalog.create_table(f"bench.{kind}", proof.SCHEMA, properties=properties) for kind in KINDS}
    some = [proof.make_table(ROWS, seed) for seed in range(4)]
    for number in range(files):
        ids = pa.array(np.arange(ROWS, dtype=np.int64) + number * ROWS)
        rows = some[number % len(some)].set_column(0, "id", ids)
        for table in tables.values():
            table.append(rows)
    delete_positions(tables["position"])
    delete_keys(tables["equality"], files * ROWS)


def delete_positions(table: Table) -> None:
    """Every fiftieth row or so, by delete files that name a dozen data files each."""
    from tests.factories import manifests

    random = np.random.default_rng(1)
    paths = [task.file.file_path for task in table.scan().plan_files()]
    for first in range(0, len(paths), 12):
        chosen = {path: np.flatnonzero(random.random(ROWS) < DELETED).tolist() for path in paths[first : first + 12]}
        table = manifests.add_position_delete(table, chosen, file_scoped=False)


def delete_keys(table: Table, rows: int) -> None:
    """Keys of which half are there."""
    from tests.factories import manifests

    keys = np.random.default_rng(2).choice(2 * rows, min(KEYS, rows), replace=False)
    manifests.add_equality_delete(table, pa.table({"id": pa.array(keys, pa.int64())}))


def measure_runs(root: Path, kind: str, rounds: int, work: Callable[[], Any]) -> dict[str, Any]:
    """Seconds of each run, the rows that it left, and the files of the last one. Every run finds the table and the disk
    as they were."""
    catalog, name = connect(root), f"bench.{kind}"
    before = catalog.load_table(name).current_snapshot()
    assert before is not None
    inputs = live_paths(catalog.load_table(name))
    taken, records, made = [], [], []
    for _ in range(rounds):
        for path in made:
            path.unlink()
        started = time.perf_counter()
        work()
        taken.append(time.perf_counter() - started)
        table = catalog.load_table(name)
        after = table.current_snapshot()
        assert after is not None
        assert after.snapshot_id != before.snapshot_id, "nothing was rewritten"
        records.append(int((after.summary or {})["added-records"]))
        made = sorted(live_paths(table) - inputs)
        table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    return {"seconds": taken, "records": records, "files": list(map(str, made))}


def live_paths(table: Table) -> set[Path]:
    """The table's files on this machine. Iceberg Java writes file:/path."""
    listed = table.inspect.files()["file_path"].to_pylist()
    return {Path(urllib.parse.urlparse(path).path) for path in listed}


def ours(root: Path, kind: str, rounds: int) -> dict[str, Any]:
    """This product, with its proof at the default level."""
    from iceberg_compaction import Compactor

    def compact() -> None:
        outcome = compactor.compact_table(f"bench.{kind}")
        assert outcome.kind.value == "compacted", outcome.sentence

    with Compactor(
        connect(root),
        target_file_size=TARGET,
        options={"rewrite-all": True},
        conf={"spark.master": f"local[{CORES}]"},
    ) as compactor:
        return measure_runs(root, kind, rounds, compact)


def java(root: Path, kind: str, rounds: int) -> dict[str, Any]:
    """Iceberg's own procedure."""
    from tests.factories import java as oracle

    spark = oracle.session(root, CORES)
    options = f"'rewrite-all', 'true', 'target-file-size-bytes', '{TARGET}'"
    call = f"CALL lake.system.rewrite_data_files(table => 'bench.{kind}', options => map({options}))"
    found = measure_runs(root, kind, rounds, lambda: spark.sql(call).collect())
    spark.stop()
    return found


def memory(root: Path, kind: str, rounds: int) -> dict[str, Any]:
    """Peak memory of a process that performs one task: the files of a table, `rounds` times over."""
    from iceberg_compaction.execute.worker import execute_task
    from iceberg_compaction.model.policies import Policy, ProofLevel, resolve_sizes
    from iceberg_compaction.model.rewrite_task import RewriteTask

    files = [task.file for task in connect(root).load_table(f"bench.{kind}").scan().plan_files()] * rounds
    task = RewriteTask(
        id=0,
        group_id=0,
        spec_id=0,
        partition="{}",
        file_paths=tuple(file.file_path for file in files),
        file_sizes=tuple(file.file_size_in_bytes for file in files),
        record_counts=tuple(file.record_count for file in files),
    )
    # Of the size that tables have by default: the larger the files, the more a task could hold.
    context = proof.make_context(root, ProofLevel.CHECKSUM).model_copy(update={"sizes": resolve_sizes(Policy(), {})})
    for staged in execute_task.rewrite(task, context, "0").staged:
        Path(staged.file_path.removeprefix("file://")).unlink()
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "input": task.bytes / 2**20}


STEPS = {step.__name__: step for step in (ours, java, memory)}


def measure(root: Path, step: str, kind: str, rounds: int) -> dict[str, Any]:
    """A step in a process of its own."""
    command = [sys.executable, "-m", "bench.rewrite", "--step", step, kind, str(rounds), "--root", str(root)]
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache")}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {kind}, {step}: {found}", flush=True)
    return found


def compare(root: Path, kind: str, rounds: int, size: float) -> dict[str, Any]:
    """Both on one table. They must leave the same number of rows."""
    mine, peer = measure(root, "ours", kind, rounds), measure(root, "java", kind, rounds)
    assert set(mine["records"]) == set(peer["records"]), f"{kind}: {mine['records']} rows and {peer['records']}"
    speeds = {who: size / min(found["seconds"]) for who, found in (("ours", mine), ("java", peer))}
    return {
        "name": f"{WORDS[kind]}: times Iceberg Java's MB/s",
        "value": round(speeds["ours"] / speeds["java"], 2),
        "reach": f">= {REACH:g}",
        "ok": speeds["ours"] >= REACH * speeds["java"],
        "ours MB/s": round(speeds["ours"], 1),
        "java MB/s": round(speeds["java"], 1),
    }


def compare_memory(root: Path) -> list[dict[str, Any]]:
    """A task and one ten times as large."""
    small, large = measure(root, "memory", "plain", 1), measure(root, "memory", "plain", LARGE)
    growth = large["megabytes"] / small["megabytes"]
    most = max(small["megabytes"], large["megabytes"])
    return [
        {
            "name": f"peak memory of a task, {large['input']:.0f} MB to {small['input']:.0f} MB of input",
            "value": round(growth, 3),
            "reach": f"<= {MEMORY_GROWTH:g}",
            "ok": 1 / MEMORY_GROWTH <= growth <= MEMORY_GROWTH,
        },
        {
            "name": "peak memory of a task, MB",
            "value": round(most),
            "reach": f"<= {MEMORY_REACH_MB:g}",
            "ok": most <= MEMORY_REACH_MB,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the files and fewer runs")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--only", choices=(*KINDS, "memory"), help="one comparison")
    arguments = parser.parse_args()
    if arguments.step:
        step, kind, rounds = arguments.step
        print(json.dumps(STEPS[step](arguments.root, kind, int(rounds))))
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-rewrite-") as name:
        bars = measure_all(Path(name), arguments)
    bar_lines.show(bars)
    print(json.dumps({"bench": "rewrite", "bars": bars}))
    return 0


def measure_all(root: Path, arguments: argparse.Namespace) -> list[dict[str, Any]]:
    files, rounds = (QUICK_FILES, QUICK_ROUNDS) if arguments.quick else (FILES, ROUNDS)
    make(root, files)
    listed = connect(root).load_table("bench.plain").inspect.files()["file_size_in_bytes"]
    size = sum(listed.to_pylist()) / 2**20
    print(f"{files} files, {size:.0f} MB, {files * ROWS:,} rows", flush=True)
    kinds = [kind for kind in KINDS if arguments.only in (None, kind)]
    bars = [compare(root, kind, rounds, size) for kind in kinds]
    return bars + (compare_memory(root) if arguments.only in (None, "memory") else [])


if __name__ == "__main__":
    sys.exit(main())
