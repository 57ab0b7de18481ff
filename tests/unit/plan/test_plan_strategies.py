"""The seam of strategies: planning takes candidates, grouping, order and output layout from a strategy and knows none
by name, so that a strategy of one file is planned, explained and brought to its fixed point."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from tests.factories import inventories
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction import errors
from iceberg_compaction.model.copy_plan import Way
from iceberg_compaction.model.output_layout import OutputLayout, RowOrder
from iceberg_compaction.model.policies import Policy, Sizes, Strategy
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason, Plan
from iceberg_compaction.plan import build, packing, plan_request
from iceberg_compaction.plan.strategies import delete_thresholds, full, registry, rewrite_all
from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, RewriteStrategy, Verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest

TARGET = 100_000
OLD = 10  # sequence number up to which the toy strategy calls a file old
PARTITIONS = ['{"p": 1}', '{"p": 2}', '{"p": 3}']


def choose_old(files: CandidateFiles, request: PlanRequest) -> Choice:
    old = request.view.files["sequence_number"].to_numpy()[files.rows] <= OLD
    return Choice(candidates=old, left_out={LeftOutReason.NO_GAIN: ~old})


def group_by_threes(files: CandidateFiles, request: PlanRequest) -> Packing:
    policy = request.policy.model_copy(update={"max_file_group_input_files": 3})
    return packing.pack(files, replace(request, policy=policy))


def judge_pairs(bins: Bins, _request: PlanRequest) -> Verdict:
    pairs = bins.count >= 2
    return Verdict(
        rewritten={GroupReason.NOT_OPTIMAL: pairs},
        left_out={LeftOutReason.TOO_FEW_FILES: (bins.count > 0) & ~pairs},
    )


def order_newest_first(_packing: Packing, kept: NDArray[np.int64], _request: PlanRequest) -> NDArray[np.int64]:
    return kept[::-1]


def explain_age(reason: LeftOutReason, _count: int, _request: PlanRequest) -> str:
    return "came lately" if reason is LeftOutReason.NO_GAIN else "have no company"


OLD_FILES = RewriteStrategy(
    choose=choose_old,
    group=group_by_threes,
    judge=judge_pairs,
    gains=lambda bins: bins.count >= 2,
    order=order_newest_first,
    sizes=lambda _policy, _properties: Sizes(target=TARGET, min=TARGET // 2, max=2 * TARGET),
    layout=lambda _policy: OutputLayout(keep_spec=True, row_order=RowOrder.INPUT),
    delete_thresholds=delete_thresholds.of_policy,
    explain=explain_age,
)


def old_and_new() -> TableView:
    """Four old files, two, one, and one new file; the first partition makes a group of three and a rest of one."""
    partitions = [PARTITIONS[0]] * 4 + [PARTITIONS[1]] * 2 + [PARTITIONS[2]] + [PARTITIONS[0]]
    rows = inventories.files([TARGET] * 8, partitions=partitions, sequence=[*range(1, 8), OLD + 1], row_groups=1)
    return inventories.view(rows, sorts_rows=True)


def planned(view: TableView, policy: Policy | None = None) -> Plan:
    request = plan_request.with_strategy(view, policy or Policy(), OLD_FILES)
    return build.build_request(request, plan_id="toy", now_ms=0)


def test_a_strategy_decides_about_candidates_groups_and_order() -> None:
    plan = planned(old_and_new())
    assert [(group.partition, group.files) for group in plan.groups] == [(PARTITIONS[0], 3), (PARTITIONS[1], 2)]
    assert {group.reason for group in plan.groups} == {GroupReason.NOT_OPTIMAL}
    assert [(entry.reason, entry.files, entry.sentence) for entry in plan.left_out] == [
        (LeftOutReason.TOO_FEW_FILES, 2, "2 files (195.3 KiB) have no company"),
        (LeftOutReason.NO_GAIN, 1, "1 file (97.7 KiB) came lately"),
    ]


def test_a_strategy_decides_about_the_output_layout() -> None:
    plan = planned(old_and_new())
    assert plan.sizes.target == TARGET
    assert plan.layout == OutputLayout(keep_spec=True, row_order=RowOrder.INPUT)
    assert all(group.copying is not Way.SORTED for group in plan.groups)
    assert Plan.model_validate_json(plan.model_dump_json()) == plan


def test_budgets_cut_in_the_strategys_order_and_keep_a_short_group_that_gains() -> None:
    assert [group.files for group in planned(old_and_new(), Policy(max_files_to_rewrite=4)).groups] == [3]
    assert [group.files for group in planned(old_and_new(), Policy(max_files_to_rewrite=2)).groups] == [2]


def test_a_second_plan_of_a_strategy_finds_nothing() -> None:
    view = old_and_new()
    after = perform(planned(view), view, Data())
    assert planned(after).empty


def test_sizes_that_a_strategy_rejects_are_a_wrong_setting() -> None:
    def no_sizes(_policy: Policy, _properties: dict[str, str]) -> Sizes:
        raise ValueError("there are none")

    strategy = replace(OLD_FILES, sizes=no_sizes)
    with pytest.raises(errors.ConfigError, match=r"shop\.events cannot be used: there are none"):
        plan_request.with_strategy(old_and_new(), Policy(), strategy)


def test_every_strategy_of_the_policy_is_registered_once() -> None:
    assert set(registry.STRATEGIES) == set(Strategy)
    assert len({id(strategy) for strategy in registry.STRATEGIES.values()}) == len(Strategy)


@pytest.mark.parametrize("strategy", list(Strategy))
def test_strategies_follow_the_policy_in_their_layout(strategy: Strategy) -> None:
    for keep_spec in (False, True):
        policy = Policy(strategy=strategy, keep_spec=keep_spec)
        assert registry.choose(policy).layout(policy) == OutputLayout(keep_spec=keep_spec, row_order=RowOrder.TABLE)


def test_rewrite_all_drops_the_filters_of_a_strategy_and_nothing_else() -> None:
    strategy = registry.choose(Policy(strategy=Strategy.FULL, rewrite_all=True))
    changed = {name for name in strategy.__slots__ if getattr(strategy, name) is not getattr(full.STRATEGY, name)}
    assert changed == {"choose", "judge", "gains"}
    assert strategy == rewrite_all.of(full.STRATEGY)


@pytest.mark.parametrize("keep_spec", [False, True])
def test_a_plan_file_from_before_layouts_keeps_the_spec_of_its_policy(keep_spec: bool) -> None:
    view = inventories.view(inventories.files([TARGET] * 9))
    plan = build.build(view, Policy(keep_spec=keep_spec), plan_id="p", now_ms=0)
    stored = json.loads(plan.model_dump_json())
    del stored["layout"]
    assert Plan.model_validate_json(json.dumps(stored)) == plan
