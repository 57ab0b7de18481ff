"""The contract of a strategy, checked on many tables. A strategy comes in; AssertionError says which rule it breaks, on
which table. docs/reference/strategies.md states the rules."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.plan import build, candidates, plan_request
from iceberg_compaction.testing import toy_tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy

    Mask = NDArray[np.bool_]


def check_strategy(
    strategy: RewriteStrategy, policy: Policy | None = None, *, tables: int = 40, fixed_point: bool = True
) -> None:
    """Checks a strategy on so many tables. AssertionError: it breaks a rule. `policy`: the options that it is checked
    with; `fixed_point`: whether a second plan must be empty."""
    given = policy or Policy(target_file_size_bytes=toy_tables.TARGET)
    rows = None if strategy.rows_by is None else strategy.rows_by(toy_tables.SHAPE, given)
    for number in range(tables):
        view = toy_tables.make(number, "k" if rows is None else rows.measured)
        try:
            _check_answers(plan_request.with_strategy(view, given, strategy))
            plan = _check_plan(view, given, strategy)
            _check_budget(view, given, strategy)
            if fixed_point and isinstance(plan, Plan):
                again = _plan(toy_tables.performed(plan, view), given, strategy)
                assert again.empty, f"a second plan is not empty: {again.sentence}"
        except AssertionError as error:
            raise AssertionError(f"On table {number} of the suite: {error}.") from error


def _check_answers(request: PlanRequest) -> None:
    """Candidates, grouping and order, one after the other as planning asks for them."""
    strategy = request.strategy
    files, _ = candidates.data_files(request)
    choice = strategy.choose(files, request)
    _check_masks("choose", len(files.rows), [choice.candidates, *choice.left_out.values()])
    chosen = files.take(choice.candidates)
    packing = strategy.group(chosen, request)
    same = np.array_equal(np.sort(packing.files.rows), np.sort(chosen.rows))
    assert same, "group has other files than the candidates"
    keys = packing.bins.packing_key[packing.bin_of]
    assert np.array_equal(keys, packing.files.packing_key), "group has a bin with files of several partitions"
    verdict = strategy.judge(packing.bins, request)
    filled = packing.bins.count > 0
    masks = [*verdict.rewritten.values(), *verdict.left_out.values()]
    _check_masks("judge", int(filled.sum()), [mask[filled] for mask in masks])
    kept = np.flatnonzero(verdict.kept & filled)
    ordered = strategy.order(packing, kept, request)
    assert np.array_equal(np.sort(ordered), kept), "order adds, drops or repeats a bin"
    gains = strategy.gains(packing.bins)
    assert len(gains) == len(packing.bins), "gains has no answer for every bin"


def _check_masks(answer: str, count: int, masks: Sequence[Mask]) -> None:
    assert all(len(mask) == count for mask in masks), f"a mask of {answer} has not {count} items"
    times = sum((mask.astype(int) for mask in masks), np.zeros(count, int))
    wrong = int((times != 1).sum())
    assert not wrong, f"{answer} has {wrong} of {count} items in no mask, or in several"


def _check_plan(view: TableView, policy: Policy, strategy: RewriteStrategy) -> Plan | EmptyPlan:
    """A plan counts every file once, is the same each time, survives JSON, and has a reason in words."""
    plan = _plan(view, policy, strategy)
    counted = plan.input_files + sum(left.files for left in plan.left_out)
    assert counted == view.files.num_rows, f"{view.files.num_rows} files are counted as {counted}"
    assert plan == _plan(view, policy, strategy), "the same table and policy give another plan the second time"
    assert type(plan).model_validate_json(plan.model_dump_json()) == plan, "the plan does not survive JSON"
    for left in plan.left_out:
        is_sentence = left.sentence and "\n" not in left.sentence and not left.sentence.endswith(".")
        assert is_sentence, f"the words for {left.reason.value} are empty, several lines, or end with a full stop"
    return plan


def _check_budget(view: TableView, policy: Policy, strategy: RewriteStrategy) -> None:
    for most in (1, 3, 10):
        plan = _plan(view, policy.model_copy(update={"max_files_to_rewrite": most}), strategy)
        assert plan.input_files <= most, f"a budget of {most} files has {plan.input_files}"


def _plan(view: TableView, policy: Policy, strategy: RewriteStrategy) -> Plan | EmptyPlan:
    request = plan_request.with_strategy(view, policy, strategy)
    return build.build_request(request, plan_id="suite", now_ms=toy_tables.NOW_MS)
