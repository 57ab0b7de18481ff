"""Strategy `adaptive`: chooses a strategy for each partition by the rules of `adaptive_rules`, from its health, its
write pattern and past results, and says which and why for each group. Whatever the rule, a group must pay, see
plan.costs.worth.

Candidates, grouping and verdict are those of the chosen strategy, in its partitions.
Fixed point: after a rewrite at most one small file and no delete is left in a partition; no rule chooses a strategy
that rewrites such a partition. A partition that did not pay is the same next time.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import plurals, policies
from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan import packing, partition_state, respec
from iceberg_compaction.plan.strategies import (
    adaptive_rules,
    by_policy,
    cost_optimized,
    delete_files,
    delete_thresholds,
    full,
    group_filter,
    rewrite_strategy,
    small_files,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import TypeVar

    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, RewriteStrategy, Verdict

    Assigned = NDArray[np.int64]  # positions in _CHOICES, by packing key
    Reason = TypeVar("Reason")
    Masks = dict[Reason, NDArray[np.bool_]]

# The strategies that rules may choose, by name. A rule's strategy must be among them.
_CHOICES: Mapping[Strategy, RewriteStrategy] = {
    Strategy.SMALL_FILES: small_files.STRATEGY,
    Strategy.FULL: full.STRATEGY,
    Strategy.DELETE_FILES: delete_files.STRATEGY,
    Strategy.COST_OPTIMIZED: cost_optimized.STRATEGY,
}
_NAMES = tuple(_CHOICES)


def adapt(files: CandidateFiles, request: PlanRequest) -> RewriteStrategy:
    """The strategy with its choices for the partitions of these files."""
    state = partition_state.measure(files, request)
    rule = adaptive_rules.assign(state, request)
    assigned = np.array([_NAMES.index(each.strategy) for each in adaptive_rules.RULES])[rule]
    choices = rewrite_strategy.Choices(
        rule=rule,
        sentences=tuple(each.sentence for each in adaptive_rules.RULES),
        gain_days=adaptive_rules.gain_days(rule, state, request),
    )
    return replace(
        STRATEGY,
        choose=partial(choose, assigned),
        group=partial(group, assigned),
        judge=partial(judge, assigned),
        adapt=None,
        choices=choices,
    )


def choose(assigned: Assigned, files: CandidateFiles, request: PlanRequest) -> Choice:
    files = _with_own_deletes(assigned, files, request)
    candidates = np.zeros(len(files.rows), np.bool_)
    left_out: Masks[LeftOutReason] = {}
    unpaid = (0.0, 0.0)
    for number, name in enumerate(_NAMES):
        mine = assigned[files.packing_key] == number
        if not mine.any():
            continue
        choice = _CHOICES[name].choose(files.take(mine), request)
        candidates[mine] = choice.candidates
        unpaid = (unpaid[0] + choice.unpaid[0], unpaid[1] + choice.unpaid[1])
        for reason, mask in choice.left_out.items():
            left_out.setdefault(reason, np.zeros(len(mine), np.bool_))[mine] |= mask
    return rewrite_strategy.Choice(candidates=candidates, left_out=left_out, unpaid=unpaid)


def group(assigned: Assigned, files: CandidateFiles, request: PlanRequest) -> Packing:
    files = _with_own_deletes(assigned, files, request)
    pooled = files.packing_key != files.partition
    if not (assigned[files.packing_key[pooled]] == _NAMES.index(Strategy.DELETE_FILES)).any():
        files = respec.with_neighbours(files, request)
    whole = assigned[files.packing_key] == _NAMES.index(Strategy.FULL)
    return packing.pack(files, request, first=~whole | files.outside(request.sizes) | files.delete_heavy)


def judge(assigned: Assigned, bins: Bins, request: PlanRequest) -> Verdict:
    verdicts = [_CHOICES[name].judge(bins, request) for name in _NAMES]
    mine = [assigned[bins.packing_key] == number for number in range(len(_NAMES))]
    return rewrite_strategy.Verdict(
        rewritten=_merged([verdict.rewritten for verdict in verdicts], mine),
        left_out=_merged([verdict.left_out for verdict in verdicts], mine),
    )


def _merged(parts: list[Mapping[Reason, NDArray[np.bool_]]], mine: list[NDArray[np.bool_]]) -> Masks[Reason]:
    """The masks of several strategies, each for its own bins, by reason."""
    merged: Masks[Reason] = {}
    for masks, owned in zip(parts, mine, strict=True):
        for reason, mask in masks.items():
            merged[reason] = merged.get(reason, np.zeros(len(mask), np.bool_)) | (mask & owned)
    return merged


def _with_own_deletes(assigned: Assigned, files: CandidateFiles, request: PlanRequest) -> CandidateFiles:
    """The files, delete-heavy by the thresholds of the strategy of their partition."""
    heavy = np.zeros(len(files.rows), np.bool_)
    for number, name in enumerate(_NAMES):
        mine = assigned[files.packing_key] == number
        thresholds = _CHOICES[name].delete_thresholds(request.policy)
        heavy[mine] = delete_thresholds.delete_heavy(request.view, thresholds)[files.rows[mine]]
    return replace(files, delete_heavy=heavy)


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    if reason is LeftOutReason.FEW_DELETES:
        return delete_files.explain(reason, count, request)
    if reason is LeftOutReason.TOO_FEW_FILES:
        return f"{plurals.form(count, 'is', 'are')} too few in each partition: there is nothing to merge"
    return cost_optimized.explain(reason, count, request)


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=lambda files, request: adapt(files, request).choose(files, request),
    group=lambda files, request: adapt(files, request).group(files, request),
    judge=cost_optimized.judge,
    gains=group_filter.gains_or_deletes,
    order=by_policy.order,
    sizes=policies.resolve_sizes,
    layout=by_policy.layout,
    delete_thresholds=delete_files.thresholds,
    explain=explain,
    weighs=True,
    adapt=adapt,
)
