"""What is decided about each bin, and the part of the decision that both strategies share: Iceberg's group filter, and
that a rewrite must gain something. Bins and a policy come in, masks over the bins go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.rewrite_plan import LeftOutReason, Reason

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.plan.packing import Bins


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """Which bins are rewritten and why, and why the others are not. Every bin with files is in exactly one mask."""

    rewritten: dict[Reason, NDArray[np.bool_]]
    left_out: dict[LeftOutReason, NDArray[np.bool_]]

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The bins that are rewritten, for whatever reason."""
        kept: NDArray[np.bool_] = np.logical_or.reduce(list(self.rewritten.values()))
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Masks:
    """What a strategy says about the sizes in each bin: rewritten is what is not well sized, is enough, and gains."""

    well_sized: NDArray[np.bool_]
    enough: NDArray[np.bool_]
    gains: NDArray[np.bool_]


def enough(bins: Bins, policy: Policy, sizes: Sizes) -> NDArray[np.bool_]:
    """Iceberg's group filter: enough files, or enough content, or a file to split."""
    several = bins.count >= 2
    files = several & (bins.count >= policy.min_input_files)
    content = several & (bins.bytes > sizes.target)
    return files | content | (bins.above > 0)


def gains(bins: Bins) -> NDArray[np.bool_]:
    """Fewer files come out than go in, or one is split. Iceberg does not ask for it, and so lacks a fixed point."""
    return (bins.outputs < bins.count) | (bins.above > 0)


def judge(masks: Masks, bins: Bins, policy: Policy, *, merged: Reason) -> Verdict:
    """The verdict of a strategy that calls the merging of files `merged`. A worn file is a reason of its own, as in
    Iceberg; it is named where there are not enough small files."""
    worn = bins.worn > 0
    open_bins = ~masks.well_sized & (bins.count > 0)
    by_size = open_bins & masks.enough & masks.gains
    splits = by_size & (bins.above > 0) & (bins.below < 2)
    merges = by_size & ~splits & ((bins.below >= policy.min_input_files) | ~worn)
    return Verdict(
        rewritten={merged: merges, Reason.LARGE_FILES: splits, Reason.DELETES: worn & ~splits & ~merges},
        left_out={
            LeftOutReason.WELL_SIZED: masks.well_sized & ~worn,
            LeftOutReason.TOO_FEW_FILES: open_bins & ~masks.enough & ~worn,
            LeftOutReason.NO_GAIN: open_bins & masks.enough & ~by_size & ~worn,
        },
    )


def everything(bins: Bins) -> Verdict:
    """`rewrite-all`: no filter of any kind, as in Iceberg."""
    return Verdict(rewritten={Reason.REWRITE_ALL: bins.count > 0}, left_out={})
