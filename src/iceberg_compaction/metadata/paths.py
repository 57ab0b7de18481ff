"""Whether paths are distinct, for millions of them: a column of texts comes in, 64-bit digests go out. Only texts whose
digests are equal need to be compared."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from numpy.typing import NDArray

_WORD = 8
_FACTORS = np.random.default_rng(20).integers(0, 2**63, 512, np.uint64) | np.uint64(1)


def digests(texts: pa.Array) -> NDArray[np.uint64]:
    """A number for each text, equal for equal texts. Texts are taken in words of 8 bytes, the last of which overlaps
    the one before; what is shorter than a word is filled up."""
    if not len(texts):
        return np.zeros(0, np.uint64)
    _, offsets, data = texts.buffers()
    ends = np.frombuffer(offsets, np.int32, len(texts) + 1, texts.offset * 4).astype(np.int64)
    first, last = int(ends[0]), int(ends[-1])
    window = np.zeros(last - first + 2 * _WORD, np.uint8)
    window[_WORD : last - first + _WORD] = np.frombuffer(data, np.uint8)[first:last] if last > first else 0
    starts, sizes = ends[:-1] - first + _WORD, np.diff(ends)
    words = np.lib.stride_tricks.as_strided(window[:_WORD].view(np.uint64), (len(window) - _WORD + 1,), (1,))
    found = sizes.astype(np.uint64) * _FACTORS[0]
    counts = sizes // _WORD
    for word in range(int(counts.max())):
        rows: Any = slice(None) if word < int(counts.min()) else np.flatnonzero(counts > word)
        found[rows] += _folded(words[starts[rows] + word * _WORD]) * _FACTORS[(word + 2) % len(_FACTORS)]
    tails = words[starts + np.maximum(sizes - _WORD, 0)]
    short = np.flatnonzero(sizes < _WORD)
    tails[short] &= (np.uint64(1) << (sizes[short] * 8).astype(np.uint64)) - np.uint64(1)
    return _folded(found + _folded(tails) * _FACTORS[1])


def _folded(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Upper bits over lower ones: products carry upwards only, and texts differ anywhere."""
    folded: NDArray[np.uint64] = values ^ (values >> np.uint64(32))
    return folded


def twins(numbers: NDArray[np.uint64]) -> pa.BooleanArray | None:
    """Which rows have a digest that another row has, too; None: no row. Their texts may still differ."""
    ordered = np.sort(numbers)
    doubled = ordered[1:][ordered[1:] == ordered[:-1]]
    return pa.array(np.isin(numbers, doubled)) if len(doubled) else None
