"""Costs and savings in plans, the strategies that decide by them, and budgets."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import inventories
from tests.factories.examples import examples
from tests.factories.simulated_writer import Data, perform

from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan, from_json
from iceberg_compaction.plan import build
from iceberg_compaction.plan.strategies import adaptive_rules

if TYPE_CHECKING:
    from iceberg_compaction.model.table_view import TableView

MB = 10**6
DAY = 86_400_000
NOW = 100 * DAY
WEIGHING = (Strategy.COST_OPTIMIZED, Strategy.ADAPTIVE)


def planned(view: TableView, **policy: Any) -> Plan | EmptyPlan:
    given = {"strategy": Strategy.COST_OPTIMIZED, "target_file_size_bytes": 512 * MB, **policy}
    return build.build(view, Policy(**given), plan_id="p", now_ms=NOW)


def make_view(sizes: list[int], *, deletes: list[int] | None = None, ages: list[float] | None = None) -> TableView:
    """Files of these sizes, with so many delete files and added so many days ago."""
    view = inventories.view(inventories.files(sizes, row_groups=1))
    if deletes is not None:
        records = view.files["record_count"].to_numpy()
        deleted = np.where(np.array(deletes) > 0, records // 10, 0)
        view = replace(view, delete_files=pa.array(deletes), deleted_rows=pa.array(deleted))
    if ages is not None:
        times = tuple(int(NOW - age * DAY) for age in ages)
        view = replace(view, commits=inventories.commits(times))
    return view


def test_the_figures_of_a_plan_are_those_of_its_groups_and_follow_the_documented_formulas() -> None:
    plan = planned(make_view([MB] * 40), scans_per_day=10)
    (group,) = plan.groups
    assert (group.reads, group.writes) == (2 * 40 + 2 + 1, 1 + 3 + 1)  # 40 MB: two ranges more, four parts
    assert group.core_seconds == pytest.approx(40 * MB / 40e6 + 40 * 0.01 + 0.5)
    assert group.spared_requests == 39 + 39
    assert group.spared_seconds == pytest.approx(39 * 0.01 + 39 * 0.004)
    requests = 83 * 0.0004 / 1000 + 5 * 0.005 / 1000
    storage = 40 * MB / 1e9 * 0.023 * 5 / 30
    assert group.cost == pytest.approx(requests + group.core_seconds / 3600 * 0.05 + storage)
    each_scan = 78 * 0.0004 / 1000 + group.spared_seconds / 3600 * 0.05
    assert group.saving == pytest.approx(each_scan * 10 * 30)
    assert plan.cost.cost == pytest.approx(group.cost)
    assert "10 scans a day (declared)" in plan.cost.sentence
    assert from_json(plan.model_dump_json()) == plan


# Files, scans on a day, and what the strategy does with them.
DECISIONS = [
    ([MB] * 40, 24, 40, None),  # many small files that are read often
    ([MB] * 40, 0, 0, LeftOutReason.NOT_WORTH),  # never read
    ([MB] * 2, 24, 2, None),  # two are enough, if they pay
    ([300 * MB] * 2, 1, 0, LeftOutReason.NOT_WORTH),  # too many bytes for two requests
    ([MB] * 40 + [300 * MB], 24, 40, LeftOutReason.NOT_WORTH),  # the large one stays
    ([4000 * MB], 24, 0, LeftOutReason.NOT_SPLIT),
    ([500 * MB] * 4, 24, 0, LeftOutReason.WELL_SIZED),
    ([MB], 24, 0, LeftOutReason.TOO_FEW_FILES),
]


@pytest.mark.parametrize(("sizes", "scans", "files", "left"), DECISIONS)
def test_only_what_pays_is_rewritten(sizes: list[int], scans: float, files: int, left: LeftOutReason | None) -> None:
    plan = planned(make_view(sizes), scans_per_day=scans)
    assert plan.input_files == files
    assert [each.reason for each in plan.left_out] == ([] if left is None else [left])
    for group in plan.groups:
        assert group.saving > group.cost


def test_what_does_not_pay_says_both_numbers() -> None:
    (left,) = planned(make_view([MB] * 40), scans_per_day=0.001).left_out
    assert "would cost about $" in left.sentence
    assert "and save about $" in left.sentence
    assert "in 30 days" in left.sentence


def test_dearer_requests_make_more_of_it_pay() -> None:
    view = make_view([100 * MB] * 6)
    assert planned(view, scans_per_day=2).empty
    assert not planned(view, scans_per_day=2, prices="api-cost-per-1000=1").empty


# Deletes, ages in days, earlier failures: the rule that decides.
RULES = [
    ([0] * 6, [20] * 6, False, "cold"),
    ([0] * 6, [1] * 6, False, "appended"),
    ([0] * 6, [1] * 6, True, "failed-before"),
    ([2] * 6, [20] * 5 + [1], False, "deleted-again"),
    ([2] * 6, [20] * 6, False, "deletes-alone"),
    ([2] * 5 + [0], [5] * 6, False, "otherwise"),
]


@pytest.mark.parametrize(("deletes", "ages", "failed", "rule"), RULES)
def test_adaptive_chooses_by_rules_and_says_why(deletes: list[int], ages: list[float], failed: bool, rule: str) -> None:
    view = make_view([MB] * 6, deletes=deletes, ages=ages)
    view = replace(view, failed=pa.array([0] * 5 + [1])) if failed else view
    plan = planned(view, strategy=Strategy.ADAPTIVE, scans_per_day=1000)
    (group,) = plan.groups
    (expected,) = [each for each in adaptive_rules.RULES if each.name == rule]
    assert group.choice == expected.sentence
    assert group.choice.startswith(expected.strategy.value)
    assert group.gain_days <= 30


def test_a_gain_that_deletes_undo_again_counts_for_half_the_time_they_took() -> None:
    plan = planned(make_view([MB] * 6, deletes=[2] * 6, ages=[4] * 5 + [1]), strategy="adaptive", scans_per_day=1000)
    assert plan.groups[0].gain_days == pytest.approx((5 * 4 + 1) / 6 / 2)


def test_the_page_on_strategies_has_every_rule() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "strategies.md").read_text()
    table = page[page.index("| Rule | Holds if") : page.index("Rewrites are no writes")]
    rows = [[cell.strip().strip("`") for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()[2:]]
    assert [(row[0], row[2]) for row in rows] == [(rule.name, rule.strategy.value) for rule in adaptive_rules.RULES]


def test_a_partition_that_only_compaction_has_touched_stays_cold() -> None:
    view = make_view([MB] * 6, ages=[20] * 5 + [1])
    assert view.commits is not None
    written = planned(view, strategy="adaptive")
    rewrites = view.commits.column_names.index("rewrites")
    commits = view.commits.set_column(rewrites, view.commits.field(rewrites), pa.array([False] * 5 + [True]))
    rewritten = planned(replace(view, commits=commits), strategy="adaptive")
    assert "rule appended" in written.groups[0].choice
    assert "rule cold" in rewritten.groups[0].choice


def test_a_new_delete_file_makes_its_partition_hot() -> None:
    rows = inventories.files([MB] * 7, content=[0] * 6 + [1], row_groups=1)
    times = tuple(int(NOW - age * DAY) for age in [20] * 6 + [1])
    view = inventories.view(
        rows,
        commits=inventories.commits(times),
        delete_files=pa.array([1] * 6 + [0]),
        deleted_rows=pa.array([100] * 6 + [0]),
    )
    plan = planned(view, strategy="adaptive", scans_per_day=1000)
    assert "rule deleted-again" in plan.groups[0].choice
    assert plan.groups[0].gain_days == pytest.approx(10)


SIZES = st.lists(
    st.tuples(st.integers(1, 800_000), st.sampled_from([1, 3, 30]), st.integers(0, 2), st.booleans()), max_size=6
)


@st.composite
def tables(draw: st.DrawFn) -> TableView:
    runs = draw(SIZES)
    files = [(size, f'{{"p": {part}}}', deleted) for size, count, part, deleted in runs for _ in range(count)]
    draw(st.randoms(use_true_random=False)).shuffle(files)
    rows = inventories.files([size for size, _, _ in files], partitions=[part for _, part, _ in files])
    met = np.array([int(deleted) for _, _, deleted in files], np.int64)
    deleted_rows = met * (rows["record_count"].to_numpy() // 3)
    ages = draw(st.sampled_from([0.5, 5, 20]))
    commits = inventories.commits((int(NOW - ages * DAY),) * len(files))
    return inventories.view(
        rows, delete_files=pa.array(met, pa.int64()), deleted_rows=pa.array(deleted_rows, pa.int64()), commits=commits
    )


@examples(40)
@given(view=tables(), strategy=st.sampled_from(WEIGHING), scans=st.sampled_from([0, 1, 24, 1e6]))
def test_a_second_plan_is_empty(view: TableView, strategy: Strategy, scans: float) -> None:
    policy = Policy(strategy=strategy, target_file_size_bytes=100_000, scans_per_day=scans)
    first = build.build(view, policy, plan_id="first", now_ms=NOW)
    assert first.input_files + sum(left.files for left in first.left_out) == view.files.num_rows
    assert all(group.saving > group.cost for group in first.groups)
    if isinstance(first, Plan):
        after = perform(first, view, Data(noise=0.0))
        second = build.build(after, policy, plan_id="second", now_ms=NOW)
        assert second.empty, second.sentence


@examples(40)
@given(
    view=tables(),
    strategy=st.sampled_from([Strategy.SMALL_FILES, Strategy.FULL, *WEIGHING]),
    budgets=st.tuples(st.floats(1e-6, 1e-3), st.floats(1e-6, 1e-3)).map(sorted),
)
def test_a_budget_is_never_passed_and_more_money_does_not_less(
    view: TableView, strategy: Strategy, budgets: list[float]
) -> None:
    policy = {"strategy": strategy, "target_file_size_bytes": 100_000, "scans_per_day": 1000}
    whole = planned(view, **policy)
    less, more = (planned(view, **policy, max_cost=budget) for budget in budgets)
    assert less.cost.cost <= budgets[0]
    assert more.cost.cost <= budgets[1]
    assert less.input_files <= more.input_files <= whole.input_files
    if more.input_files < whole.input_files:
        (left,) = [left for left in more.left_out if left.reason is LeftOutReason.OVER_BUDGET]
        assert left.files == whole.input_files - more.input_files
        assert "max-cost is" in left.sentence


def test_a_budget_goes_to_the_groups_that_save_most_for_it() -> None:
    sizes = [50 * MB] * 8 + [MB] * 8
    rows = inventories.files(sizes, partitions=['{"p": 1}'] * 8 + ['{"p": 2}'] * 8)
    whole = planned(inventories.view(rows), strategy="small-files")
    cheap = min(group.cost for group in whole.groups)
    plan = planned(inventories.view(rows), strategy="small-files", max_cost=cheap * 1.01)
    assert [group.partition for group in plan.groups] == ['{"p": 2}']
