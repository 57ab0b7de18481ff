"""Files come out even and near the target, whatever the inputs looked like: other codecs, useless dictionaries, rows
that change on the way; in one partition or many."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import BinaryType, DoubleType, LongType, NestedField, StringType
from tests.factories import tasks

from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.model import sizing
from iceberg_compaction.model.policies import ProofLevel, Sizes

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
    NestedField(3, "noise", BinaryType(), required=False),
    NestedField(4, "x", DoubleType(), required=False),
)
FILES, ROWS = 16, 4000
# Bytes of noise per row by number of the input file: what rows take changes midway, back and forth, and wildly.
SHAPES: dict[str, Callable[[int], int]] = {
    "even": lambda _: 12,
    "shrinks": lambda file: 40 if file < FILES // 2 else 2,
    "grows": lambda file: 2 if file < FILES // 2 else 40,
    "waves": lambda file: 2 + 38 * (file % 2),
    "wild": lambda file: (1, 60, 3, 100, 8)[file % 5],
}


def _table(seed: int, noise: int) -> pa.Table:
    dice = np.random.default_rng(seed)
    blob = dice.bytes(ROWS * noise)
    return pa.table(
        {
            "id": np.arange(ROWS) + seed * ROWS,
            "word": pa.array(np.array([f"w{number}" for number in range(300)])[dice.integers(0, 300, ROWS)]),
            "noise": pa.array([blob[at * noise : (at + 1) * noise] for at in range(ROWS)], pa.binary()),
            "x": np.round(dice.normal(size=ROWS), 1 if noise < 10 else 9),
        }
    ).cast(arrow_schemas.file_schema(SCHEMA))


def _rewritten(
    root: Path, shape: str, codecs: tuple[str, str], group: float, **update: Any
) -> tuple[tuple[StagedFile, ...], int]:
    """The outputs, and their target size. The row groups are `group` targets large."""
    paths = [
        tasks.write_input(
            root / f"in-{seed}.parquet",
            _table(seed, SHAPES[shape](seed)),
            SCHEMA,
            compression=codecs[0],
            use_dictionary=seed % 3 > 0,  # of no use to most columns
        )
        for seed in range(FILES)
    ]
    properties = {"write.parquet.compression-codec": codecs[1]}

    def run(attempt: str, **options: Any) -> TaskResult:
        context = tasks.make_context(root, SCHEMA, verify=ProofLevel.COUNTS, **options)
        return execute_task.rewrite(tasks.make_task(paths), context.model_copy(update=update), attempt)

    whole = run("whole", properties=properties)
    target = int(whole.bytes_written / len(whole.staged) / 5.3)
    result = run(
        "cut", target=target, properties=properties | {"write.parquet.row-group-size-bytes": str(int(target * group))}
    )
    return result.staged, target


def _groups(file: StagedFile) -> list[int]:
    """Bytes of the row groups of a file."""
    metadata = pq.read_metadata(file.file_path.removeprefix("file://"))
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    return [sum(group.column(at).total_compressed_size for at in range(group.num_columns)) for group in groups]


def _sizes(root: Path, shape: str, codecs: tuple[str, str], group: float, **update: Any) -> list[list[float]]:
    """Sizes of the outputs in targets, by partition."""
    staged, target = _rewritten(root, shape, codecs, group, **update)
    found: dict[str, list[float]] = {}
    for file in staged:
        found.setdefault(file.partition, []).append(file.file_size_in_bytes / target)
    return list(found.values())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("codecs", "group"), [(("none", "zstd"), 10), (("snappy", "zstd"), 0.3), (("zstd", "uncompressed"), 1)]
)
def test_all_files_are_near_the_target_however_rows_change(
    tmp_path: Path, shape: str, codecs: tuple[str, str], group: float
) -> None:
    (sizes,) = _sizes(tmp_path, shape, codecs, group)
    assert 5 <= len(sizes) <= 6
    assert all(0.85 <= size <= 1.15 for size in sizes[:-1]), sizes
    assert 0.4 <= sizes[-1] <= 1.3, sizes


@pytest.mark.parametrize("codecs", [("none", "zstd"), ("snappy", "zstd"), ("zstd", "uncompressed")])
def test_row_groups_share_a_file_evenly(tmp_path: Path, codecs: tuple[str, str]) -> None:
    """A file has no room for two and a bit: the bit would be a row group of its own."""
    staged, target = _rewritten(tmp_path, "even", codecs, 0.35)
    for file in staged:
        sizes = [size / target for size in _groups(file)]
        assert min(sizes) > 0.15, sizes


@pytest.mark.parametrize("ordered", [False, True])
def test_so_are_those_of_every_partition(tmp_path: Path, ordered: bool) -> None:
    spec = PartitionSpec(PartitionField(source_id=1, field_id=1000, transform=BucketTransform(2), name="b"), spec_id=5)
    specs = {0: UNPARTITIONED_PARTITION_SPEC.model_dump_json(), 5: spec.model_dump_json()}
    order = SortOrder(SortField(source_id=4, transform=IdentityTransform()), order_id=1).model_dump_json()
    found = _sizes(
        tmp_path,
        "waves",
        ("snappy", "zstd"),
        0.3,
        output_spec_id=5,
        partition_specs=specs,
        sort_order=order if ordered else None,
    )
    assert len(found) == 2
    for sizes in found:
        assert len(sizes) >= 5
        assert all(0.85 <= size <= 1.15 for size in sizes), sizes


@pytest.mark.parametrize("bounded", [False, True])
def test_what_ends_in_two_and_a_half_targets_becomes_three_even_files(tmp_path: Path, bounded: bool) -> None:
    """Not one of a target and a large one. No row group is a small rest, also where memory bounds them."""
    paths = [tasks.write_input(tmp_path / f"in-{seed}.parquet", _table(seed, 40), SCHEMA) for seed in range(FILES)]
    context = tasks.make_context(tmp_path, SCHEMA, verify=ProofLevel.COUNTS)
    whole = execute_task.rewrite(tasks.make_task(paths), context, "whole").bytes_written
    context = tasks.make_context(tmp_path, SCHEMA, verify=ProofLevel.COUNTS, target=int(whole / 2.5))
    limits = budgets.Budgets(buffer_bytes=whole // 6) if bounded else budgets.DEFAULT
    staged = execute_task.rewrite(tasks.make_task(paths), context, "cut", limits).staged
    sizes = [file.file_size_in_bytes for file in staged]
    assert len(sizes) == 3
    assert max(sizes) < 1.1 * min(sizes), sizes
    for file in staged:
        groups = _groups(file)
        assert min(groups) > 0.4 * max(groups), groups


def test_the_arithmetic_divides_evenly_and_leaves_no_small_file() -> None:
    """For any number of bytes: files are within 10 % of the target from five on, and never small or too large."""
    sizes = Sizes(target=1000, min=750, max=1800)
    for total in range(1000, 12_000, 7):
        files, rest, aimed = [], total, sizing.file_count(total, sizes)
        while not sizing.takes_all(0, rest, sizes, aimed):
            files.append(sizing.roll_size(rest, sizes, 0, aimed))
            rest, aimed = rest - files[-1], aimed - 1
        files.append(rest)
        assert max(files) - min(files) <= len(files), (total, files)
        assert sizes.min <= min(files) <= max(files) <= sizes.max / 1.09, (total, files)
        assert total < 4500 or 900 <= min(files) <= max(files) <= 1100, (total, files)
