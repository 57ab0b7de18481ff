"""Strategy `full`: rewrites whole partitions that are not laid out as well as they could be.

Candidates: all files of a partition, well sized or not, except files of one row that are not small (R53). A group is
left alone if it is well sized: no file above the maximum, at most one outside the range (the rest of a division), and
no delete-heavy file. Else the rules of `small-files` apply to all its files.
Fixed point: a rewrite leaves every group well sized; see docs/reference/strategies.md for the conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import policies
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import output_counts, packing, respec
from iceberg_compaction.plan.strategies import by_policy, delete_thresholds, group_filter, rewrite_strategy

if TYPE_CHECKING:
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict


def choose(files: CandidateFiles, request: PlanRequest) -> Choice:
    candidates = ~files.single | (files.bytes < request.sizes.min) | files.delete_heavy
    return rewrite_strategy.Choice(candidates=candidates, left_out={LeftOutReason.WELL_SIZED: ~candidates})


def group(files: CandidateFiles, request: PlanRequest) -> Packing:
    files = respec.with_neighbours(files, request)
    if request.policy.rewrite_all:  # every bin is rewritten, so the reading order is the best order
        return packing.pack(files, request)
    return packing.pack(files, request, first=files.outside(request.sizes) | files.delete_heavy)


def judge(bins: Bins, request: PlanRequest) -> Verdict:
    # Where a partition has several bins, rewriting one changes which files fill the others. So there the verdict must
    # not depend on the other files of a bin: files of a wrong size count alone, as the writer would join them, and the
    # partition as a whole is always enough.
    joined = (output_counts.file_counts(bins.below_bytes, request.sizes) < bins.below) | (bins.above > 0)
    masks = group_filter.SizeMasks(
        well_sized=(bins.above == 0) & (bins.below <= 1),
        enough=group_filter.enough(bins, request) | ~bins.alone,
        gains=np.where(bins.alone, group_filter.gains(bins), joined),
    )
    return group_filter.judge(masks, bins, request, merged=GroupReason.NOT_OPTIMAL)


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
