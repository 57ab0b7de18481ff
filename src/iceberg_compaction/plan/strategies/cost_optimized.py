"""Strategy `cost-optimized`: rewrites only what pays. A group is rewritten if it is expected to save its readers more
over the horizon than the rewrite costs, by the price file and the declared scans per day.

Candidates: files below the minimum size and files with deletes, each of which saves more than its share of the rewrite
costs. Large files are left whole: a split saves no reader a request. A group needs two files or a delete, whatever
min-input-files says; then its saving must exceed its cost. Groups come in the order of saving per cost.
Fixed point: a rewrite leaves at most one candidate per partition, and files without deletes. What did not pay does not
pay later either, while files, prices and scans are the same.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import byte_size, plurals, policies
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import packing, respec
from iceberg_compaction.plan.costs import group_costs
from iceberg_compaction.plan.strategies import by_policy, delete_files, group_filter, rewrite_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict


def choose(files: CandidateFiles, request: PlanRequest) -> Choice:
    wanted = (files.bytes < request.sizes.min) | files.delete_heavy
    estimates = group_costs.of_files(files, request)
    paying = estimates.saving > estimates.cost
    poor = wanted & ~paying
    large = files.large(request.sizes) & ~wanted
    return rewrite_strategy.Choice(
        candidates=wanted & paying,
        left_out={
            LeftOutReason.NOT_WORTH: poor,
            LeftOutReason.NOT_SPLIT: large,
            LeftOutReason.WELL_SIZED: ~wanted & ~large,
        },
        unpaid=(float(estimates.cost[poor].sum()), float(estimates.saving[poor].sum())),
    )


def group(files: CandidateFiles, request: PlanRequest) -> Packing:
    return packing.pack(respec.with_neighbours(files, request), request)


def judge(bins: Bins, request: PlanRequest) -> Verdict:
    few = replace(request, policy=request.policy.model_copy(update={"min_input_files": 2}))
    masks = group_filter.SizeMasks(
        well_sized=np.zeros(len(bins), np.bool_),
        enough=bins.count >= 2,
        gains=bins.outputs < bins.count,
    )
    return group_filter.judge(masks, bins, few, merged=GroupReason.SMALL_FILES)


def gains(bins: Bins) -> NDArray[np.bool_]:
    fewer: NDArray[np.bool_] = (bins.outputs < bins.count) | (bins.delete_heavy > 0)
    return fewer


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    be = plurals.form(count, "is", "are")
    if reason is LeftOutReason.NOT_SPLIT:
        return f"{be} larger than {byte_size.format_size(request.sizes.max)}, but a split saves readers nothing"
    if reason is LeftOutReason.TOO_FEW_FILES:
        return f"{be} alone in each partition: there is nothing to merge"
    return group_filter.explain(reason, count, request)


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=choose,
    group=group,
    judge=judge,
    gains=gains,
    order=by_policy.order,
    sizes=policies.resolve_sizes,
    layout=by_policy.layout,
    delete_thresholds=delete_files.thresholds,
    explain=explain,
    weighs=True,
)
