"""`model.sizing` for whole columns: totals of bytes come in, numbers of output files go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import sizing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes


def output_counts(total: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """`model.sizing.output_count` for many totals at once."""
    whole, rest = np.divmod(total, sizes.target)
    average = total // np.maximum(whole, 1)
    spread = (rest <= sizes.min) & (average < min(1.1 * sizes.target, sizes.write_max))
    counts: NDArray[np.int64] = np.where(total < sizes.target, 1, np.where(spread | (rest == 0), whole, whole + 1))
    return counts


def file_counts(total: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """`model.sizing.file_count` for many totals at once."""
    counts = output_counts(total, sizes)
    too_small = total < sizing.MARGIN * sizes.min * counts
    nearer = total.astype(np.float64) * (2 * counts - 1) < 2.0 * sizes.target * counts * (counts - 1)
    fewer = (counts > 1) & (too_small | nearer) & (total * sizing.MARGIN <= sizes.max * (counts - 1))
    aimed: NDArray[np.int64] = np.where(fewer, counts - 1, counts)
    return aimed
