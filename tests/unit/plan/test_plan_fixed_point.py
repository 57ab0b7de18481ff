"""A run leaves nothing to do for the next one: plans are performed by a simulated writer and then made again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

TARGET = 100_000
BY_SIZE = (Strategy.SMALL_FILES, Strategy.FULL)  # those that mend sizes
SIZE = st.one_of(
    st.integers(1, 75_000), st.integers(60_000, 75_000), st.integers(75_000, 180_000), st.integers(180_000, 800_000)
)


@st.composite
def tables(draw: st.DrawFn) -> TableView:
    runs = draw(st.lists(st.tuples(SIZE, st.sampled_from([1, 2, 5, 30, 90]), st.integers(0, 2)), max_size=8))
    files = [(size, f'{{"p": {part}}}') for size, count, part in runs for _ in range(count)]
    dice = draw(st.randoms(use_true_random=False))
    dice.shuffle(files)
    bounds = [(low, low + dice.randrange(50)) if (low := dice.randrange(1000)) % 9 else None for _ in files]
    rows = inventories.files(
        [size for size, _ in files],
        partitions=[part for _, part in files],
        bounds=draw(st.sampled_from([None, bounds])),
    )
    return inventories.view(rows)


@examples(80)
@given(
    view=tables(),
    strategy=st.sampled_from(BY_SIZE),
    few=st.sampled_from([1, 2, 5, 10]),
    capacity=st.sampled_from([16, 20, 64, 10_000]),
    data=st.builds(Data, ratio=st.floats(0.3, 1.2), noise=st.just(0.05), seed=st.integers(0, 999)),
    cores=st.sampled_from([1, 64]),
)
def test_a_second_plan_is_empty(
    view: TableView, strategy: Strategy, few: int, capacity: int, data: Data, cores: int
) -> None:
    policy = Policy(
        strategy=strategy,
        target_file_size_bytes=TARGET,
        min_input_files=few,
        max_file_group_size_bytes=capacity * TARGET,
    )
    first = build.build(view, policy, plan_id="first", now_ms=0)
    after = perform(first, view, data, cores=cores)
    second = build.build(after, policy, plan_id="second", now_ms=0)
    assert second.empty, second.sentence
    assert all(size <= first.sizes.max for size in after.files["file_size_in_bytes"].to_pylist())


@pytest.mark.parametrize("strategy", BY_SIZE)
@pytest.mark.parametrize("ratio", [0.3, 0.45, 1.0, 1.2])
def test_a_large_partition_cut_into_many_tasks_ends_in_no_small_file(strategy: Strategy, ratio: float) -> None:
    view = inventories.view(inventories.files([TARGET // 10] * 3000))
    policy = Policy(strategy=strategy, target_file_size_bytes=TARGET)
    first = build.build(view, policy, plan_id="first", now_ms=0)
    after = perform(first, view, Data(ratio=ratio))
    sizes = after.files["file_size_in_bytes"].to_pylist()
    assert first.sizes.min <= min(sizes) <= max(sizes) <= first.sizes.max
    assert build.build(after, policy, plan_id="second", now_ms=0).empty


def test_small_groups_by_option_still_come_to_an_end() -> None:
    view = inventories.view(inventories.files([100] * 2000))
    policy = Policy(target_file_size_bytes=TARGET, max_file_group_input_files=50)
    counts = [2000]
    while not (plan := build.build(view, policy, plan_id="p", now_ms=0)).empty:
        view = perform(plan, view, Data(noise=0.0))
        counts.append(view.files.num_rows)
        assert counts[-1] < counts[-2]
    assert counts == [2000, 40, 2]
