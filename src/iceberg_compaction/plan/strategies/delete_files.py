"""Strategy `delete-files`: gets rid of deletes that cost readers too much, in the cheapest way for each partition.

Candidates: delete-heavy files, that is data files with at least delete-file-threshold delete files or with at least
delete-ratio-threshold of their rows deleted; by default every file that a delete applies to. In a partition with such
files, deletes are applied by a rewrite, merged, converted or left, see `choose_ways`. Where they are applied, every
group of candidates is rewritten, even a single file. Without facts about the other ways, they are applied everywhere.
Fixed point: no delete that existed when the run was planned applies to the files that it writes. Where deletes are
merged or converted, each data file has one delete file at most, and to apply it would cost more than it saves.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals, policies
from iceberg_compaction.model.policies import DeleteAction
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
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, RewriteStrategy, Verdict


def choose(files: CandidateFiles, _request: PlanRequest) -> Choice:
    return rewrite_strategy.Choice(
        candidates=files.delete_heavy, left_out={LeftOutReason.FEW_DELETES: ~files.delete_heavy}
    )


def adapt(files: CandidateFiles, request: PlanRequest) -> RewriteStrategy:
    """The strategy with the cheapest way for each partition, where the view knows of others than a rewrite."""
    ways = request.view.delete_ways
    if ways is None or not policies.chooses_deletes(request.policy):
        return replace(STRATEGY, adapt=None)
    from iceberg_compaction.plan.costs import delete_costs  # most plans compare no ways
    from iceberg_compaction.plan.strategies import choose_ways

    chosen = choose_ways.choose(delete_costs.of_partitions(files, ways, request), request)
    return replace(STRATEGY, choose=partial(choose_ways.choose_files, chosen), adapt=None, ways=chosen)


def judge(bins: Bins, _request: PlanRequest) -> Verdict:
    return rewrite_strategy.Verdict(rewritten={GroupReason.DELETES: bins.count > 0}, left_out={})


def gains(bins: Bins) -> NDArray[np.bool_]:
    return bins.count > 0


def thresholds(policy: Policy) -> DeleteThresholds:
    """One delete file is enough, unless the policy sets a threshold."""
    by_default = policy.delete_file_threshold is None and policy.delete_ratio_threshold is None
    resolved = delete_thresholds.of_policy(policy)
    return replace(resolved, files=1) if by_default else resolved


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    if reason is LeftOutReason.DELETES_EXCHANGED:
        get = plurals.form(count, "gets", "get")
        return f"{get} fewer delete files, or others that are cheaper to read, instead of a rewrite"
    if reason is LeftOutReason.DELETES_STAY:
        keep = plurals.form(count, "keeps its deletes", "keep their deletes")
        reasons = {DeleteAction.MERGE: "there is nothing to merge", DeleteAction.CONVERT: "there is nothing to convert"}
        return f"{keep}: {reasons.get(request.policy.delete_action, 'nothing else costs less')}"
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
    adapt=adapt,
)
