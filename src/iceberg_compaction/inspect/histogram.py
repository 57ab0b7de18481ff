"""File sizes against the target, as bars. Sizes come in, buckets that add up to all files go out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.table import SizeBucket

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policy import Sizes

_SHARES = (0.01, 0.10, 0.25)  # of the target; bars below the minimum size


def histogram(size: NDArray[Any], sizes: Sizes) -> tuple[SizeBucket, ...]:
    """Bars from tiny to too large; the one from min to max is called `near target`."""
    ends = [end for end in (int(sizes.target * share) for share in _SHARES) if 0 < end < sizes.min]
    edges = sorted({0, *ends, sizes.min, sizes.max + 1})  # a minimum of 0 is allowed, and then there is no bar below
    bars = []
    for low, high in zip(edges, [*edges[1:], None], strict=True):
        inside = size >= low if high is None else (size >= low) & (size < high)
        bars.append(
            SizeBucket(
                label=_label(low, high, sizes), upto=high, files=int(inside.sum()), bytes=int(size[inside].sum())
            )
        )
    return tuple(bars)


def _label(low: int, high: int | None, sizes: Sizes) -> str:
    def percent(size: int) -> str:
        return f"{100 * size / sizes.target:.0f}%"

    if high is None:
        return f"> {percent(sizes.max)}"
    if low == sizes.min:
        return f"near target ({percent(low)}-{percent(sizes.max)})"
    return f"{percent(low)}-{percent(high)}" if low else f"< {percent(high)}"
