"""Answers that strategies share where the policy alone decides: output layout and the order of groups. Strategies with
an opinion of their own answer themselves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import assert_never

from iceberg_compaction.model.output_layout import OutputLayout, RowOrder
from iceberg_compaction.model.policies import JobOrder

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest


def layout(policy: Policy) -> OutputLayout:
    """Rows follow the table's sort order; `keep-spec` decides about the partition spec."""
    return OutputLayout(keep_spec=policy.keep_spec, row_order=RowOrder.TABLE)


def order(packing: Packing, kept: NDArray[np.int64], request: PlanRequest) -> NDArray[np.int64]:
    """The bins by rewrite-job-order; equal ones by manifest, then by partition."""
    kept = kept[packing.files.numbering.sort(packing.bins.packing_key[kept])]
    kept = kept[_by_manifest(packing, kept, request.view.manifest_files)]
    return kept[_by_job_order(packing.bins, kept, request.policy.rewrite_job_order)]


def _by_manifest(packing: Packing, bins: NDArray[np.int64], manifest_files: Sequence[int]) -> NDArray[np.int64]:
    """Positions that sort bins by the oldest manifest that lists one of their files, the oldest of all first; a
    manifest list begins with the newest. So a manifest is empty once the bins of its turn are rewritten, instead of
    losing a few files to every commit, which would have to write it anew each time."""
    if len(bins) < 2 or len(manifest_files) < 2:
        return np.arange(len(bins))
    last = np.zeros(len(packing.bins), np.int64)
    last[packing.bin_of] = packing.files.rows  # they ascend, so the last row of each bin stays
    oldest = np.searchsorted(np.cumsum(manifest_files), last[bins], side="right")
    return np.argsort(-oldest, kind="stable")


def _by_job_order(bins: Bins, kept: NDArray[np.int64], job_order: JobOrder) -> NDArray[np.int64]:
    size, count = bins.bytes[kept], bins.count[kept]
    match job_order:
        case JobOrder.NONE:
            return np.arange(len(kept))
        case JobOrder.BYTES_ASC:
            key = size
        case JobOrder.BYTES_DESC:
            key = -size
        case JobOrder.FILES_ASC:
            key = count
        case JobOrder.FILES_DESC:
            key = -count
        case _:
            assert_never(job_order)
    return np.argsort(key, kind="stable")
