"""Strategy `delete-files`: rewrites data files whose deletes cost readers too much, and so rids the table of them.

Candidates: worn files, that is data files with at least delete-file-threshold delete files or delete-ratio-threshold of
their rows deleted; by default every file that a delete applies to. Every group of them is rewritten, be it one file.
Fixed point: to the files that a run writes none of the deletes applies that there were when it was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import policies
from iceberg_compaction.model.rewrite_plan import Reason
from iceberg_compaction.plan.strategies import verdict

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.packing import Bins


def worn(
    delete_files: NDArray[np.int64], deleted_rows: NDArray[np.int64], records: NDArray[np.int64], policy: Policy
) -> NDArray[np.bool_]:
    """Which files have so many deletes that this alone is a reason to rewrite them. All strategies ask."""
    thresholds = policies.resolve_thresholds(policy)
    met = delete_files > 0
    found: NDArray[np.bool_] = met & (deleted_rows >= thresholds.ratio * records)
    if thresholds.files is not None:
        found |= delete_files >= thresholds.files
    return found


def candidates(files: DataFiles, _sizes: Sizes) -> NDArray[np.bool_]:
    return files.worn


def judge(bins: Bins, _policy: Policy, _sizes: Sizes) -> verdict.Verdict:
    return verdict.Verdict(rewritten={Reason.DELETES: bins.count > 0}, left_out={})
