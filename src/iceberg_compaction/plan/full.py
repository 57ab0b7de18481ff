"""Strategy `full`: rewrites whole partitions that are not laid out as well as they could be.

Candidates: all files of a partition, well sized or not. A group is left alone when it is well sized already: no file
above the maximum and at most one outside the range (the rest of a division). Else the rules of `small-files` apply to
all its files. Fixed point: a rewrite leaves every group well sized; see docs/strategies.md for the conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.plan import Reason
from iceberg_compaction.plan import verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policy import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.packing import Bins


def candidates(files: DataFiles, _sizes: Sizes) -> NDArray[np.bool_]:
    return np.ones(len(files.rows), np.bool_)


def judge(bins: Bins, policy: Policy, sizes: Sizes) -> verdict.Verdict:
    well_sized = (bins.above == 0) & (bins.below <= 1)
    return verdict.judge(bins, policy, sizes, well_sized=well_sized, merged=Reason.NOT_OPTIMAL)
