"""How long the delete index takes on a large table: a mixture of partition-scoped, file-scoped and global deletes and
deletion vectors over a million data files, made in memory. Prints a table, and the figures as JSON last."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import pyarrow as pa

from iceberg_compaction.metadata.deletes import delete_index
from iceberg_compaction.model import table_view

BAR_SECONDS = 3.0
_DATA, _GLOBAL, _PARTITION_EQUALITY, _PARTITION_POSITION, _FILE_POSITION, _VECTOR = range(6)
_SHARES = [0.02, 0.38, 0.2, 0.2, 0.2]  # of the delete files, in the order above


def files(data_files: int, delete_files: int, partitions: int = 1000, *, seed: int = 4) -> pa.Table:
    """Live files of a table with two specs: 0 without partitions, 1 by day and hour."""
    random = np.random.default_rng(seed)
    count = data_files + delete_files
    chosen = random.choice(np.arange(_GLOBAL, _VECTOR + 1), delete_files, p=_SHARES)
    kind = np.concatenate([np.full(data_files, _DATA), chosen])
    place = random.integers(0, partitions, count)
    sequence = random.integers(1, 100_000, count)
    named = np.flatnonzero(kind >= _FILE_POSITION)
    target = random.choice(data_files, len(named), replace=False)
    place[named] = place[target]
    sequence[named] = sequence[target] + random.integers(0, 1000, len(named))
    paths = _paths(np.arange(count))
    referenced = np.full(count, -1)
    referenced[named] = target
    texts = [f'{{"at_hour": "2026-01-{number:05d}"}}' for number in range(partitions)]
    everywhere = kind == _GLOBAL
    columns = {
        "file_path": paths,
        "content": np.select([kind == _DATA, kind <= _PARTITION_EQUALITY], [0, 2], 1).astype(np.int8),
        "file_format": pa.DictionaryArray.from_arrays((kind == _VECTOR).astype(np.int32), ["PARQUET", "PUFFIN"]),
        "spec_id": np.where(everywhere, 0, 1).astype(np.int32),
        "partition": pa.DictionaryArray.from_arrays(
            np.where(everywhere, partitions, place).astype(np.int32), [*texts, "{}"]
        ),
        "record_count": random.integers(1, 100_000, count),
        "sequence_number": sequence,
        "referenced_data_file": paths.take(pa.array(referenced, mask=referenced < 0)),
    }
    zero = np.zeros(count, np.int64)
    needed = {"file_size_in_bytes": zero, "file_sequence_number": zero, "encrypted": pa.array(zero).cast(pa.bool_())}
    unknown = {field.name: pa.nulls(count, field.type) for field in table_view.FILES if field.nullable}
    return pa.table({**unknown, **needed, **columns}).select(table_view.FILES.names).cast(table_view.FILES)


def _paths(numbers: np.ndarray) -> pa.Array:
    return pa.array(
        [f"s3://warehouse/shop/events/data/at_hour=2026-01-01/00000-{number}-0001.parquet" for number in numbers]
    )


def measure(rows: pa.Table) -> dict[str, float]:
    """Seconds for each question that health asks of the index."""
    seconds = {}
    started = time.perf_counter()

    def lap(name: str) -> None:
        nonlocal started
        now = time.perf_counter()
        seconds[name], started = now - started, now

    index = delete_index.build(rows, unpartitioned_specs=frozenset({0}))
    lap("build")
    index.counts_per_data_file()
    lap("counts_per_data_file")
    index.live_targets()
    lap("live_targets")
    index.deleted_rows_per_data_file()
    lap("deleted_rows_per_data_file")
    index.for_data_files(np.arange(1000))
    lap("for_1000_data_files")
    return seconds


def _peak_mb() -> float:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmHWM"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a tenth of the size; the bar means nothing then")
    scale = 10 if parser.parse_args().quick else 1
    rows = files(1_000_000 // scale, 100_000 // scale)
    Path("/proc/self/clear_refs").write_text("5")  # forget the peak so far: making the files takes more than the index
    before = _peak_mb()
    seconds = measure(rows)
    grown = _peak_mb() - before
    total = seconds["build"] + seconds["counts_per_data_file"] + seconds["live_targets"]
    for name, value in seconds.items():
        print(f"{name:30} {value:7.3f} s")
    print(f"{'build + counts + targets':30} {total:7.3f} s (bar {BAR_SECONDS} s), peak +{grown:.0f} MB")
    figures = {"data_files": 1_000_000 // scale, "delete_files": 100_000 // scale, "seconds": seconds, "total": total}
    bar = {
        "name": "build + counts + targets, s",
        "value": round(total, 3),
        "reach": f"<= {BAR_SECONDS}",
        "ok": total <= BAR_SECONDS,
    }
    print(json.dumps({"bench": "delete_index", **figures, "peak_growth_mb": grown, "bars": [bar]}))


if __name__ == "__main__":
    main()
