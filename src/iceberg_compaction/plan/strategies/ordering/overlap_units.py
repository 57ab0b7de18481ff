"""Files of a partition as units whose ranges do not overlap: sorting a unit by itself leaves it disjoint from all
others. Files and their ranges come in, sorted positions with unit numbers go out. Ranges that only touch, or are one
and the same value, do not overlap."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.plan.strategies.ordering.order_facts import LeadingRanges

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

_LAST = np.iinfo(np.int64).max


@dataclass(frozen=True, slots=True, kw_only=True)
class Units:
    """Files in units, in the order of their partitions and ranges."""

    positions: Ints  # of the files
    unit_of: Ints  # of each of these; ascending
    starts: Ints  # where units begin among the positions
    keys: Ints  # packing key of each unit
    depth: Ints  # the most files that hold one value, of each unit; 1 where ranges are not known

    def sums(self, values: Ints | Mask) -> Ints:
        """The sum over the files of each unit; `values` has one item per file."""
        totals: Ints = np.zeros(0, np.int64)
        if len(self.starts):
            totals = np.add.reduceat(values[self.positions], self.starts, dtype=np.int64)
        return totals

    def any(self, mask: Mask) -> Mask:
        return self.sums(mask) > 0


def find(keys: Ints, ranges: LeadingRanges, whole: Mask) -> Units:
    """The units of files with these packing keys. `whole`: files whose partition is one unit, because nothing is known
    about the range of their rows. Files without bounds are otherwise units by themselves, after all others."""
    lower, upper = (np.where(ranges.bounded, bound, _LAST) for bound in (ranges.lower, ranges.upper))
    positions = np.lexsort((upper, lower, keys))
    lower_rank, upper_rank = _ranks(keys, lower, upper)
    low, high, key = lower_rank[positions], upper_rank[positions], keys[positions]
    reach = np.maximum.accumulate(high) if len(high) else high
    new_key = np.append(True, key[1:] != key[:-1])[: len(key)]
    apart = np.append(True, low[1:] >= reach[:-1])[: len(key)]
    undivided = np.isin(key, np.unique(keys[whole]))
    begins = new_key | (apart & ~undivided)
    starts = np.flatnonzero(begins)
    return Units(
        positions=positions,
        unit_of=np.cumsum(begins) - 1,
        starts=starts,
        keys=key[starts],
        depth=_depth(low, high, starts),
    )


def _ranks(keys: Ints, lower: Ints, upper: Ints) -> tuple[Ints, Ints]:
    """Bounds as numbers that ascend from partition to partition, equal for equal bounds of one partition: so ranges of
    all partitions can be compared at once."""
    both, key = np.concatenate([lower, upper]), np.concatenate([keys, keys])
    order = np.lexsort((both, key))
    changes = (both[order][1:] != both[order][:-1]) | (key[order][1:] != key[order][:-1])
    ranks = np.empty(len(both), np.int64)
    ranks[order] = np.cumsum(np.append(False, changes)[: len(both)])
    return ranks[: len(lower)], ranks[len(lower) :]


def _depth(low: Ints, high: Ints, starts: Ints) -> Ints:
    """The most files of each unit that hold one value inside their ranges."""
    if not len(starts):
        return np.zeros(0, np.int64)
    ended = np.searchsorted(np.sort(high), low, side="right")  # files whose range is over where this one begins
    depth = np.maximum(np.arange(1, len(low) + 1) - ended, 1)
    several = np.diff(np.append(starts, len(low))) > 1  # of which at least two overlap, however short they are
    deepest: Ints = np.maximum(np.maximum.reduceat(depth, starts), several + 1)
    return deepest
