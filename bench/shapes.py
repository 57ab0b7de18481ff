"""Compaction of tables of many shapes beside Iceberg Java's `rewrite_data_files`: the same table, the same two cores,
both on Spark and both warm, in turns; and the result beside one that was encoded throughout: its size and its scans.

After each run an independent reader compares all rows with those before, and the table is rolled back. Times are the
best of the rounds. `python -m bench.shapes [--quick] [--shape NAME]` prints a table, and as its last line one JSON
object with the bars; `--quick` takes a tenth of the rows, once. Scans are compared by their CPU seconds, which other
work on the machine disturbs least; their wall clock is in the JSON object, too.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench import bar_lines, rewrite, scans, shape_tables, sides

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.shape_tables import Shape

CORES, MB = 2, 10**6
ROUNDS, SCANS, QUICK_SCANS = 3, 4, 2
QUICK_SHARE, WARM_SHARE = 0.1, 0.02
COLD = ("lineitem", "events")  # also measured from the command on
WORST, MEDIAN, LINEITEM = 4.0, 8.0, 8.0  # times as fast as Iceberg Java
SCAN_MEDIAN, SCAN_WORST, SIZE_MEDIAN, SIZE_WORST, MEMORY_MB = 1.03, 1.10, 1.03, 1.08, 700.0
Row = dict[str, Any]


class Bench:
    """A lake in a folder, with both sides at work on it."""

    def __init__(self, root: Path, share: float, rounds: int) -> None:
        self.root, self.share, self.rounds = root, share, rounds
        self.catalog = rewrite.connect(root)
        self.catalog.create_namespace_if_not_exists(shape_tables.NAMESPACE)
        self.environ = {"ICEBERG_COMPACTION_CACHE": str(root / "cache")}
        self.java = sides.Side(sides.open_java, root, CORES, environ=self.environ)
        self.ours = sides.Side(sides.open_ours, root, CORES, environ=self.environ)

    def close(self) -> None:
        self.java.close()
        self.ours.close()

    def make(self, shape: Shape, share: float) -> None:
        if not self.catalog.table_exists(shape.table):
            self.java.do("make", shape, share)

    def warm_up(self) -> None:
        """Something small on both sides, with all that makes a rewrite slow the first time."""
        for name in ("lineitem", "lineitem_deletes", "events"):
            small = shape_tables.warm(shape_tables.find(name))
            self.make(small, WARM_SHARE)
            self.rewrite(small, "java")
            self.rewrite(small, "ours")

    def rewrite(self, shape: Shape, side: str, mode: str = "auto", *, keep: bool = False) -> Row:
        """One run, checked by an independent reader, and rolled back. `keep` leaves its files."""
        before = self._head(shape)
        inputs = self._files(shape)
        done = (
            self.ours.do("compact", shape.table, shape.target, mode)
            if side == "ours"
            else self.java.do("compact", shape.table, shape.target)
        )
        after = self._head(shape)
        assert after != before, f"{shape.name}: nothing was rewritten"
        made = [path for path in self._files(shape) if path not in inputs]
        rows = self.java.do("checksum", shape.table).value
        sizes = sum(path.stat().st_size for path in made)
        self.catalog.load_table(shape.table).manage_snapshots().rollback_to_snapshot(before).commit()
        if not keep:
            for path in made:
                path.unlink()
        row = {"seconds": done.seconds, "cpu": done.cpu_seconds, "memory": done.worker_mb, "rows": rows, "bytes": sizes}
        return row | {"files": [str(path) for path in made], "snapshot": after, "more": done.value or {}}

    def _head(self, shape: Shape) -> int:
        snapshot = self.catalog.load_table(shape.table).current_snapshot()
        assert snapshot is not None
        return snapshot.snapshot_id

    def _files(self, shape: Shape) -> list[Path]:
        """The table's data files on this machine. Iceberg Java writes file:/path."""
        tasks = self.catalog.load_table(shape.table).scan().plan_files()
        return [Path(urllib.parse.urlparse(task.file.file_path).path) for task in tasks]

    def measure(self, shape: Shape) -> Row:
        """All figures of one shape."""
        if shape.basis:
            self.make(shape_tables.find(shape.basis), self.share)
        self.make(shape, self.share)
        files = self._files(shape)
        rows = self.java.do("checksum", shape.table).value
        row: Row = {"shape": shape.name, "files": len(files), "rows": rows[0], "target": shape.target}
        row["MB"] = round(sum(path.stat().st_size for path in files) / MB, 1)
        mine: list[Row] = []
        peer: list[Row] = []
        for turn in range(self.rounds):
            mine.append(self.rewrite(shape, "ours", keep=turn == self.rounds - 1))
            peer.append(self.rewrite(shape, "java"))
        encoded = self.rewrite(shape, "ours", "never", keep=True)
        different = [run for run in (*mine, *peer, encoded) if run["rows"] != rows]
        assert not different, f"{shape.name}: rows before {rows}, after {[run['rows'] for run in different]}"
        row |= _times(mine, peer)
        row |= {"memory_mb": round(max(run["memory"] for run in (*mine, encoded)))}
        row |= {"size": round(mine[-1]["bytes"] / encoded["bytes"], 4), "effort": mine[-1]["more"]["effort"]}
        row |= {"encoded_s": round(encoded["seconds"], 2), "encoded_cpu_s": round(encoded["cpu"], 2)}
        row |= self._scan(shape, mine[-1], encoded)
        for path in (*mine[-1]["files"], *encoded["files"]):
            Path(path).unlink()
        return row

    def _scan(self, shape: Shape, mine: Row, encoded: Row) -> Row:
        """The time of a scan of our result over that of the encoded one."""
        schema = self.java.do("schema", shape.table).value
        sets = {"ours": mine, "encoded": encoded}
        rounds = SCANS if self.share == 1 else QUICK_SCANS
        versions = {name: f"lake.{shape.table} version as of {run['snapshot']}" for name, run in sets.items()}
        queries = {name: scans.every_column(schema, source, "spark") for name, source in versions.items()}
        spark = scans.compare(lambda query: self.java.do("query", query), queries, rounds)
        parquet = {name: scans.parquet_source(run["files"]) for name, run in sets.items()}
        queries = {name: scans.every_column(schema, source, "duckdb") for name, source in parquet.items()}
        duckdb = scans.compare(scans.duckdb_runner(CORES), queries, rounds)
        return {
            "scan_spark": spark[0],
            "scan_duckdb": duckdb[0],
            "scan_spark_wall": spark[1],
            "scan_duckdb_wall": duckdb[1],
        }

    def measure_cold(self, shape: Shape) -> Row:
        """From the command to its end, each in a new process."""
        script = Path(sysconfig.get_path("scripts")) / "iceberg-compact"
        table = ["--catalog-uri", f"sqlite:///{self.root}/catalog.db", "--catalog-name", "lake", "--table", shape.table]
        target = ["--target-file-size", str(shape.target)] if shape.target else []
        ours = [str(script), "run", *table, "--rewrite-all", "--quiet", *target]
        java = [sys.executable, "-m", "bench.shapes", "--cold-java", shape.name, "--root", str(self.root)]
        row: Row = {"shape": shape.name}
        for name, command in (("ours", ours), ("java", java)):
            before = self._head(shape)
            taken, cpu = _run_cold(command, {**os.environ, **self.environ})
            assert self._head(shape) != before, f"{shape.name}: nothing was rewritten"
            self.catalog.load_table(shape.table).manage_snapshots().rollback_to_snapshot(before).commit()
            row |= {f"{name}_s": round(taken, 2), f"{name}_cpu_s": round(cpu, 2)}
        return row | {"times": round(row["java_s"] / row["ours_s"], 2)}


def _run_cold(command: Sequence[str], environ: dict[str, str]) -> tuple[float, float]:
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
    taken, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    return taken, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _times(mine: Sequence[Row], peer: Sequence[Row]) -> Row:
    """Best of the rounds, each side for itself."""
    figures: Row = {}
    for name, runs in (("ours", mine), ("java", peer)):
        figures[f"{name}_s"] = round(min(run["seconds"] for run in runs), 2)
        figures[f"{name}_cpu_s"] = round(min(run["cpu"] for run in runs), 2)
        figures[f"{name}_rounds_s"] = [round(run["seconds"], 2) for run in runs]
    figures["times"] = round(figures["java_s"] / figures["ours_s"], 2)
    figures["cpu_times"] = round(figures["java_cpu_s"] / figures["ours_cpu_s"], 2)
    return figures


def bars(rows: Sequence[Row]) -> list[dict[str, Any]]:
    times = {row["shape"]: row["times"] for row in rows}
    judged = [
        ("worst shape: times Iceberg Java", min(times.values()), ">=", WORST),
        ("median shape: times Iceberg Java", statistics.median(times.values()), ">=", MEDIAN),
        *([("lineitem: times Iceberg Java", times["lineitem"], ">=", LINEITEM)] if "lineitem" in times else []),
    ]
    for engine in ("spark", "duckdb"):
        ratios = [row[f"scan_{engine}"] for row in rows]
        judged.append((f"scan with {engine}, median: time over encoded", statistics.median(ratios), "<=", SCAN_MEDIAN))
        judged.append((f"scan with {engine}, worst: time over encoded", max(ratios), "<=", SCAN_WORST))
    sizes = [row["size"] for row in rows]
    judged.append(("size, median: bytes over encoded", statistics.median(sizes), "<=", SIZE_MEDIAN))
    judged.append(("size, worst: bytes over encoded", max(sizes), "<=", SIZE_WORST))
    judged.append(("memory of a worker, worst, MB", max(row["memory_mb"] for row in rows), "<=", MEMORY_MB))
    return [
        {
            "name": name,
            "value": round(value, 3),
            "reach": f"{sign} {reach:g}",
            "ok": value >= reach if sign == ">=" else value <= reach,
        }
        for name, value, sign, reach in judged
    ]


SHOWN = (
    ("shape", 20),
    ("files", 6),
    ("MB", 7),
    ("rows", 9),
    ("ours_s", 8),
    ("java_s", 8),
    ("times", 7),
    ("ours_cpu_s", 11),
    ("java_cpu_s", 11),
    ("cpu_times", 10),
    ("scan_spark", 11),
    ("scan_duckdb", 12),
    ("size", 7),
    ("memory_mb", 10),
)


def cold_java(root: Path, name: str) -> None:
    shape = shape_tables.find(name)
    sides.open_java(root, CORES)["compact"](shape.table, shape.target)


def measure_all(root: Path, names: Sequence[str], rounds: int, *, quick: bool) -> dict[str, Any]:
    shapes = [shape for shape in shape_tables.SHAPES if not names or shape.name in names]
    bench = Bench(root, QUICK_SHARE if quick else 1.0, rounds)
    try:
        bench.warm_up()
        print("".join(f"{name:>{width}}" for name, width in SHOWN), flush=True)
        rows = []
        for shape in shapes:
            rows.append(bench.measure(shape))
            print("".join(f"{rows[-1][name]:>{width}}" for name, width in SHOWN), flush=True)
        cold = [bench.measure_cold(shape) for shape in shapes if shape.name in COLD[: 1 if quick else None]]
    finally:
        bench.close()
    for row in cold:
        print(f"cold, {row['shape']}: {row['ours_s']} s, Iceberg Java {row['java_s']} s", flush=True)
    return {"bench": "shapes", "bars": bars(rows), "shapes": rows, "cold": cold}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the rows, one round")
    choices = [shape.name for shape in shape_tables.SHAPES]
    parser.add_argument("--shape", action="append", choices=choices, help="this shape only; may be repeated")
    parser.add_argument("--rounds", type=int, help=f"of each shape (default: {ROUNDS}, quick: 1)")
    parser.add_argument("--root", type=Path, help="keep the tables in this folder and use those that are there")
    parser.add_argument("--cold-java", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.cold_java:
        cold_java(arguments.root, arguments.cold_java)
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-shapes-") as name:
        root = (arguments.root or Path(name)).absolute()
        root.mkdir(exist_ok=True)
        rounds = arguments.rounds or (1 if arguments.quick else ROUNDS)
        figures = measure_all(root, arguments.shape or (), rounds, quick=arguments.quick)
    bar_lines.show(figures["bars"])
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
