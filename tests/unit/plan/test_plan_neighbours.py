"""Neighbours stay together: a rewrite makes key ranges overlap no more than they did."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, bounds, perform, write

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

TARGET = 2**16
RANGES = st.one_of(  # anything, or side by side
    st.lists(st.tuples(st.integers(0, 300), st.integers(0, 60)).map(lambda r: (r[0], r[0] + r[1])), max_size=60),
    st.lists(st.integers(0, 500), unique=True, max_size=60).map(lambda lows: [(4 * low, 4 * low + 3) for low in lows]),
)


def test_files_are_read_by_clustering_column_then_sequence_then_as_listed_and_unknown_ones_last() -> None:
    rows = inventories.files(
        [100] * 6, sequence=[6, 5, 4, 4, 2, 1], bounds=[(7, 9), (-3, 8), (7, 8), (7, 7), None, (2**63 - 1, 2**63 - 1)]
    )
    plan = build.build(inventories.view(rows), Policy(), plan_id="p", now_ms=0)
    assert plan.files["file_path"].to_pylist() == [f"f-{number}.parquet" for number in (1, 2, 3, 0, 5, 4)]


@examples(80)
@given(
    ranges=RANGES,
    strategy=st.sampled_from([Strategy.SMALL_FILES, Strategy.FULL, Strategy.DELETE_FILES]),
    rewrite_all=st.booleans(),
    capacity=st.sampled_from([3, 9, 10_000]),
    seed=st.integers(0, 99),
)
def test_at_no_key_do_outputs_overlap_more_than_their_inputs_and_one(
    ranges: list[tuple[int, int]], strategy: Strategy, rewrite_all: bool, capacity: int, seed: int
) -> None:
    dice = random.Random(seed)
    sizes = [dice.choice([TARGET // 9, TARGET // 2, TARGET, 5 * TARGET]) for _ in ranges]
    policy = Policy(
        strategy=strategy,
        target_file_size_bytes=TARGET,
        min_input_files=2,
        rewrite_all=rewrite_all,
        max_file_group_size_bytes=capacity * TARGET,
    )
    view = inventories.view(inventories.files(sizes, bounds=ranges))
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    bounds_of = bounds(view)
    outputs = [
        [bounds_of[path] or (0, 0) for path in output.inputs]
        for task in cut_tasks.build_tasks(plan)
        for output in write(task, plan.sizes, Data(noise=0.0))
    ]
    for key in {end for output in outputs for bound in output for end in bound}:
        covering = sum(min(low for low, _ in output) <= key <= max(high for _, high in output) for output in outputs)
        pieces = sum(low <= key <= high for output in outputs for low, high in output)
        assert covering <= pieces + 1


@examples(50)
@given(lows=st.lists(st.integers(0, 10**6), min_size=8, max_size=63))
def test_outputs_cover_no_more_keys_than_those_of_another_order(lows: list[int]) -> None:
    lows = lows[: len(lows) // 4 * 4]  # one task, outputs of four files each
    sizes, ranges = [TARGET // 4] * len(lows), [(low, low + 1000) for low in lows]
    view, unbounded = (
        inventories.view(inventories.files(sizes, bounds=bounds_given)) for bounds_given in (ranges, None)
    )

    def covered(seen: TableView) -> int:
        plan = build.build(seen, Policy(target_file_size_bytes=TARGET), plan_id="p", now_ms=0)
        after = bounds(perform(plan, view, Data(noise=0.0)))
        assert len(after) == len(lows) // 4
        return sum(high - low for low, high in filter(None, after.values()))

    lows.sort()
    assert covered(view) == sum(lows[i + 3] + 1000 - lows[i] for i in range(0, len(lows), 4))  # no order covers less
    assert covered(view) <= covered(unbounded)  # where nothing is known, the order is that of sequence numbers


def test_a_budget_takes_the_first_neighbours() -> None:
    view = inventories.view(inventories.files([100] * 30, bounds=[(30 - n, 31 - n) for n in range(30)]))
    plan = build.build(view, Policy(max_files_to_rewrite=4), plan_id="p", now_ms=0)
    assert plan.files["file_path"].to_pylist() == [f"f-{number}.parquet" for number in (29, 28, 27, 26)]
