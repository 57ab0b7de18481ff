"""Files sorted by place and then by age, so that the deletes of a data file, and the data files of a delete, are one
run of neighbours: to count them is a binary search, and only the runs that somebody asks for become lists."""

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
class Runs:
    """For each asker, where its neighbours start and end on a shelf."""

    start: Ints
    stop: Ints

    @property
    def counts(self) -> Ints:
        return self.stop - self.start

    def only(self, mask: NDArray[np.bool_]) -> Runs:
        """The same runs, empty where the mask is false."""
        return Runs(start=self.start, stop=np.where(mask, self.stop, self.start))


@dataclass(frozen=True, slots=True, kw_only=True)
class SortedRanges:
    """Rows in order of place (0, 1, ...) and then of rank, which is the order of their sequence numbers."""

    rows: Ints  # or none, where only counts are asked for
    stamps: Ints  # place * steps + rank, ascending
    steps: int  # more than any rank
    edges: Ints  # place p is rows[edges[p]:edges[p + 1]]

    @property
    def places(self) -> Ints:
        return self.stamps // self.steps

    @property
    def ranks(self) -> Ints:
        return self.stamps % self.steps

    def from_rank(self, places: Ints, ranks: Ints, *, equal: bool) -> Runs:
        """Each asker's neighbours of a higher rank, or of an equal one as well. Place -1 has no neighbours."""
        start, stop = np.zeros(len(places), np.int64), np.zeros(len(places), np.int64)
        met = np.flatnonzero(places >= 0)  # often few
        stamps = places[met] * self.steps + ranks[met]
        start[met] = np.searchsorted(self.stamps, stamps, side="left" if equal else "right")
        stop[met] = self.edges[places[met] + 1]
        return Runs(start=start, stop=stop)

    def up_to_rank(self, places: Ints, ranks: Ints, *, equal: bool) -> Runs:
        """Each asker's neighbours of a lower rank, or of an equal one as well."""
        stop = np.searchsorted(self.stamps, places * self.steps + ranks, side="right" if equal else "left")
        return Runs(start=self.edges[places], stop=stop)

    def sums(self, runs: Runs, values: Ints) -> Ints:
        """The sum over each run of what its rows have in `values`."""
        upto: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(values[self.rows])])
        return upto[runs.stop] - upto[runs.start]


def stack(rows: Ints | None, places: Ints, ranks: Ints, *, size: int, steps: int) -> SortedRanges:
    """A shelf with `size` places. Rows at place -1 are left out. Without rows it sorts several times faster."""
    kept = np.flatnonzero(places >= 0)
    stamps = places[kept] * steps + ranks[kept]
    if rows is None:
        rows = np.empty(0, np.int64)
        stamps.sort()
    else:
        order = np.argsort(stamps)
        rows, stamps = rows[kept[order]], stamps[order]
    edges = np.searchsorted(stamps, np.arange(size + 1, dtype=np.int64) * steps)
    return SortedRanges(rows=rows, stamps=stamps, steps=steps, edges=edges)


def lists(parts: Sequence[tuple[SortedRanges, Runs]]) -> pa.LargeListArray:
    """For each asker the rows of its runs, those of the first shelf before those of the next."""
    counts: Ints = np.sum([runs.counts for _, runs in parts], axis=0, dtype=np.int64)
    offsets: Ints = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
    values = np.empty(offsets[-1], np.int64)
    begin = offsets[:-1].copy()
    for ranges, runs in parts:
        lengths = runs.counts
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values[np.repeat(begin, lengths) + within] = ranges.rows[np.repeat(runs.start, lengths) + within]
        begin += lengths
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))


def gather(found: pa.LargeListArray, starts: Ints) -> pa.LargeListArray:
    """The lists of neighbouring askers as one; a slice of them begins at each of `starts`."""
    offsets = found.offsets.to_numpy()
    return pa.LargeListArray.from_arrays(pa.array(np.append(offsets[starts], offsets[-1])), found.values)


def join(first: pa.LargeListArray, second: pa.LargeListArray) -> pa.LargeListArray:
    """For each asker its first list and then its second."""
    offsets = first.offsets.to_numpy() + second.offsets.to_numpy()
    values, begin = np.empty(offsets[-1], np.int64), offsets[:-1]
    for found in (first, second):
        lengths = np.diff(found.offsets.to_numpy())
        within = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        values[np.repeat(begin, lengths) + within] = found.values.to_numpy()
        begin = begin + lengths
    return pa.LargeListArray.from_arrays(pa.array(offsets), pa.array(values))
