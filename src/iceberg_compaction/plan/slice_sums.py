"""Sums of slices of a column. Groups of files are slices, so that figures of all groups are one step."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray


def sums(values: NDArray[np.int64] | NDArray[np.bool_], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sums of slices that begin at `first` and together hold all values."""
    totals: NDArray[np.int64] = np.add.reduceat(values, first, dtype=np.int64) if len(first) else np.zeros(0, np.int64)
    return totals
