"""The groups of a plan: the bins worth rewriting in the strategy's order, cut by the budgets. A decision comes in; the
groups and their files in plan order go out. Only files of chosen groups are sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.policies import JobOrder
from iceberg_compaction.plan import output_counts, packing
from iceberg_compaction.plan.costs import group_costs
from iceberg_compaction.plan.slice_sums import sums

if TYPE_CHECKING:
    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.decide_bins import Decision
    from iceberg_compaction.plan.packing import Packing
    from iceberg_compaction.plan.plan_request import PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The groups of a plan. All arrays but `positions` have one item for each."""

    positions: NDArray[np.int64]  # of the candidates: group after group, each in reading order
    bins: NDArray[np.int64]  # the bin that the group is, or a beginning of
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]
    outputs: NDArray[np.int64]
    over_budget: tuple[int, int]  # files and bytes that the budgets cut off


def select(decision: Decision, request: PlanRequest) -> Selection:
    """The groups, sorted and cut. The group in which a budget ends is shortened, as Iceberg does, so that a budget
    smaller than the first group still makes progress; it is dropped if it gains nothing any more."""
    packed, bins, sizes = decision.packing, decision.packing.bins, request.sizes
    kept = request.strategy.order(packed, np.flatnonzero(decision.verdict.kept), request)
    if decision.costs is not None and request.policy.rewrite_job_order is JobOrder.NONE:
        kept = kept[np.argsort(-decision.costs.gain_per_cost()[kept], kind="stable")]  # most for the money first
    kept = kept[_failed_last(packed, kept, request.view.failed)]
    reached, is_cut = _reached(decision, kept, request)
    positions = _positions(packed, reached)
    first = np.cumsum(bins.count[reached]) - bins.count[reached]
    if is_cut:
        start = int(first[-1])
        spent = 0.0 if decision.costs is None else float(decision.costs.cost[reached[:-1]].sum())
        length = _shortened(packed, positions, start, request, spent)
        positions = positions[: start + length]
        reached, first = (reached, first) if length else (reached[:-1], first[:-1])
    files = packed.files
    size = files.bytes[positions]
    count, total = np.diff(np.append(first, len(positions))), sums(size, first)
    return Selection(
        positions=positions,
        bins=reached,
        first=first,
        count=count,
        bytes=total,
        below=sums(size < sizes.min, first),
        above=sums(files.large(sizes)[positions], first),
        outputs=output_counts.output_counts(sums(files.live[positions], first), sizes),
        over_budget=(int(bins.count[kept].sum() - len(positions)), int(bins.bytes[kept].sum() - total.sum())),
    )


def _failed_last(packed: Packing, bins: NDArray[np.int64], failed: pa.Int64Array | None) -> NDArray[np.int64]:
    """Positions that put bins last that runs failed at, and of them the latest at the very end; before the budgets cut,
    so that such a bin does not use them up time and again."""
    rank = np.zeros(len(packed.bins), np.int64)
    if failed is not None:
        np.maximum.at(rank, packed.bin_of, failed.to_numpy()[packed.files.rows])
    return np.argsort(rank[bins], kind="stable")


def _reached(decision: Decision, kept: NDArray[np.int64], request: PlanRequest) -> tuple[NDArray[np.int64], bool]:
    """The groups that the budgets reach, and whether they end within the last of them. A group that is sorted as a
    whole cannot be shortened: it waits, and smaller ones behind it do not wait with it."""
    if request.rows is None:
        whole = _whole_groups(decision, kept, request)
        return kept[: whole + 1], whole < len(kept)
    bins, policy = decision.packing.bins, request.policy
    needs = np.stack([bins.count[kept], bins.bytes[kept], np.zeros(len(kept))]).astype(np.float64)
    if decision.costs is not None:
        needs[2] = decision.costs.cost[kept]
    limits = (policy.max_files_to_rewrite, policy.max_bytes_to_rewrite, request.budget)
    left = np.array([np.inf if limit is None else float(limit) for limit in limits])
    fits = np.zeros(len(kept), np.bool_)
    for number in range(len(kept)):
        fits[number] = bool((needs[:, number] <= left).all())
        left = left - needs[:, number] * fits[number]
    return kept[fits], False


def _whole_groups(decision: Decision, kept: NDArray[np.int64], request: PlanRequest) -> int:
    """The number of groups that fit into the budgets as a whole."""
    policy, bins = request.policy, decision.packing.bins
    fits = np.ones(len(kept), np.bool_)
    if policy.max_files_to_rewrite is not None:
        fits &= np.cumsum(bins.count[kept]) <= policy.max_files_to_rewrite
    if policy.max_bytes_to_rewrite is not None:
        fits &= np.cumsum(bins.bytes[kept]) <= policy.max_bytes_to_rewrite
    if request.budget is not None and decision.costs is not None:
        fits &= np.cumsum(decision.costs.cost[kept]) <= request.budget
    return len(fits) if fits.all() else int(np.argmin(fits))


def _positions(packed: Packing, bins: NDArray[np.int64]) -> NDArray[np.int64]:
    """The files of bins, bin after bin in the order given, each in reading order."""
    rank = np.full(len(packed.bins), -1)
    rank[bins] = np.arange(len(bins))
    ranks = rank[packed.bin_of]
    positions = np.flatnonzero(ranks >= 0)
    return packed.order.sort(positions, ranks[positions])


def _shortened(packed: Packing, positions: NDArray[np.int64], start: int, request: PlanRequest, spent: float) -> int:
    """The number of files that the budgets leave of the last group, which begins at `start`; 0 if they gain nothing.
    `spent`: dollars for the groups before it."""
    policy, files = request.policy, packed.files
    size = files.bytes[positions[start:]]
    length = len(size)
    if policy.max_files_to_rewrite is not None:
        length = min(length, policy.max_files_to_rewrite - start)
    if policy.max_bytes_to_rewrite is not None:
        rest = policy.max_bytes_to_rewrite - int(files.bytes[positions[:start]].sum())
        length = min(length, int(np.searchsorted(np.cumsum(size), rest, side="right")))
    if request.budget is not None:
        length = _affordable(files, positions[start : start + length], request, request.budget - spent)
    if not length:
        return 0
    part = positions[start : start + length]
    if not request.strategy.gains(packing.measure_one(files, part, request.sizes)).all():
        return 0
    if request.strategy.weighs:
        estimate = group_costs.of_slices(files, part, np.zeros(1, np.int64), request)
        return length if estimate.saving[0] > estimate.cost[0] else 0
    return length


def _affordable(files: CandidateFiles, positions: NDArray[np.int64], request: PlanRequest, dollars: float) -> int:
    """The number of files from the first on whose rewrite costs at most so much."""
    low, high = 0, len(positions)  # `low` files are known to be cheap enough
    while low < high:
        middle = (low + high + 1) // 2
        estimate = group_costs.of_slices(files, positions[:middle], np.zeros(1, np.int64), request)
        low, high = (middle, high) if estimate.cost[0] <= dollars else (low, middle - 1)
    return low
