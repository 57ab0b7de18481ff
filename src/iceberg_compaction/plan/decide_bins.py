"""The decision about every bin of files: the part of planning that `build` and `quick_look` share. A request comes in;
out go the bins, the strategy's verdict about each, and the files that are left out."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan import candidates
from iceberg_compaction.plan.costs import group_costs, worth
from iceberg_compaction.plan.triggers import trigger_check

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.costs.cost_model import Estimates
    from iceberg_compaction.plan.packing import Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy, Verdict
    from iceberg_compaction.plan.triggers.trigger_check import TriggerCheck

    Tally = dict[LeftOutReason, tuple[int, int]]  # files and bytes left out, by reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Candidates in bins, the verdict about each bin, and the files left out so far."""

    request: PlanRequest  # its strategy has seen the files
    packing: Packing
    verdict: Verdict
    left_out: Tally
    costs: Estimates | None = None  # of the bins; None: they do not matter
    unpaid: tuple[float, float] = (0.0, 0.0)  # cost and saving of files that are not worth it, in dollars
    triggers: TriggerCheck | None = None  # None: the policy has none

    def words_of(self, reason: LeftOutReason) -> str:
        """The figures behind a reason, as the end of its sentence."""
        if reason is not LeftOutReason.NOT_WORTH or self.costs is None:
            return ""
        poor = self.verdict.left_out.get(reason)
        groups = "" if poor is None else worth.words(self.packing, self.costs, poor, self.request)
        return worth.words_of_files(self.unpaid, self.request) + groups


def decide(request: PlanRequest) -> Decision:
    files, left_out = _data_files(request)
    triggers = trigger_check.check(request)
    if triggers is not None:
        wanted = triggers.wanted[files.partition]
        left_out[LeftOutReason.NOT_TRIGGERED] = _tally(files.bytes[~wanted])
        files = files.take(wanted)
    if request.guard is not None and request.guard.declines:
        files = _without_small(files, left_out, request)
    request = replace(request, considered=files)
    if request.strategy.adapt is not None:
        request = _adapted(request, request.strategy.adapt(files, request))
    choice = request.strategy.choose(files, request)
    for reason, mask in choice.left_out.items():
        _add_files(left_out, reason, files.bytes[mask], request)
    packing = request.strategy.group(files.take(choice.candidates), request)
    verdict = request.strategy.judge(packing.bins, request)
    costs = None
    if request.strategy.weighs or request.budget is not None:
        costs = group_costs.of_bins(packing, request)
    if request.strategy.weighs and costs is not None:
        verdict = worth.keep(verdict, costs)
    for reason, mask in verdict.left_out.items():
        if mask.any():
            _add_files(left_out, reason, packing.files.bytes[mask[packing.bin_of]], request)
    return Decision(
        request=request,
        packing=packing,
        verdict=verdict,
        left_out=left_out,
        costs=costs,
        unpaid=choice.unpaid,
        triggers=triggers,
    )


def _adapted(request: PlanRequest, strategy: RewriteStrategy) -> PlanRequest:
    """The request with a strategy that has seen the files. Delete files that are merged or converted are paid first."""
    budget = request.budget
    if budget is not None and strategy.ways is not None:
        budget = max(0.0, budget - strategy.ways.cost)
    return replace(request, strategy=strategy, budget=budget)


def _without_small(
    files: candidates.CandidateFiles, left_out: Tally, request: PlanRequest
) -> candidates.CandidateFiles:
    """The files without those that could only be merged, which the read-side guard forbids."""
    stays = files.large(request.sizes) | files.delete_heavy
    small = ~stays & (files.bytes < request.sizes.min)
    left_out[LeftOutReason.READ_PARALLELISM] = _tally(files.bytes[small])
    _add_files(left_out, LeftOutReason.WELL_SIZED, files.bytes[~stays & ~small], request)
    return files.take(stays)


def _data_files(request: PlanRequest) -> tuple[candidates.CandidateFiles, Tally]:
    files, ruled_out = candidates.data_files(request)
    return files, {reason: _tally(sizes) for reason, sizes in ruled_out.items()}


def _add_files(left_out: Tally, reason: LeftOutReason, sizes: NDArray[np.int64], request: PlanRequest) -> None:
    """Files of these sizes. A group is well sized with one small file, and a large file of one row is as good as it
    gets; neither is said to have a size that it has not."""
    if reason is not LeftOutReason.WELL_SIZED:
        _add(left_out, reason, *_tally(sizes))
        return
    small, large = sizes < request.sizes.min, sizes > request.sizes.max
    guarded = np.zeros(len(sizes), np.bool_)
    if request.guard is not None:  # without the guard they would be small
        guarded = ~small & (sizes < request.guard.without.min)
    for each, mask in (
        (LeftOutReason.WELL_SIZED, ~small & ~large & ~guarded),
        (LeftOutReason.READ_PARALLELISM, guarded),
        (LeftOutReason.REST, small),
        (LeftOutReason.INDIVISIBLE, large),
    ):
        _add(left_out, each, *_tally(sizes[mask]))


def _tally(sizes: NDArray[np.int64]) -> tuple[int, int]:
    return len(sizes), int(sizes.sum())


def _add(left_out: Tally, reason: LeftOutReason, count: int, size: int) -> None:
    files, total = left_out.get(reason, (0, 0))
    left_out[reason] = (files + count, total + size)
