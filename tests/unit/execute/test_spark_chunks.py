"""Chunks: nothing lost, nothing too big, no core idle."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.factories.examples import examples

from iceberg_compaction.execute.engines.spark import chunks
from iceberg_compaction.model.rewrite_task import RewriteTask


def _tasks(sizes: list[int]) -> list[RewriteTask]:
    return [
        RewriteTask(
            id=number,
            group_id=number // 3,
            spec_id=0,
            partition="{}",
            file_paths=("a",),
            file_sizes=(size,),
            record_counts=(1,),
        )
        for number, size in enumerate(sizes)
    ]


@examples()
@given(st.lists(st.integers(0, 2 * chunks.MAX_BYTES), min_size=1, max_size=200), st.integers(1, 64))
def test_every_task_once_in_order_and_every_core_busy(sizes: list[int], cores: int) -> None:
    tasks = _tasks(sizes)
    built = chunks.build_chunks(tasks, cores)
    assert [task for chunk in built for task in chunk.tasks] == tasks
    assert [chunk.first for chunk in built] == [chunk.tasks[0].id for chunk in built]
    assert len(built) >= min(cores, len(tasks))
    for chunk in built:
        assert len(chunk.tasks) <= chunks.MAX_TASKS
        assert len(chunk.tasks) == 1 or sum(task.bytes for task in chunk.tasks) <= chunks.MAX_BYTES


def test_tiny_tasks_share_jobs() -> None:
    assert len(chunks.build_chunks(_tasks([1000] * 320), cores=2)) < 20


def test_large_tasks_travel_alone() -> None:
    assert len(chunks.build_chunks(_tasks([chunks.MAX_BYTES] * 9), cores=2)) == 9


def test_description_names_table_and_step() -> None:
    tasks = _tasks([1] * 12)
    one = chunks.TaskChunk(first=2, total=12, tasks=(tasks[2],))
    assert one.describe("shop.events") == "iceberg-compaction: shop.events, rewrite task 3/12 (group 0, 1 file)"
    some = chunks.TaskChunk(first=2, total=12, tasks=tuple(tasks[2:5]))
    assert some.describe("shop.events") == "iceberg-compaction: shop.events, rewrite tasks 3-5/12 (groups 0-1, 3 files)"
