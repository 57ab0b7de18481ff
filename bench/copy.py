"""Compacting files whose row groups are good as they are: beside Iceberg Java's `rewrite_data_files`, beside a plain
copy of the files, and what readers of the result pay.

Three tables: good files of 64 MB with row groups of about 21 MB, as a compaction with a smaller target leaves them; the
same with position deletes in every twentieth row group; half of the bytes in good files and half in files of 2 MB as
PyIceberg writes them. After each run the table is rolled back.
`python -m bench.copy [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from bench import bar_lines, proof, rewrite

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction import Compactor

MB = 2**20
TARGET = 256 * MB
FILES, QUICK_FILES = 24, 4
GOOD, GOOD_GROUP, LEAST_GOOD = 64 * MB, 21 * MB, 16 * MB  # bytes of a good file, and of its row groups
SPARE = 3  # files that may turn out not to be good
ROWS = 1_390_000  # of a good file, about
TINY_ROWS = 36_000  # about 2 MB
SPLIT = "write.target-file-size-bytes"
TOUCHED = 20  # one row group in so many has deleted rows
ROUNDS, FEWER_ROUNDS, SCANS = 10, 3, 5  # what takes a second is measured more often
LEAST_GROUP = 8 * MB
KINDS = {"good": 20.0, "deletes": 8.0, "mix": 4.0}  # times Iceberg Java's speed
WORDS = {
    "good": "good files, no deletes",
    "deletes": f"position deletes in one row group of {TOUCHED}",
    "mix": "half tiny files, half good ones",
}
PLAIN_REACH, SCAN_REACH = 0.6, 1.05
QUERY = "select count(*), sum(price), min(ts), count(distinct country), sum(length(url)) from {}"


def make(root: Path, files: int) -> None:
    """The tables. Good files are written once; the other tables refer to them, too."""
    catalog = rewrite.connect(root)
    catalog.create_namespace("bench")
    raw, good, tiny, deletes, mix = (create(catalog, name) for name in ("raw", "good", "tiny", "deletes", "mix"))
    some = [proof.make_table(ROWS, seed) for seed in range(2)]
    for number in range(files + SPARE):
        raw.append(some[number % len(some)])
    tiny = tiny.transaction().set_properties({SPLIT: str(some[0].nbytes * TINY_ROWS // ROWS)}).commit_transaction()
    for number in range(files // 2):
        tiny.append(some[number % len(some)])
    compact_raw(root)
    refer(good, catalog.load_table("bench.raw"), files, is_good)
    good = catalog.load_table("bench.good")
    refer(deletes, good)
    refer(mix, good, files // 2)
    refer(catalog.load_table("bench.mix"), tiny)
    delete_positions(catalog.load_table("bench.deletes"))


def create(catalog: Catalog, name: str) -> Table:
    properties = {"format-version": "2", SPLIT: str(TARGET)}
    return catalog.create_table(f"bench.{name}", proof.SCHEMA, properties=properties)


def compact_raw(root: Path) -> None:
    """Compact a table into good files. What its appends wrote has dictionaries that are of no use: encoded, they are a
    seventh smaller, and whoever copies keeps what is there."""
    table = rewrite.connect(root).load_table("bench.raw")
    table.transaction().set_properties({"write.parquet.row-group-size-bytes": str(GOOD_GROUP)}).commit_transaction()
    with open_compactor(root, GOOD, "never") as compactor:
        print(f"  {compactor.compact_table('bench.raw').sentence}", flush=True)


def open_compactor(root: Path, target: int, mode: str) -> Compactor:
    from iceberg_compaction import Compactor

    return Compactor(
        rewrite.connect(root),
        target_file_size=target,
        options={"rewrite-all": True, "copy-row-groups": mode},
        conf={"spark.master": f"local[{rewrite.CORES}]"},
    )


def is_good(path: str) -> bool:
    """Whether all row groups of a file are large. Where a task begins and sizes are guessed, some are not."""
    return min(group_sizes([path])) >= LEAST_GOOD


def refer(
    table: Table, other: Table, count: int | None = None, keep: Callable[[str], bool] = lambda path: True
) -> None:
    """Make files of another table those of this one, too."""
    from tests.factories import manifests

    files = [task.file for task in other.scan().plan_files() if keep(task.file.file_path)]
    assert len(files) >= (count or 0), f"only {len(files)} files of {other.name()} can be used"
    manifests.add_files(table, sorted(files, key=lambda file: file.file_path)[:count])


def delete_positions(table: Table) -> None:
    """A hundred rows in every twentieth row group."""
    from tests.factories import manifests

    paths = sorted(task.file.file_path for task in table.scan().plan_files())
    groups = [(path, first) for path in paths for first in first_rows(path)]
    chosen = {path: range(first, first + 10_000, 100) for path, first in groups[::TOUCHED]}
    manifests.add_position_delete(table, {path: list(rows) for path, rows in chosen.items()}, file_scoped=False)


def first_rows(path: str) -> list[int]:
    """The numbers of the rows that a file's row groups begin with."""
    metadata = pq.read_metadata(path.removeprefix("file://"))
    counts = [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]
    return [0, *itertools.accumulate(counts[:-1])]


def ours(root: Path, kind: str, mode: str) -> dict[str, Any]:
    """This product with its proof at the default level; also which files came out and how large row groups are."""

    def compact() -> None:
        outcome = compactor.compact_table(f"bench.{kind}")
        assert outcome.kind.value == "compacted", outcome.sentence

    with open_compactor(root, TARGET, mode) as compactor:
        rounds = 1 if mode == "never" else ROUNDS if kind == "good" else FEWER_ROUNDS
        found = rewrite.measure_runs(root, kind, rounds, compact)
    return {**found, "groups": group_sizes(found["files"])}


def group_sizes(paths: Sequence[str]) -> list[int]:
    found = []
    for path in paths:
        metadata = pq.read_metadata(path.removeprefix("file://"))
        for group in range(metadata.num_row_groups):
            columns = [metadata.row_group(group).column(place) for place in range(metadata.num_columns)]
            found.append(sum(column.total_compressed_size for column in columns))
    return found


def java(root: Path, kind: str, _: str) -> dict[str, Any]:
    """Iceberg's own procedure, after it has warmed up on something small."""
    from tests.factories import java as oracle

    spark = oracle.session(root, rewrite.CORES)
    options = f"'rewrite-all', 'true', 'target-file-size-bytes', '{TARGET}'"
    call = f"CALL lake.system.rewrite_data_files(table => 'bench.%s', options => map({options}))"
    spark.sql(call % "warm").collect()
    found = rewrite.measure_runs(root, kind, 1, lambda: spark.sql(call % kind).collect())
    spark.stop()
    return found


def plain(root: Path, kind: str, _: str) -> dict[str, Any]:
    """The same files, copied one after the other by nothing but a copy."""
    listed = [task.file.file_path for task in rewrite.connect(root).load_table(f"bench.{kind}").scan().plan_files()]
    paths = [Path(path.removeprefix("file://")) for path in listed]
    target = root / "plain"
    taken = []
    for _ in range(ROUNDS):
        target.mkdir()
        started = time.perf_counter()
        for path in paths:
            shutil.copyfile(path, target / path.name)
        taken.append(time.perf_counter() - started)
        shutil.rmtree(target)
    return {"seconds": taken, "bytes": sum(path.stat().st_size for path in paths)}


def scan(root: Path, engine: str, listed: str) -> dict[str, Any]:
    """Best times of a query over two sets of files, in turns."""
    sets: dict[str, list[str]] = json.loads(listed)
    run = spark_query() if engine == "spark" else duckdb_query()
    taken: dict[str, list[float]] = {name: [] for name in sets}
    answers = {}
    for _ in range(SCANS + 1):
        for name, paths in sets.items():
            started = time.perf_counter()
            answers[name] = run(paths)
            taken[name].append(time.perf_counter() - started)
    first, second = (tuple(map(str, answer[:1] + answer[2:])) for answer in answers.values())
    assert first == second, f"{engine} reads {answers}"
    return {name: min(times[1:]) for name, times in taken.items()}


def duckdb_query() -> Callable[[Sequence[str]], Any]:
    import duckdb

    database = duckdb.connect()
    database.execute(f"set threads to {rewrite.CORES}")
    return lambda paths: database.execute(QUERY.format(f"read_parquet({list(paths)!r})")).fetchone()


def spark_query() -> Callable[[Sequence[str]], Any]:
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(f"local[{rewrite.CORES}]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()

    def run(paths: Sequence[str]) -> Any:
        spark.read.parquet(*paths).createOrReplaceTempView("files")
        return tuple(spark.sql(QUERY.format("files")).collect()[0])

    return run


STEPS = {step.__name__: step for step in (ours, java, plain, scan)}


def measure(root: Path, step: str, kind: str, argument: str = "") -> dict[str, Any]:
    """A step in a process of its own."""
    command = [sys.executable, "-m", "bench.copy", "--step", step, kind, argument, "--root", str(root)]
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache")}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    shown = {name: value for name, value in found.items() if name not in ("files", "groups")}
    print(f"  {kind}, {step} {argument if step == 'ours' else ''}: {shown}", flush=True)
    return found


def bar(name: str, value: float, reach: float, *, most: bool = False) -> dict[str, Any]:
    is_reached = value <= reach if most else value >= reach
    return {"name": name, "value": round(value, 3), "reach": f"{'<=' if most else '>='} {reach:g}", "ok": is_reached}


def measure_all(root: Path, files: int) -> list[dict[str, Any]]:
    make(root, files)
    warm = rewrite.connect(root).create_table("bench.warm", proof.SCHEMA, properties={"format-version": "2"})
    for seed in range(4):
        warm.append(proof.make_table(100_000, seed))
    bars, results = [], {}
    for kind, reach in KINDS.items():
        table = rewrite.connect(root).load_table(f"bench.{kind}")
        size = sum(task.file.file_size_in_bytes for task in table.scan().plan_files()) / MB
        results[kind] = measure(root, "ours", kind, "auto")
        peer = measure(root, "java", kind)
        assert set(results[kind]["records"]) == set(peer["records"]), f"{kind}: other rows than Iceberg Java"
        speeds = [size / min(found["seconds"]) for found in (results[kind], peer)]
        print(f"  {kind}: {size:.0f} MB, {speeds[0]:.0f} MB/s, Iceberg Java {speeds[1]:.1f} MB/s", flush=True)
        bars.append(bar(f"{WORDS[kind]}: times Iceberg Java's MB/s", speeds[0] / speeds[1], reach))
        if kind == "good":
            copied = measure(root, "plain", kind)
            share = speeds[0] / (copied["bytes"] / MB / min(copied["seconds"]))
            bars.append(bar("good files: speed of a plain copy", share, PLAIN_REACH))
    bars.append(bar("mix: smallest row group, MB", min(results["mix"]["groups"]) / MB, LEAST_GROUP / MB))
    encoded = measure(root, "ours", "good", "never")
    listed = json.dumps({"copied": results["good"]["files"], "encoded": encoded["files"]})
    for engine in ("spark", "duckdb"):
        found = measure(root, "scan", engine, listed)
        bars.append(
            bar(
                f"scan with {engine}: time over that of encoded files",
                found["copied"] / found["encoded"],
                SCAN_REACH,
                most=True,
            )
        )
    return bars


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a sixth of the files")
    parser.add_argument("--step", nargs=3, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        step, kind, argument = arguments.step
        print(json.dumps(STEPS[step](arguments.root, kind, argument)))
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-copy-") as name:
        bars = measure_all(Path(name), QUICK_FILES if arguments.quick else FILES)
    bar_lines.show(bars)
    print(json.dumps({"bench": "copy", "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
