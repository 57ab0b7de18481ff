"""Strategy `full`: rewrites whole partitions that are not laid out as well as they could be.

Candidates: all files of a partition, well sized or not, but those of one row that is no small file by itself (R53). A
group is left alone when it is well sized already: no file above the maximum, at most one outside the range (the rest of
a division), and none worn, with so many deletes that this alone is a reason. Else the rules of `small-files` apply to
all its files. Fixed point: a rewrite leaves every group well sized; see docs/strategies.md for the conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.rewrite_plan import Reason
from iceberg_compaction.plan import packing
from iceberg_compaction.plan.strategies import verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.packing import Bins


def candidates(files: DataFiles, sizes: Sizes) -> NDArray[np.bool_]:
    return ~files.single | (files.bytes < sizes.min) | files.worn


def judge(bins: Bins, policy: Policy, sizes: Sizes) -> verdict.Verdict:
    # Where a partition has several bins, rewriting one changes which files fill the others. So there the verdict must
    # not depend on the company that wrongly sized files happen to be in: they count alone, as the writer would join
    # them, and the partition as a whole is always enough.
    joined = (packing.file_counts(bins.below_bytes, sizes) < bins.below) | (bins.above > 0)
    masks = verdict.Masks(
        well_sized=(bins.above == 0) & (bins.below <= 1),
        enough=verdict.enough(bins, policy, sizes) | ~bins.alone,
        gains=np.where(bins.alone, verdict.gains(bins), joined),
    )
    return verdict.judge(masks, bins, policy, merged=Reason.NOT_OPTIMAL)
