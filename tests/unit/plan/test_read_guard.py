"""The read-side guard: enough files or row groups stay for parallel readers, and a second run does nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan
from iceberg_compaction.plan import build, read_guard

MIB = 2**20
ROW_GROUP = "write.parquet.row-group-size-bytes"


def plan(sizes: list[int], properties: dict[str, str] | None = None, **options: Any) -> Plan | EmptyPlan:
    view = inventories.view(inventories.files([size * MIB for size in sizes]), properties=properties or {})
    return build.build(view, Policy(**options), plan_id="p", now_ms=0)


def test_a_table_is_not_packed_into_fewer_files_than_readers() -> None:
    assert plan([10] * 80).output_files == 2
    made = plan([10] * 80, read_parallelism=16)
    assert made.output_files == 16
    assert made.sizes.target == 50 * MIB
    assert made.notes == (
        "The target is 50.0 MiB instead: read-parallelism is 16, and the table has 800.0 MiB, so that files of "
        "512.0 MiB would be too few.",
    )


UNITS = [  # files of so many MiB, row groups of so many, readers, the target in MiB
    ([10] * 80, 128, 0, 512),  # no limit
    ([10] * 200, 128, 16, 125),  # 2000 MiB have only 15.6 row groups
    ([10] * 205, 128, 16, 512),  # 16 row groups in four files
    ([10] * 205, 256, 16, 128),
    ([10] * 80, 16, 16, 512),  # 50 row groups
    ([1] * 80, 128, 16, 8),  # units below 8 MiB cost readers more than they gain
]


@pytest.mark.parametrize(("sizes", "row_group", "readers", "target"), UNITS)
def test_row_groups_count_as_units(sizes: list[int], row_group: int, readers: int, target: int) -> None:
    made = plan(sizes, {ROW_GROUP: str(row_group * MIB)}, read_parallelism=readers)
    assert made.sizes.target // MIB == target


def test_few_units_are_left_alone_with_the_reason() -> None:
    made = plan([25] * 45 + [600], read_parallelism=16)
    assert made.empty
    assert {left.reason: left.files for left in made.left_out} == {
        LeftOutReason.WELL_SIZED: 1,
        LeftOutReason.READ_PARALLELISM: 45,
    }
    assert "read-parallelism is 16, and the table has only 50 files and row groups" in made.sentence
    assert made.notes == ()
    assert not plan([25] * 60, read_parallelism=16).empty


def test_large_files_are_split_and_deletes_applied_all_the_same() -> None:
    made = plan([2000, 1, 1, 1, 1, 1], read_parallelism=16)
    assert [(group.files, group.reason.value) for group in made.groups] == [(1, "large-files")]
    assert {left.reason.value: left.files for left in made.left_out} == {"read-parallelism": 5}


def test_as_many_partitions_as_readers_need_no_guard() -> None:
    days = [f'{{"day": "{number}"}}' for number in range(16)]
    view = inventories.view(inventories.files([MIB] * 160, partitions=days * 10))
    made = build.build(view, Policy(read_parallelism=16), plan_id="p", now_ms=0)
    assert (made.output_files, made.notes) == (16, ())


def test_files_between_the_two_minima_are_left_out_with_the_reason() -> None:
    made = plan([1] * 60 + [80] * 3, read_parallelism=4)
    assert (made.sizes.target, made.sizes.min) == (75 * MIB, 75 * MIB // 2)
    (left,) = made.left_out
    assert (left.reason, left.files) == (LeftOutReason.READ_PARALLELISM, 3)
    assert left.sentence.startswith("3 files (240.0 MiB) are left as small as they are: read-parallelism is 4, and")


@examples(100)
@given(
    runs=st.lists(
        st.tuples(st.integers(10_000, 40 * MIB), st.sampled_from([1, 3, 12, 60]), st.integers(0, 2)), max_size=6
    ),
    strategy=st.sampled_from([Strategy.SMALL_FILES, Strategy.FULL]),
    readers=st.integers(2, 64),
    data=st.builds(Data, ratio=st.floats(0.3, 1.2), noise=st.just(0.05), seed=st.integers(0, 999)),
)
def test_a_second_plan_under_the_guard_is_empty(
    runs: list[tuple[int, int, int]], strategy: Strategy, readers: int, data: Data
) -> None:
    files = [(size, f'{{"p": {part}}}') for size, count, part in runs for _ in range(count)]
    view = inventories.view(inventories.files([size for size, _ in files], partitions=[part for _, part in files]))
    policy = Policy(strategy=strategy, read_parallelism=readers)
    first = build.build(view, policy, plan_id="first", now_ms=0)
    if isinstance(first, EmptyPlan):
        return
    second = build.build(perform(first, view, data), policy, plan_id="second", now_ms=0)
    assert second.empty, second.sentence


def test_the_least_unit_is_the_least_row_group_that_is_copied() -> None:
    assert Policy().min_row_group_size_bytes == read_guard.LEAST
