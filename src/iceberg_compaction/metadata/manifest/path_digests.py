"""Whether paths are distinct, for millions of them: a column of texts comes in, 64-bit digests go out. Only texts whose
digests are equal need to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = 8
_FACTORS = np.random.default_rng(20).integers(0, 2**63, 512, np.uint64) | np.uint64(1)
_AT_ONCE = 1 << 17  # bytes of texts side by side: what fits a core's cache


def digests(texts: pa.Array) -> NDArray[np.uint64]:
    """A number for each text, equal for equal texts: texts lie side by side as rows of words of 8 bytes, filled up with
    zeros, and a digest is the sum of the words, each times a factor of its place, and of the size."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    starts, sizes = ends[:-1] - first, np.diff(ends)
    width = max(-(-int(sizes.max()) // _WORD), 1) * _WORD
    window = np.zeros(last - first + width, np.uint8)
    window[: last - first] = np.frombuffer(data, np.uint8)[first:last] if last > first else 0
    rows = np.lib.stride_tricks.as_strided(window, (last - first + 1, width), (1, 1), writeable=False)
    factors = np.resize(_FACTORS[1:], width // _WORD)
    found = sizes.astype(np.uint64) * _FACTORS[0]
    step = max(_AT_ONCE // width, 1)
    for start in range(0, len(texts), step):
        some = slice(start, start + step)
        words = _words(rows[starts[some]], sizes[some])
        found[some] += _folded(words) @ factors
    return _folded(found)


def _words(side_by_side: NDArray[np.uint8], sizes: NDArray[np.int64]) -> NDArray[np.uint64]:
    """The rows' words, without what lies behind the end of a text."""
    shortest = int(sizes.min())
    behind = np.arange(shortest, side_by_side.shape[1]) >= sizes[:, None]
    side_by_side[:, shortest:][behind] = 0
    return side_by_side.view(np.uint64)


def _folded(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Upper bits over lower ones: products carry upwards only, and texts differ anywhere."""
    folded: NDArray[np.uint64] = values ^ (values >> np.uint64(32))
    return folded


def twins(numbers: NDArray[np.uint64]) -> pa.BooleanArray | None:
    """Which rows have a digest that another row has, too; None: no row. Their texts may still differ."""
    ordered = np.sort(numbers)
    doubled = ordered[1:][ordered[1:] == ordered[:-1]]
    return pa.array(np.isin(numbers, doubled)) if len(doubled) else None
