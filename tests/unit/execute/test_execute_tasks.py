"""How groups are cut into tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.factories import inventories

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model.policies import CopyMode, Policy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import RewriteTask

TARGET = 1000


def tasks_of(
    sizes: list[int], *, cores: int = 1, copy: CopyMode = CopyMode.AUTO, gathers: bool = False, **changes: object
) -> list[RewriteTask]:
    stock = inventories.view(inventories.files(sizes, **changes))
    policy = Policy(target_file_size_bytes=TARGET, rewrite_all=True, copy_row_groups=copy)
    return cut_tasks.build_tasks(build.build(stock, policy, plan_id="p", now_ms=0), cores=cores, gathers=gathers)


def test_a_plan_without_groups_has_no_tasks() -> None:
    assert tasks_of([]) == []


def test_a_group_below_sixteen_targets_is_one_task() -> None:
    assert [len(task.file_paths) for task in tasks_of([100] * 159)] == [159]


def test_a_large_group_is_cut_into_equal_tasks() -> None:
    tasks = tasks_of([100] * 800)
    assert [task.bytes for task in tasks] == [8 * TARGET] * 10
    assert inventories.unsplit(tasks) == [f"f-{number}.parquet" for number in range(800)]


def test_where_cores_would_idle_tasks_are_smaller() -> None:
    assert [task.bytes // TARGET for task in tasks_of([100] * 160, cores=2)] == [8, 8]
    assert [task.bytes // TARGET for task in tasks_of([100] * 160, cores=4)] == [4, 4, 4, 4]
    assert [task.bytes // TARGET for task in tasks_of([100] * 79, cores=64)] == [7]
    assert inventories.unsplit(tasks_of([100] * 160, cores=64)) == [f"f-{number}.parquet" for number in range(160)]


def test_what_is_copied_goes_into_smaller_tasks_still() -> None:
    assert [task.bytes // TARGET for task in tasks_of([100] * 60, cores=3, copy=CopyMode.ALWAYS)] == [2, 2, 2]
    assert [task.bytes // TARGET for task in tasks_of([100] * 160, cores=2, copy=CopyMode.ALWAYS)] == [8, 8]
    assert [task.bytes // TARGET for task in tasks_of([100] * 60, cores=2)] == [6]


def test_all_cores_have_the_same_to_do() -> None:
    assert [task.bytes // TARGET for task in tasks_of([100] * 60, cores=2, copy=CopyMode.ALWAYS)] == [3, 3]
    assert [task.bytes // TARGET for task in tasks_of([100] * 400, cores=2)] == [10, 10, 10, 10]
    assert [task.bytes // TARGET for task in tasks_of([100] * 560, cores=4)] == [14, 14, 14, 14]
    assert [task.bytes // TARGET for task in tasks_of([100] * 120, cores=4)] == [4, 4, 4]


def test_what_lies_next_to_a_very_large_file_joins_it() -> None:
    assert [task.file_sizes for task in tasks_of([100, 100, 100_000, 100])] == [(100, 100, 100_000, 100)]
    tasks = tasks_of([100] * 200 + [100_000] + [100] * 200)
    assert all(task.bytes >= 7 * TARGET for task in tasks)
    assert len(tasks) >= 5


def test_tasks_carry_what_the_worker_needs() -> None:
    tasks = tasks_of([100, 200, 300], partitions=['{"p": 1}', '{"p": 2}', '{"p": 2}'])
    assert [(task.id, task.group_id, task.spec_id, task.partition) for task in tasks] == [
        (0, 0, 0, '{"p": 1}'),
        (1, 1, 0, '{"p": 2}'),
    ]
    assert (tasks[1].file_sizes, tasks[1].record_counts) == ((200, 300), (2, 3))


@pytest.mark.parametrize("cores", [1, 2, 64, 80])
def test_where_small_files_are_gathered_there_is_a_task_for_each_output_file(cores: int) -> None:
    tasks = tasks_of([100] * 800, cores=cores, gathers=True)
    assert [task.bytes for task in tasks] == [TARGET] * 80
    assert inventories.unsplit(tasks) == [f"f-{number}.parquet" for number in range(800)]


def test_tasks_for_a_file_each_are_even_and_large_enough_for_it() -> None:
    assert [task.bytes for task in tasks_of([100] * 39, gathers=True)] == [1000, 1000, 900, 1000]
    assert [task.bytes for task in tasks_of([100] * 11, gathers=True)] == [1100]
    assert all(task.bytes >= 825 for task in tasks_of([700, 100, 600, 600, 50, 700, 700] * 9, gathers=True))


def test_tasks_that_gather_small_files_are_larger_where_files_may_shrink_again() -> None:
    sizes = [200] * 80
    assert cut_tasks.for_gathering(sizes, TARGET, 100) == list(range(0, 80, 10))  # copied
    assert cut_tasks.for_gathering(sizes, TARGET, 1000) == [0, 40]


MB = 2**20


def fragments_of(sizes: list[int], *, cores: int, copy: CopyMode = CopyMode.AUTO, gathers: bool = True) -> list[int]:
    """Bytes of each task of a group whose target is far larger, in MiB."""
    stock = inventories.view(inventories.files(sizes))
    policy = Policy(target_file_size_bytes=512 * MB, rewrite_all=True, copy_row_groups=copy)
    plan = build.build(stock, policy, plan_id="p", now_ms=0)
    tasks = cut_tasks.build_tasks(plan, cores=cores, gathers=gathers)
    assert inventories.unsplit(tasks) == [f"f-{number}.parquet" for number in range(len(sizes))]
    return [task.bytes // MB for task in tasks]


def test_tiny_files_of_one_output_are_encoded_by_all_cores() -> None:
    assert fragments_of([64 * 1024] * 1024, cores=2) == [32, 32]
    assert fragments_of([64 * 1024] * 1024, cores=1) == [64]
    assert fragments_of([64 * 1024] * 1024, cores=64) == [21, 21, 21]  # less would make undersized row groups
    assert fragments_of([64 * 1024] * 300, cores=2) == [18]


def test_few_cores_have_threads_and_many_have_parts_of_a_file() -> None:
    assert fragments_of([MB] * 128, cores=2) == [128]
    assert fragments_of([MB] * 128, cores=4) == [32, 32, 32, 32]


def test_only_what_is_encoded_and_can_be_put_together_is_cut_into_parts_of_a_file() -> None:
    tiny = [64 * 1024] * 1024
    assert fragments_of(tiny, cores=2, gathers=False) == [64]
    assert fragments_of(tiny, cores=2, copy=CopyMode.NEVER) == [64]
    assert fragments_of(tiny, cores=2, copy=CopyMode.ALWAYS) == [64]


def test_plans_with_a_task_for_every_core_have_whole_files() -> None:
    stock = inventories.view(
        inventories.files([64 * 1024] * 2048, partitions=['{"p": 1}'] * 1024 + ['{"p": 2}'] * 1024)
    )
    policy = Policy(target_file_size_bytes=512 * MB, rewrite_all=True)
    plan = build.build(stock, policy, plan_id="p", now_ms=0)
    assert [len(cut_tasks.build_tasks(plan, cores=cores, gathers=True)) for cores in (1, 2, 4)] == [2, 2, 4]
