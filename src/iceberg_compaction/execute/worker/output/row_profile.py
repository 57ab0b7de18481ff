"""The bytes of the inputs' rows, from the first to the last: later rows may take more or less than earlier ones, and
footers know it. Row groups come in; for a share of the rows the share of the bytes goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable


class Profile:
    """Rows and bytes of row groups, one after the other."""

    def __init__(self, groups: Iterable[tuple[int, int]]) -> None:
        counts = np.array([(0, 0), *((rows, size) for rows, size in groups if rows)], dtype=np.float64)
        reach = np.cumsum(counts, axis=0)
        self._rows, self._bytes = (reach / np.maximum(reach[-1], 1)).T

    def part(self, rows: float) -> float:
        """The share of the bytes that the first rows have, given as a share of all rows."""
        return float(np.interp(rows, self._rows, self._bytes)) if len(self._rows) > 1 else rows


EVEN = Profile(())  # all rows take the same
