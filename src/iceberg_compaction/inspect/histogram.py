"""The histogram of file sizes. The sizes in force come in, the edges of its bars go out; then files and bytes of each
bar come in, and buckets that add up to all files go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.table_health import SizeBucket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes

    Ints = NDArray[np.int64]

_SHARES = (0.01, 0.10, 0.25)  # of the target; bars below the minimum size


@dataclass(frozen=True, slots=True, kw_only=True)
class Edges:
    """Where the bars begin, from tiny to too large."""

    sizes: Sizes
    lows: tuple[int, ...]

    @property
    def near(self) -> int:
        """The bar from min to max; all before it are small, the one after it is large."""
        return self.lows.index(self.sizes.min)

    def bar_of(self, size: Ints) -> NDArray[np.int8]:
        """The number of each file's bar. A few comparisons are faster than a search."""
        bar, above = np.zeros(len(size), np.int8), np.empty(len(size), np.bool_)
        for low in self.lows[1:]:
            np.greater_equal(size, low, out=above)
            bar += above.view(np.int8)
        return bar


def edges(sizes: Sizes) -> Edges:
    """The bars for a target."""
    ends = [end for end in (int(sizes.target * share) for share in _SHARES) if 0 < end < sizes.min]
    # A minimum of 0 is allowed, and then there is no bar below.
    return Edges(sizes=sizes, lows=tuple(sorted({0, *ends, sizes.min, sizes.max + 1})))


def histogram(bars: Edges, files: Ints, size: Ints) -> tuple[SizeBucket, ...]:
    """Bars with their files; the one from min to max is called `near target`."""
    return tuple(
        SizeBucket(label=_label(low, high, bars.sizes), upto=high, files=int(count), bytes=int(total))
        for low, high, count, total in zip(bars.lows, [*bars.lows[1:], None], files, size, strict=True)
    )


def _label(low: int, high: int | None, sizes: Sizes) -> str:
    def percent(size: int) -> str:
        return f"{100 * size / sizes.target:.0f}%"

    if high is None:
        return f"> {percent(sizes.max)}"
    if low == sizes.min:
        return f"near target ({percent(low)}-{percent(sizes.max)})"
    return f"{percent(low)}-{percent(high)}" if low else f"< {percent(high)}"
