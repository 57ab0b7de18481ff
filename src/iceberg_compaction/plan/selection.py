"""Which of the groups worth rewriting are rewritten, and in which order: rewrite-job-order sorts them, then
max-files-to-rewrite cuts. Bins and a verdict come in; the chosen bins in plan order go out, and what was cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import assert_never

from iceberg_compaction.model.policy import JobOrder
from iceberg_compaction.plan import packing, verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.plan import Reason
    from iceberg_compaction.model.policy import Policy, Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The groups of a plan in the order of work, and the files that the budget cut off."""

    bins: packing.Bins
    reasons: list[Reason]
    over_budget: NDArray[np.int64]  # positions in the files of the packed bins


def select(bins: packing.Bins, decided: verdict.Verdict, policy: Policy, sizes: Sizes) -> Selection:
    """The rewritten bins, sorted and cut. The group in which the budget ends is shortened, as Iceberg does, so that a
    budget smaller than the first group still makes progress; it is dropped if nothing would be gained that way."""
    reason_of: NDArray[np.object_] = np.full(len(bins), None, object)
    for reason, mask in decided.rewritten.items():
        reason_of[mask] = reason
    kept = np.flatnonzero(reason_of.astype(bool))
    kept = kept[_order(bins.bytes[kept], bins.count[kept], policy.rewrite_job_order)]
    counts, all_counts = _within(bins.count[kept], policy.max_files_to_rewrite), bins.count[kept]
    positions = _ranges(bins.first[kept], counts)
    chosen = packing.measure(bins.files.take(positions), _starts(counts), sizes)
    shortened = len(counts) and counts[-1] < all_counts[len(counts) - 1]
    if shortened and not policy.rewrite_all and not verdict.gains(chosen)[-1]:
        counts = counts[:-1]
        positions = _ranges(bins.first[kept], counts)
        chosen = packing.measure(bins.files.take(positions), _starts(counts), sizes)
    cut = np.setdiff1d(_ranges(bins.first[kept], all_counts), positions, assume_unique=True)
    return Selection(bins=chosen, reasons=reason_of[kept[: len(chosen)]].tolist(), over_budget=cut)


def _order(size: NDArray[np.int64], count: NDArray[np.int64], order: JobOrder) -> NDArray[np.int64]:
    by: NDArray[np.int64]
    match order:
        case JobOrder.NONE:
            return np.arange(len(size))
        case JobOrder.BYTES_ASC:
            by = size
        case JobOrder.BYTES_DESC:
            by = -size
        case JobOrder.FILES_ASC:
            by = count
        case JobOrder.FILES_DESC:
            by = -count
        case _:
            assert_never(order)
    return np.argsort(by, kind="stable")


def _within(counts: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """File counts of the groups that a budget of `most` files reaches; the last one may be shortened."""
    if most is None:
        return counts
    left = most - (np.cumsum(counts) - counts)
    reached: NDArray[np.int64] = np.minimum(counts, left)[left > 0]
    return reached


def _starts(counts: NDArray[np.int64]) -> NDArray[np.int64]:
    starts: NDArray[np.int64] = np.cumsum(counts) - counts
    return starts


def _ranges(first: NDArray[np.int64], counts: NDArray[np.int64]) -> NDArray[np.int64]:
    """The numbers first, first+1, ... of every range, one range after the other."""
    ranges: NDArray[Any] = np.repeat(first[: len(counts)] - _starts(counts), counts) + np.arange(counts.sum())
    return ranges
