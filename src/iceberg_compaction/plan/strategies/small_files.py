"""Strategy `small-files`: rewrites only files of a wrong size.

Candidates: files below the minimum or above the maximum size, and worn ones, whose deletes alone are a reason. A group
of them is rewritten if it has at least min-input-files, or more than one target's worth, or a file to split, and if
fewer files come out than go in; or if it has a worn file.
Fixed point: a rewrite leaves at most one file below the minimum per partition, which is no group; see
docs/strategies.md for the conditions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.rewrite_plan import Reason
from iceberg_compaction.plan.strategies import verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.packing import Bins


def candidates(files: DataFiles, sizes: Sizes) -> NDArray[np.bool_]:
    return files.outside(sizes) | files.worn


def judge(bins: Bins, policy: Policy, sizes: Sizes) -> verdict.Verdict:
    masks = verdict.Masks(
        well_sized=np.zeros(len(bins), np.bool_),  # every candidate has a wrong size, or is worn
        enough=verdict.enough(bins, policy, sizes),
        gains=verdict.gains(bins),
    )
    return verdict.judge(masks, bins, policy, merged=Reason.SMALL_FILES)
