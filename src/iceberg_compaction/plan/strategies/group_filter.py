"""The decision that strategies by size share: Iceberg's group filter, and the rule that a rewrite must gain something.
Bins and a policy come in, masks over the bins go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.model import byte_size, plurals
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan.strategies import rewrite_strategy

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.plan.packing import Bins
    from iceberg_compaction.plan.plan_request import PlanRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SizeMasks:
    """Bins by their sizes. A bin is rewritten if it is not well sized, is enough, and gains."""

    well_sized: NDArray[np.bool_]
    enough: NDArray[np.bool_]
    gains: NDArray[np.bool_]


def enough(bins: Bins, request: PlanRequest) -> NDArray[np.bool_]:
    """Iceberg's group filter: enough files, or enough content, or a file to split."""
    several = bins.count >= 2
    files = several & (bins.count >= request.policy.min_input_files)
    content = several & (bins.bytes > request.enough_bytes)
    return files | content | (bins.above > 0)


def gains(bins: Bins) -> NDArray[np.bool_]:
    """The mask of bins that become fewer files, or have one to split. Iceberg lacks this rule, and so a fixed point."""
    return (bins.outputs < bins.count) | (bins.above > 0)


def gains_or_deletes(bins: Bins) -> NDArray[np.bool_]:
    """The same, and bins with a delete-heavy file."""
    return gains(bins) | (bins.delete_heavy > 0)


def judge(masks: SizeMasks, bins: Bins, request: PlanRequest, *, merged: GroupReason) -> rewrite_strategy.Verdict:
    """The verdict of a strategy that calls the merging of files `merged`. A delete-heavy file is a reason of its own,
    as in Iceberg; it is the reason given where there are not enough small files."""
    delete_heavy = bins.delete_heavy > 0
    open_bins = ~masks.well_sized & (bins.count > 0)
    by_size = open_bins & masks.enough & masks.gains
    splits = by_size & (bins.above > 0) & (bins.below < 2)
    merges = by_size & ~splits & ((bins.below >= request.policy.min_input_files) | ~delete_heavy)
    return rewrite_strategy.Verdict(
        rewritten={
            merged: merges,
            GroupReason.LARGE_FILES: splits,
            GroupReason.DELETES: delete_heavy & ~splits & ~merges,
        },
        left_out={
            LeftOutReason.WELL_SIZED: masks.well_sized & ~delete_heavy,
            LeftOutReason.TOO_FEW_FILES: open_bins & ~masks.enough & ~delete_heavy,
            LeftOutReason.NO_GAIN: open_bins & masks.enough & ~by_size & ~delete_heavy,
        },
    )


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    """As `RewriteStrategy.explain`, for the reasons above."""
    be, sizes = plurals.form(count, "is", "are"), request.sizes
    if reason is LeftOutReason.NO_GAIN:
        return "would become as many files again"
    if reason is LeftOutReason.TOO_FEW_FILES:
        few, target = max(2, request.policy.min_input_files), byte_size.format_size(request.enough_bytes)
        if count >= few:
            return f"{be} too few in each partition: no group of {few}, nor more than {target} together"
        return f"{be} too few: no group of {few} in one partition, nor more than {target} together"
    low, high = byte_size.format_size(sizes.min), byte_size.format_size(sizes.max)
    if reason is LeftOutReason.REST:
        return f"{be} smaller than {low}, but at most one in a group: a rewrite would leave such a rest again"
    if reason is LeftOutReason.INDIVISIBLE:
        return f"{be} larger than {high}, but of a single row, which cannot be divided"
    return f"{be} well sized for a range of {low} to {high}"
