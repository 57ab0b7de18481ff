"""Option `rewrite-all`: a strategy rewrites every selected file, without any filter for files or groups, as in Iceberg.
It has no fixed point: each run rewrites everything."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.rewrite_plan import GroupReason
from iceberg_compaction.plan.strategies import rewrite_strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, RewriteStrategy, Verdict


def choose(files: CandidateFiles, _request: PlanRequest) -> Choice:
    return rewrite_strategy.Choice(candidates=np.ones(len(files.rows), np.bool_), left_out={})


def judge(bins: Bins, _request: PlanRequest) -> Verdict:
    return rewrite_strategy.Verdict(rewritten={GroupReason.REWRITE_ALL: bins.count > 0}, left_out={})


def gains(bins: Bins) -> NDArray[np.bool_]:
    return bins.count > 0


def of(strategy: RewriteStrategy) -> RewriteStrategy:
    """The strategy without its filters; its grouping, order and output layout stay."""
    return replace(strategy, choose=choose, judge=judge, gains=gains, weighs=False, adapt=None)
