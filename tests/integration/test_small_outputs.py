"""Groups whose data shrinks when it is encoded anew: tasks that write a small file each do not leave them behind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import storage, work
from tests.factories.lake import local_catalog, make_table

from iceberg_compaction import Kind, Policy
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.policies import CopyMode

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "text", StringType()))
CODEC = "write.parquet.compression-codec"
TARGET = 100_000


def fill(table: Table, files: int) -> None:
    """Uncompressed files of about 40 kB, of which a third is left when they are compressed."""
    random = np.random.default_rng(0)
    for number in range(files):
        ids, texts = range(number * 1000, number * 1000 + 1000), random.integers(0, 2**62, 1000)
        table.append(pa.table({"id": pa.array(ids, pa.int64()), "text": [f"{text:016x}" * 2 for text in texts]}))
    with table.transaction() as change:
        change.set_properties({CODEC: "zstd"})


def sizes_of(table: Table) -> list[int]:
    sizes: list[int] = table.inspect.files()["file_size_in_bytes"].to_pylist()
    return sizes


@pytest.mark.parametrize("copy", [CopyMode.AUTO, CopyMode.NEVER])
def test_small_files_of_several_tasks_are_put_together(tmp_path: Path, copy: CopyMode) -> None:
    catalog = local_catalog(tmp_path)
    properties = {CODEC: "uncompressed", "write.parquet.dict-encoding-enabled": "false"}
    table = make_table(catalog, "db.t", SCHEMA, properties=properties)
    fill(table, 36)
    before = storage.row_multiset(table.scan().to_arrow())
    policy = Policy(target_file_size_bytes=TARGET, copy_row_groups=copy, min_input_files=1)
    engine = FakeEngine(cores=4)

    outcome = work.compact_table(catalog, "db.t", policy, engine, wiring.new_run())

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    first, second = (len(job.tasks) for job in engine.jobs)
    assert first > second >= 1
    bounds = [columns[2] for task in engine.jobs[1].tasks for columns in task.told]  # a copy may need them
    assert all(nulls == 0 and low and high and low < high for nulls, low, high in bounds)
    after = catalog.load_table("db.t")
    assert storage.row_multiset(after.scan().to_arrow()) == before
    assert all(TARGET * 3 // 4 <= size <= TARGET * 9 // 5 for size in sizes_of(after)), sizes_of(after)
    assert storage.referenced_data_files(after) >= {
        path for path in storage.files_under(after) if path.endswith(".parquet")
    }
    again = work.compact_table(catalog, "db.t", policy, engine, wiring.new_run())
    assert again.kind is Kind.HEALTHY, again.sentence


def test_tiny_files_of_one_output_are_encoded_in_parts_and_put_together_in_order(tmp_path: Path) -> None:
    """Each core makes row groups of its own, which become one file as bytes (ADR 24)."""
    catalog = local_catalog(tmp_path)
    table = make_table(catalog, "db.t", Schema(*(NestedField(at, f"n{at}", LongType()) for at in range(1, 9))))
    random, paths = np.random.default_rng(0), []
    for number in range(640):
        columns = {f"n{at}": random.integers(0, 2**62, 1000) for at in range(2, 9)}
        rows = pa.table({"n1": pa.array(range(number * 1000, number * 1000 + 1000)), **columns})
        paths.append(f"{tmp_path}/{number}.parquet")
        pq.write_table(rows, paths[-1], use_dictionary=False, compression="zstd")
    table.add_files(paths, check_duplicate_files=False)
    before = table.scan().to_arrow().sort_by("n1")
    engine = FakeEngine(cores=2)

    outcome = work.compact_table(catalog, "db.t", Policy(), engine, wiring.new_run())

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert [len(job.tasks) for job in engine.jobs] == [2, 1]
    after = catalog.load_table("db.t")
    (path,) = (task.file.file_path.removeprefix("file://") for task in after.scan().plan_files())
    with pq.ParquetFile(path) as file:
        assert file.num_row_groups == 2
        assert file.read()["n1"].to_pylist() == list(range(640_000))
    assert after.scan().to_arrow().sort_by("n1").equals(before)
    assert outcome.effort.copied_groups == 2
    again = work.compact_table(catalog, "db.t", Policy(), engine, wiring.new_run())
    assert again.kind is Kind.HEALTHY, again.sentence
