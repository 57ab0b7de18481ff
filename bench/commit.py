"""Committing a rewrite: 10 k of 100 k files, a tenth of every manifest, replaced by 100; beside PyIceberg's own
overwrite and Iceberg Java's RewriteFiles on the same table, which is rolled back after each. What a lost race costs,
and the memory of a commit on a table of a million files.

`python -m bench.commit [--quick]` prints a table, and as its last line one JSON object with the bars.
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

import pyarrow as pa
import pyarrow.compute as pc

from bench import bar_lines, tables
from iceberg_compaction.interfaces import wiring

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceGroup, ReplaceRequest

FILES, QUICK_FILES, MANY_FILES = 100_000, 10_000, 1_000_000
TENANTS = [f"tenant{number:03d}" for number in range(5)]  # a tenth of the table, in every manifest
ADDED = 100
ROUNDS = 3
Figures = dict[str, float]


def request_of(table: Table) -> ReplaceRequest:
    """The files of five tenants become a hundred, in a hundred groups."""
    from tests.factories import rewrites

    from iceberg_compaction.metadata import look
    from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceRequest

    files = look.look(table, name=tables.NAME).view.files
    texts = files["partition"].cast(pa.string())
    places = pa.array([text for text in pc.unique(texts).to_pylist() if _is_ours(text)])
    removed = files.filter(pc.is_in(texts, value_set=places))
    numbers = pc.index_in(removed["partition"].cast(pa.string()), value_set=places).to_numpy() % ADDED
    groups = (
        _group(number, table, removed.filter(pa.array(numbers == number)), places[number::ADDED].to_pylist())
        for number in range(min(ADDED, len(places)))
    )
    return ReplaceRequest(pin=rewrites.pin_of(table), groups=tuple(groups))


def _group(number: int, table: Table, removed: pa.Table, places: list[str]) -> ReplaceGroup:
    from iceberg_compaction.model.rewrite_plan import PLAN_FILES
    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceGroup

    records = pc.sum(removed["record_count"]).as_py()
    added = StagedFile(
        file_path=f"{table.location()}/data/new-{number}.parquet",
        file_size_in_bytes=512 << 20,
        record_count=records,
        spec_id=0,
        partition=places[0],
        **_metrics(records),
    )
    return ReplaceGroup(
        id=number,
        removed=removed.select(PLAN_FILES.names).cast(PLAN_FILES),
        partitions=tuple((0, place) for place in places),
        added=(added,),
    )


def _is_ours(text: str) -> bool:
    return str(json.loads(text)["tenant"]) in TENANTS


def _metrics(records: int) -> dict[str, Any]:
    ids = range(1, tables.COLUMNS + 1)
    return {
        "column_sizes": dict.fromkeys(ids, 1 << 20),
        "value_counts": dict.fromkeys(ids, records),
        "null_value_counts": dict.fromkeys(ids, 0),
        "lower_bounds": dict.fromkeys(ids, b"00000000"),
        "upper_bounds": dict.fromkeys(ids, b"zzzzzzzz"),
        "split_offsets": (4,),
    }


def best(root: Path, work: Callable[[Table], Callable[[], Any]], rounds: int = ROUNDS) -> float:
    """The best time of what `work` prepares; the table is rolled back after each."""
    taken = []
    for _ in range(rounds):
        table = tables.connect(root).load_table(tables.NAME)
        before = table.current_snapshot()
        assert before is not None
        act = work(table)
        started = time.perf_counter()
        act()
        taken.append(time.perf_counter() - started)
        table = tables.connect(root).load_table(tables.NAME)
        assert table.metadata.current_snapshot_id != before.snapshot_id, "nothing was committed"
        table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    return min(taken)


def ours(root: Path) -> Figures:
    """Validation, staging and publication."""
    from iceberg_compaction.operations.rewrite_files.change import replace_files

    def prepare(table: Table) -> Callable[[], Any]:
        request = request_of(table)
        return lambda: replace_files.replace(table, request, wiring.new_run())

    return {"seconds": best(root, prepare), "retry": best(root, lost_race)}


def lost_race(table: Table) -> Callable[[], Any]:
    """An attempt that is staged when another commit lands first; what is timed is the second one."""
    from iceberg_compaction.commit import spine
    from iceberg_compaction.operations.rewrite_files.change import replace_files

    run = wiring.new_run()
    change = replace_files.Replacement(table, request_of(table), run)
    commit = spine._Attempts(table=table, change=change, run=run)

    def attempt() -> Any:
        commit._reload()
        return change.stage(commit.table, run.clock())

    attempt()
    tables.append_files(table, 10_000_000, 100)
    return lambda: commit._publish(attempt())


def memory(root: Path) -> Figures:
    """Peak memory of a process that commits."""
    from iceberg_compaction.operations.rewrite_files.change import replace_files

    table = tables.connect(root).load_table(tables.NAME)
    replace_files.replace(table, request_of(table), wiring.new_run())
    return {"megabytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def pyiceberg(root: Path) -> Figures:
    """PyIceberg's snapshot producer, given the files: once, as it takes a minute."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from tests.factories import rewrites

    def prepare(table: Table) -> Callable[[], Any]:
        old = [file for file in rewrites.live_data_files(table) if file.partition[1] in TENANTS]
        made = []
        for number in range(ADDED):
            changes = {**_metrics(1), "split_offsets": [4]}
            file = DataFile.from_args(
                content=DataFileContent.DATA,
                file_path=f"{table.location()}/data/new-{number}.parquet",
                file_format=FileFormat.PARQUET,
                partition=old[number].partition,
                record_count=1,
                file_size_in_bytes=512 << 20,
                nan_value_counts={},
                **changes,
            )
            file.spec_id = 0
            made.append(file)

        def act() -> None:
            with table.transaction() as transaction, transaction.update_snapshot().overwrite() as update:
                for file in old:
                    update.delete_data_file(file)
                for file in made:
                    update.append_data_file(file)

        return act

    return {"seconds": best(root, prepare, rounds=1)}


def java(root: Path) -> Figures:
    """Iceberg Java's RewriteFiles, given the files."""
    from tests.factories import java as oracle

    spark = oracle.session(root)
    jvm: Any = spark.sparkContext._jvm
    load = jvm.org.apache.iceberg.spark.Spark3Util.loadIcebergTable

    def find() -> Any:
        """The files to replace: by their partition, since bounds in the table are made up."""
        found = jvm.java.util.HashSet()
        tasks = load(spark._jsparkSession, f"lake.{tables.NAME}").newScan().includeColumnStats().planFiles().iterator()
        while tasks.hasNext():
            file = tasks.next().file()
            if file.partition().get(1, strings) in TENANTS:
                found.add(file)
        return found

    strings = jvm.java.lang.Class.forName("java.lang.CharSequence")
    old = find()

    def prepare(_: Table) -> Callable[[], Any]:
        table = load(spark._jsparkSession, f"lake.{tables.NAME}")
        some, new = old.iterator(), jvm.java.util.HashSet()
        for number in range(ADDED):
            made = jvm.org.apache.iceberg.DataFiles.builder(table.spec()).copy(some.next())
            new.add(made.withPath(f"{table.location()}/data/new-{number}.parquet").build())
        head = table.currentSnapshot()
        commit = table.newRewrite().validateFromSnapshot(head.snapshotId())
        return lambda: commit.rewriteFiles(old, new, head.sequenceNumber()).commit()

    found = best(root, prepare)
    spark.stop()
    return {"seconds": found}


STEPS: dict[str, Callable[[Path], Figures]] = {step.__name__: step for step in (ours, memory, pyiceberg, java)}


def measure(step: str, root: Path) -> Figures:
    """A step in a process of its own; its cache is in the table's folder."""
    command = [sys.executable, "-m", "bench.commit", "--step", step, "--root", str(root)]
    environ = {**os.environ, "ICEBERG_COMPACTION_CACHE": str(root / "cache")}
    done = subprocess.run(command, env=environ, stdout=subprocess.PIPE, text=True, check=True)
    found: Figures = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"  {step}: " + ", ".join(f"{name} {value:.3f}" for name, value in found.items()), flush=True)
    return found


def measure_all(folder: Path, *, quick: bool) -> list[dict[str, Any]]:
    files, many = (QUICK_FILES, FILES) if quick else (FILES, MANY_FILES)
    tables.make(folder / "some", files)
    found = {step: measure(step, folder / "some") for step in ("ours", "java", "pyiceberg")}
    tables.make(folder / "many", many)
    most = measure("memory", folder / "many")["megabytes"]
    mine = found["ours"]["seconds"]
    return [
        _bar(
            f"{files // 10:,} of {files:,} files: times PyIceberg's overwrite",
            found["pyiceberg"]["seconds"] / mine,
            ">=",
            10,
        ),
        _bar(
            f"{files // 10:,} of {files:,} files: times Iceberg Java's RewriteFiles",
            found["java"]["seconds"] / mine,
            ">=",
            1,
        ),
        _bar("a retry after a competing append, s", found["ours"]["retry"], "<=", 0.3),
        _bar(f"memory of a commit at {many:,} files, MB", most, "<=", 1000),
    ]


def _bar(name: str, value: float, sign: str, reach: float) -> dict[str, Any]:
    ok = value <= reach if sign == "<=" else value >= reach
    return {"name": name, "value": round(value, 3), "reach": f"{sign} {reach:g}", "ok": ok}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the files")
    parser.add_argument("--step", choices=STEPS, help=argparse.SUPPRESS)
    parser.add_argument("--root", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.step:
        print(json.dumps(STEPS[arguments.step](arguments.root)))
        return 0
    with tempfile.TemporaryDirectory(prefix="bench-commit-") as name:
        bars = measure_all(Path(name), quick=arguments.quick)
    bar_lines.show(bars)
    print(json.dumps({"bench": "commit", "bars": bars}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
