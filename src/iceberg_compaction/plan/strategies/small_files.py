"""Strategy `small-files`: rewrites only files of a wrong size.

Candidates: files below the minimum or above the maximum size, and delete-heavy files. A group of them is rewritten if
it has at least min-input-files, or more than one target of bytes, or a file to split, and if fewer files come out than
go in; or if it has a delete-heavy file.
Fixed point: a rewrite leaves at most one file below the minimum per partition, which is no group; see
docs/reference/strategies.md for the conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import policies
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import packing, respec
from iceberg_compaction.plan.strategies import by_policy, delete_thresholds, group_filter, rewrite_strategy

if TYPE_CHECKING:
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict


def choose(files: CandidateFiles, request: PlanRequest) -> Choice:
    candidates = files.outside(request.sizes) | files.delete_heavy
    return rewrite_strategy.Choice(candidates=candidates, left_out={LeftOutReason.WELL_SIZED: ~candidates})


def group(files: CandidateFiles, request: PlanRequest) -> Packing:
    return packing.pack(respec.with_neighbours(files, request), request)


def judge(bins: Bins, request: PlanRequest) -> Verdict:
    masks = group_filter.SizeMasks(
        well_sized=np.zeros(len(bins), np.bool_),  # every candidate has a wrong size, or is delete-heavy
        enough=group_filter.enough(bins, request),
        gains=group_filter.gains(bins),
    )
    return group_filter.judge(masks, bins, request, merged=GroupReason.SMALL_FILES)


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=choose,
    group=group,
    judge=judge,
    gains=group_filter.gains_or_deletes,
    order=by_policy.order,
    sizes=policies.resolve_sizes,
    layout=by_policy.layout,
    delete_thresholds=delete_thresholds.of_policy,
    explain=group_filter.explain,
)
