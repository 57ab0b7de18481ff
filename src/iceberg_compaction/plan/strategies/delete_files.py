"""Strategy `delete-files`: rewrites data files whose deletes cost readers too much, and so removes the deletes.

Candidates: delete-heavy files, that is data files with at least delete-file-threshold delete files or with at least
delete-ratio-threshold of their rows deleted; by default every file that a delete applies to. Every group of them is
rewritten, even a single file.
Fixed point: no delete that existed when the run was planned applies to the files that it writes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals, policies
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import packing
from iceberg_compaction.plan.strategies import by_policy, delete_thresholds, rewrite_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.delete_thresholds import DeleteThresholds
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict


def choose(files: CandidateFiles, _request: PlanRequest) -> Choice:
    return rewrite_strategy.Choice(
        candidates=files.delete_heavy, left_out={LeftOutReason.FEW_DELETES: ~files.delete_heavy}
    )


def judge(bins: Bins, _request: PlanRequest) -> Verdict:
    return rewrite_strategy.Verdict(rewritten={GroupReason.DELETES: bins.count > 0}, left_out={})


def gains(bins: Bins) -> NDArray[np.bool_]:
    return bins.count > 0


def thresholds(policy: Policy) -> DeleteThresholds:
    """One delete file is enough, unless the policy sets a threshold."""
    by_default = policy.delete_file_threshold is None and policy.delete_ratio_threshold is None
    resolved = delete_thresholds.of_policy(policy)
    return replace(resolved, files=1) if by_default else resolved


def explain(_reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    have, resolved = plurals.form(count, "has", "have"), thresholds(request.policy)
    if resolved.files == 1:
        return f"{have} no deletes"
    share = f"less than {resolved.ratio:.0%} of rows deleted"
    return (
        f"{have} {share}" if resolved.files is None else f"{have} fewer than {resolved.files} delete files and {share}"
    )


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=choose,
    group=packing.pack,
    judge=judge,
    gains=gains,
    order=by_policy.order,
    sizes=policies.resolve_sizes,
    layout=by_policy.layout,
    delete_thresholds=thresholds,
    explain=explain,
)
