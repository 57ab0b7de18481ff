"""Files sorted by bucket and then by age, so that the deletes of a data file, and the data files of a delete, are one
range of neighbours. A bucket is a number for a partition, a path or the whole table. Counting is a binary search, and
only the ranges that a caller needs become lists."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    Ints: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """For each file, where its neighbours start and end among sorted rows."""

    start: Ints
    stop: Ints

    @property
    def counts(self) -> Ints:
        return self.stop - self.start

    def only(self, mask: NDArray[np.bool_]) -> Ranges:
        """The same ranges, empty where the mask is false."""
        return Ranges(start=self.start, stop=np.where(mask, self.stop, self.start))


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRanges:
    """Rows in order of bucket (0, 1, ...) and then of rank, which is the order of their sequence numbers."""

    rows: Ints  # empty where only counts are needed
    stamps: Ints  # bucket * steps + rank, ascending
    steps: int  # more than any rank
    edges: Ints  # bucket b is rows[edges[b]:edges[b + 1]]

    @property
    def buckets(self) -> Ints:
        return self.stamps // self.steps

    @property
    def ranks(self) -> Ints:
        return self.stamps % self.steps

    def from_rank(self, buckets: Ints, ranks: Ints, *, equal: bool) -> Ranges:
        """The neighbours of each file that have a higher rank, or an equal one as well. Bucket -1 has none."""
        start, stop = np.zeros(len(buckets), np.int64), np.zeros(len(buckets), np.int64)
        met = np.flatnonzero(buckets >= 0)  # often few
        stamps = buckets[met] * self.steps + ranks[met]
        start[met] = np.searchsorted(self.stamps, stamps, side="left" if equal else "right")
        stop[met] = self.edges[buckets[met] + 1]
        return Ranges(start=start, stop=stop)

    def up_to_rank(self, buckets: Ints, ranks: Ints, *, equal: bool) -> Ranges:
        """The neighbours of each file that have a lower rank, or an equal one as well."""
        stop = np.searchsorted(self.stamps, buckets * self.steps + ranks, side="right" if equal else "left")
        return Ranges(start=self.edges[buckets], stop=stop)

    def sums(self, ranges: Ranges, values: Ints) -> Ints:
        """The sum over each range of the `values` of its rows."""
        upto: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(values[self.rows])])
        return upto[ranges.stop] - upto[ranges.start]


def sort(rows: Ints | None, buckets: Ints, ranks: Ints, *, size: int, steps: int) -> SortedRanges:
    """Sorts rows into `size` buckets. Rows of bucket -1 are left out. Without rows it is several times faster."""
    kept = np.flatnonzero(buckets >= 0)
    stamps = buckets[kept] * steps + ranks[kept]
    if rows is None:
        rows = np.empty(0, np.int64)
        stamps.sort()
    else:
        order = np.argsort(stamps)
        rows, stamps = rows[kept[order]], stamps[order]
    edges = np.searchsorted(stamps, np.arange(size + 1, dtype=np.int64) * steps)
    return SortedRanges(rows=rows, stamps=stamps, steps=steps, edges=edges)


def lists(parts: Sequence[tuple[SortedRanges, Ranges]]) -> pa.LargeListArray:
    """For each file the rows of its ranges, those of the first part before those of the next."""
    counts: Ints = np.sum([ranges.counts for _, ranges in parts], axis=0, dtype=np.int64)
    offsets: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    values = np.empty(offsets[-1], np.int64)
    begin = offsets[:-1].copy()
    for sorted_rows, ranges in parts:
        lengths = ranges.counts
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values[np.repeat(begin, lengths) + within] = sorted_rows.rows[np.repeat(ranges.start, lengths) + within]
        begin += lengths
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))


def gather(of_files: pa.LargeListArray, starts: Ints) -> pa.LargeListArray:
    """Joins the lists of neighbouring files; a slice of them begins at each of `starts`."""
    offsets = of_files.offsets.to_numpy()
    return pa.LargeListArray.from_arrays(pa.array(np.append(offsets[starts], offsets[-1])), of_files.values)


def join(first: pa.LargeListArray, second: pa.LargeListArray) -> pa.LargeListArray:
    """For each file its first list and then its second."""
    offsets = first.offsets.to_numpy() + second.offsets.to_numpy()
    values, begin = np.empty(offsets[-1], np.int64), offsets[:-1]
    for part in (first, second):
        lengths = np.diff(part.offsets.to_numpy())
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values[np.repeat(begin, lengths) + within] = part.values.to_numpy()
        begin = begin + lengths
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
