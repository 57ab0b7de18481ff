"""The packing properties of the guide, on the files that there are after a rewrite: targets of 100 MB to 2 GB and 1 to
100 files of 1 B to 1 GB. All files are kept; no file is larger than twice the target; all are between half and twice
the mean. The guide states them of groups of inputs; a group here may be as large as 100 GiB, and its outputs count.

Exceptions, by name: a file that the strategy leaves alone has the size that it had. Such a file is well sized, which is
0.75 to 1.8 x target; or it is small, and too few to be a group (`too-few-files`), a rest (`rest`), or beside others
that it cannot join without making as many files again (`no-gain`); or it is large, and of one row (`indivisible`).
"""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason
from iceberg_compaction.plan import build

FILES = st.lists(st.integers(1, 1_000_000_000), min_size=1, max_size=100)
TARGET = st.integers(100_000_000, 2_000_000_000)
EXCEPTIONS = {
    LeftOutReason.WELL_SIZED,
    LeftOutReason.TOO_FEW_FILES,
    LeftOutReason.REST,
    LeftOutReason.NO_GAIN,
    LeftOutReason.INDIVISIBLE,
}


def balanced(sizes: list[int]) -> bool:
    """Whether all are between half and twice the mean."""
    mean = sum(sizes) / len(sizes)
    return all(mean / 2 <= size <= 2 * mean for size in sizes)


@examples(40)
@given(sizes=FILES, target=TARGET, seed=st.integers(0, 99))
def test_outputs_of_a_whole_rewrite_have_the_guides_properties(sizes: list[int], target: int, seed: int) -> None:
    view = inventories.view(inventories.files(sizes))
    plan = build.build(view, Policy(rewrite_all=True, target_file_size_bytes=target), plan_id="p", now_ms=0)
    assert sorted(plan.files["file_path"].to_pylist()) == sorted(view.files["file_path"].to_pylist())
    outputs = perform(plan, view, Data(seed=seed)).files["file_size_in_bytes"].to_pylist()
    assert max(outputs) <= 2 * target
    assert balanced(outputs), (outputs, target)


@examples(40)
@given(
    sizes=FILES,
    target=TARGET,
    strategy=st.sampled_from([Strategy.SMALL_FILES, Strategy.FULL]),
    few=st.sampled_from([1, 5]),
)
def test_outputs_of_a_strategy_have_them_but_for_files_that_it_leaves_alone(
    sizes: list[int], target: int, strategy: Strategy, few: int
) -> None:
    view = inventories.view(inventories.files(sizes))
    policy = Policy(strategy=strategy, target_file_size_bytes=target, min_input_files=few)
    plan = build.build(view, policy, plan_id="p", now_ms=0)
    assert plan.input_files + sum(left.files for left in plan.left_out) == len(sizes)
    assert {left.reason for left in plan.left_out} <= EXCEPTIONS
    if isinstance(plan, EmptyPlan):
        return
    after = perform(plan, view, Data())
    written = [row["file_size_in_bytes"] for row in after.files.to_pylist() if row["file_path"].startswith("out-")]
    assert max(written) <= 2 * target
    assert balanced(written), (written, target)
    assert max(after.files["file_size_in_bytes"].to_pylist()) <= 2 * target
