"""Tiny files are read in bundles: all rows, in order, in bounded memory, and an error names the file to blame."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import budgets
from iceberg_compaction.execute.worker.input import file_bundles, read_files
from iceberg_compaction.storage.task_cores import TaskCores

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
        pa.field("text", pa.string(), metadata={"PARQUET:field_id": "2"}),
    ]
)


def write(path: Path, first: int, rows: int, text: str = "word") -> read_files.InputFacts:
    table = pa.table({"id": range(first, first + rows), "text": [text] * rows}, schema=SCHEMA)
    pq.write_table(table, path)
    return read_files.InputFacts(path=str(path), rows=rows, size=path.stat().st_size)


def reader(cores: int) -> read_files.DataFileReader:
    return read_files.DataFileReader(io=PyArrowFileIO(), budgets=budgets.Budgets(), cores=TaskCores(cores))


@pytest.mark.parametrize("cores", [1, 3])
def test_all_rows_come_in_order_with_their_numbers(tmp_path: Path, cores: int) -> None:
    counts = [3, 0, 5, 200_000, *[7] * 90]
    starts = [0, *itertools.accumulate(counts)]
    inputs = [write(tmp_path / f"{n}.parquet", starts[n], count) for n, count in enumerate(counts)]
    opened = reader(cores)
    footers = opened.footers(inputs)
    assert [footer.path for footer in footers] == [facts.path for facts in inputs]
    seen, following = [], dict.fromkeys((footer.path for footer in footers), 0)
    for footer, first, batch in opened.batches([read_files.FilePart(footer) for footer in footers], frozenset({2})):
        assert first == following[footer.path]
        following[footer.path] += batch.num_rows
        seen += batch.column("id").to_pylist()
    assert seen == list(range(sum(counts)))


def test_the_file_that_cannot_be_decoded_is_named(tmp_path: Path) -> None:
    inputs = [write(tmp_path / f"{n}.parquet", n, 50) for n in range(20)]
    opened = reader(3)
    footers = opened.footers(inputs)
    spoilt = tmp_path / "11.parquet"
    data = bytearray(spoilt.read_bytes())
    data[10:60] = bytes(50)
    spoilt.write_bytes(data)
    with pytest.raises(errors.DamagedFileError, match=r"11\.parquet"):
        list(opened.batches([read_files.FilePart(footer) for footer in footers], frozenset()))


def test_bundles_are_bounded_on_storage_and_in_memory(tmp_path: Path) -> None:
    tiny = [write(tmp_path / f"{n}.parquet", n, 10) for n in range(150)]
    large = [write(tmp_path / f"large{n}.parquet", n, 60_000) for n in range(9)]
    footers = reader(1).footers(tiny + large)
    parts = [read_files.FilePart(footer) for footer in footers]
    some_groups = read_files.FilePart(footers[0], groups=(0,))
    bundles = file_bundles.small([*parts, some_groups], 1)
    assert [part for bundle in bundles for part in bundle] == [*parts, some_groups]
    assert [len(bundle) for bundle in bundles[:2]] == [64, 64]
    assert bundles[-1] == [some_groups]
    for bundle in bundles:
        if len(bundle) > 1:
            assert sum(part.footer.size for part in bundle) <= 2**21
            assert sum(part.footer.decoded_bytes for part in bundle) <= file_bundles.MOST_DECODED
    assert {len(bundle) for bundle in file_bundles.small(parts[:20], 4)} == {1}  # all threads have work to do
    assert max(len(bundle) for bundle in bundles[3:]) < 9, "files that are large in memory were not told apart"


def test_texts_that_are_large_once_decoded_do_not_meet_in_memory(tmp_path: Path) -> None:
    """A file of two kilobytes with one text of 5 kB in all rows has 5 MB of rows, and its footer does not say so."""
    inputs = [write(tmp_path / f"{n}.parquet", n, 1000, text="x" * 5000) for n in range(16)]
    opened = dataclasses.replace(reader(1), budgets=budgets.Budgets(files_ahead=1))
    parts = [read_files.FilePart(footer) for footer in opened.footers(inputs)]
    assert len(file_bundles.small(parts, 1)) == 1
    before, most, rows = pa.total_allocated_bytes(), 0, 0
    for _, _, batch in opened.batches(parts, frozenset()):
        rows += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == 16_000
    assert most < 4 * 5_000_000
