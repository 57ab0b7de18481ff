"""R53: runs come to an end whatever rows take, alone or together: the second plan, at the latest the third, finds
nothing. Real files are planned, rewritten and planned again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, LongType, NestedField
from tests.factories import inventories, tasks

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.execute.worker import arrow_schemas, execute_task
from iceberg_compaction.model.policies import Policy, ProofLevel, Strategy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_plan import Plan

SCHEMA = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "noise", BinaryType(), required=False))
TARGET = 100_000
HUGE, LARGE, HALF, SMALL, TINY = 500_000, 120_000, 60_000, 20_000, 500  # bytes of a row
BY_SIZE = (Strategy.SMALL_FILES, Strategy.FULL)


def _write(path: Path, rows: Sequence[int]) -> Path:
    dice = np.random.default_rng(abs(hash(path.name)) % 2**32)
    table = pa.table({"id": range(len(rows)), "noise": pa.array([dice.bytes(size) for size in rows], pa.binary())})
    return tasks.write_input(path, table.cast(arrow_schemas.file_schema(SCHEMA)), SCHEMA, compression="zstd")


def _plan(paths: list[Path], policy: Policy) -> Plan:
    files = inventories.files([path.stat().st_size for path in paths])
    known = {"file_path": [str(path) for path in paths], "record_count": [pq.read_metadata(p).num_rows for p in paths]}
    for name, values in known.items():
        place = files.schema.get_field_index(name)
        files = files.set_column(place, files.schema.field(place), pa.array(values, files.schema.field(place).type))
    return build.build(inventories.view(files), policy, plan_id="p", now_ms=0)


def _runs(root: Path, paths: list[Path], policy: Policy) -> tuple[int, list[Path]]:
    """How many runs it takes until there is nothing to do, four at most, and the files that are there then."""
    for run in range(4):
        plan = _plan(paths, policy)
        if plan.empty:
            return run, paths
        context = tasks.make_context(root, SCHEMA, target=TARGET, verify=ProofLevel.COUNTS)
        made: list[Path] = []
        for task in cut_tasks.build_tasks(plan):
            made += [root / file.file_path for file in execute_task.rewrite(task, context, f"{run}-{task.id}").staged]
        gone = set(plan.files["file_path"].to_pylist())
        paths = [path for path in paths if str(path) not in gone] + made
    return 4, paths


@pytest.mark.parametrize("strategy", BY_SIZE)
@pytest.mark.parametrize(
    ("files", "most"),
    [
        ([[HUGE]], 0),
        ([[HUGE], [HUGE]], 0),
        ([[HUGE, HUGE]], 1),
        ([[TINY, HUGE, TINY]], 1),
        ([[HUGE, TINY] * 4], 2),
        ([[HALF, LARGE]] * 6, 2),
        ([[HALF]] * 7, 1),
        ([[LARGE]] * 7, 0),
        ([[LARGE], [SMALL]] * 6, 1),
        ([[TINY] * 300 + [HUGE] + [SMALL] * 9 + [LARGE] + [TINY] * 10] * 3, 2),
    ],
)
def test_r53_rows_that_fill_files_alone_are_no_reason_to_rewrite(
    tmp_path: Path, strategy: Strategy, files: list[list[int]], most: int
) -> None:
    paths = [_write(tmp_path / f"{number}.parquet", rows) for number, rows in enumerate(files)]
    rows = sum(map(len, files))
    runs, left = _runs(tmp_path, paths, Policy(strategy=strategy, target_file_size_bytes=TARGET))
    assert runs <= most, [(path.stat().st_size, pq.read_metadata(path).num_rows) for path in left]
    assert sum(pq.read_metadata(path).num_rows for path in left) == rows


@pytest.mark.parametrize("strategy", BY_SIZE)
@pytest.mark.parametrize("seed", range(6))
def test_r53_any_mix_of_row_sizes_comes_to_an_end(tmp_path: Path, strategy: Strategy, seed: int) -> None:
    dice = np.random.default_rng(seed)
    kinds = np.array([TINY, SMALL, HALF, 75_000, 95_000, LARGE, 179_000, 181_000, HUGE])
    chance = dice.dirichlet(np.full(len(kinds), 0.5))
    paths = []
    for number in range(int(dice.integers(1, 12))):
        rows = (dice.choice(kinds, int(dice.integers(1, 12)), p=chance) * dice.uniform(0.8, 1.2)).astype(int)
        paths.append(_write(tmp_path / f"{number}.parquet", rows.tolist()))
    runs, left = _runs(tmp_path, paths, Policy(strategy=strategy, target_file_size_bytes=TARGET, min_input_files=2))
    assert runs <= 2, [(path.stat().st_size, pq.read_metadata(path).num_rows) for path in left]
