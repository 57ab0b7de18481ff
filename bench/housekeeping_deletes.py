"""Delete files that leave: 100 k that apply to nothing, dropped in one commit; and a million keys of equality deletes
against ten million rows, converted to position deletes beside a rewrite of the same data files by Iceberg Java.

`python -m bench.housekeeping_deletes [--quick]` prints a line for each bar, and as its last line one JSON object."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from bench import bar_lines

if TYPE_CHECKING:
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

DANGLING, QUICK_DANGLING = 100_000, 10_000
DANGLING_REACH = 5.0  # seconds
FILES, ROWS, KEYS = 10, 1_000_000, 100_000  # of each of as many data files and delete files
QUICK_SHARE = 10
CONVERT_REACH = 4.0  # times as fast as Java
SEED = 21


def bars(quick: bool) -> list[dict[str, Any]]:
    """Both bars; the quick ones have a tenth of the files and rows."""
    with tempfile.TemporaryDirectory(prefix="bench-deletes-") as folder:
        return [_dangling(Path(folder), quick), *_convert(Path(folder), quick)]


def _catalog(root: Path) -> Catalog:
    from pyiceberg.catalog.sql import SqlCatalog

    made = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
    made.create_namespace_if_not_exists("bench")
    return made


def _dangling(root: Path, quick: bool) -> dict[str, Any]:
    """Equality and position deletes of ten partitions, in ten commits, beside data that none of them reaches."""
    from pyiceberg.manifest import DataFileContent
    from pyiceberg.table.snapshots import Operation
    from pyiceberg.typedef import Record
    from tests.factories import manifests
    from tests.factories.cities import BY_CITY, SCHEMA

    from iceberg_compaction import Compactor

    count = QUICK_DANGLING if quick else DANGLING
    catalog = _catalog(root)
    table = catalog.create_table("bench.dangling", SCHEMA, partition_spec=BY_CITY)
    for commit in range(10):
        gone = {manifests.FILE_PATH_ID: f"{table.location()}/data/gone-{commit}.parquet".encode()}
        kinds: list[dict[str, Any]] = [
            {"content": DataFileContent.EQUALITY_DELETES, "equality_ids": [1]},
            {"content": DataFileContent.POSITION_DELETES, "lower_bounds": gone, "upper_bounds": gone},
        ]
        files = [
            manifests.fake_data_file(
                table, f"{commit}-{number}.parquet", partition=Record(f"city{number % 10}"), **kinds[number % 2]
            )
            for number in range(count // 10)
        ]
        table = manifests.add_files(table, files, operation=Operation.DELETE)
    data = [
        manifests.fake_data_file(table, f"data-{number}.parquet", partition=Record(f"city{number % 10}"))
        for number in range(1000)
    ]
    table = manifests.add_files(table, data)
    started = time.perf_counter()
    outcome = Compactor(catalog, engine="inline").clean_deletes("bench.dangling", dangling=True)
    seconds = round(time.perf_counter() - started, 2)
    assert outcome.delete_files_removed == count, outcome.sentence
    name = f"dangling removal at {count:,} delete files, seconds"
    return {"name": name, "value": seconds, "reach": f"<= {DANGLING_REACH:g}", "ok": seconds <= DANGLING_REACH}


def _convert(root: Path, quick: bool) -> list[dict[str, Any]]:
    from bench import sides
    from iceberg_compaction import Compactor

    catalog = _catalog(root)
    table = _deleted_rows(catalog, ROWS // QUICK_SHARE if quick else ROWS, KEYS // QUICK_SHARE if quick else KEYS)
    theirs = catalog.register_table("bench.java", table.metadata_location)
    java = sides.Side(sides.open_java, root, 2)
    try:
        warm = _deleted_rows(catalog, 1000, 100, name="bench.warm")
        java.do("compact", ".".join(warm.name()), None)
        counted = java.do("query", "select count(*), sum(id), sum(amount) from lake.bench.ours").value
        started = time.perf_counter()
        outcome = Compactor(catalog, engine="inline").clean_deletes("bench.ours", convert=True)
        ours = time.perf_counter() - started
        assert outcome.kind.value == "maintained", outcome.sentence
        after = java.do("query", "select count(*), sum(id), sum(amount) from lake.bench.ours").value
        assert counted == after, f"rows changed: {counted} before, {after} after"
        rewritten = java.do("compact", ".".join(theirs.name()), None).seconds
    finally:
        java.close()
    print(f"  conversion {ours:.2f} s, Iceberg Java's rewrite {rewritten:.2f} s; {outcome.sentence}")
    times = round(rewritten / ours, 2)
    name = f"convert {FILES * KEYS // (QUICK_SHARE if quick else 1):,} equality keys, times a rewrite by Java"
    return [{"name": name, "value": times, "reach": f">= {CONVERT_REACH:g}", "ok": times >= CONVERT_REACH}]


def _deleted_rows(catalog: Catalog, rows: int, keys: int, name: str = "bench.ours") -> Table:
    """Data files of these rows each, with ids in no order, and as many delete files of these keys each."""
    from tests.factories import manifests

    chance = np.random.default_rng(SEED)
    table = catalog.create_table(
        name,
        pa.schema([("id", pa.int64()), ("amount", pa.int64()), ("at", pa.timestamp("us")), ("note", pa.string())]),
        properties={"format-version": "2"},
    )
    ids = chance.permutation(FILES * rows)
    for number in range(FILES):
        part = ids[number * rows : (number + 1) * rows]
        notes = pa.array([f"note {number} of a row" for number in range(5000)])
        table.append(
            pa.table(
                {
                    "id": part,
                    "amount": chance.integers(0, 10**9, rows),
                    "at": pa.array(chance.integers(0, 10**15, rows)).cast(pa.timestamp("us")),
                    "note": notes.take(pa.array(chance.integers(0, 5000, rows))),
                }
            )
        )
    gone = chance.choice(FILES * rows, FILES * keys, replace=False)
    for number in range(FILES):
        part = pa.table({"id": gone[number * keys : (number + 1) * keys]})
        table = manifests.add_equality_delete(catalog.load_table(name), part)
    return table


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a tenth of the files and rows")
    found = bars(parser.parse_args().quick)
    bar_lines.show(found)
    print(json.dumps({"bench": "housekeeping_deletes", "bars": found}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
