"""Moves offset indexes, which say where the pages of columns are, into another file. A file may have a hundred thousand
pages, so the indexes of many columns are decoded, checked and encoded at once, as arrays."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from iceberg_compaction.formats.parquet import column_index, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from iceberg_compaction.formats.parquet import byte_ranges

    Numbers = npt.NDArray[np.int64]
    Flags = npt.NDArray[np.bool_]

# A page is seven numbers, as Thrift writes numbers: the heads of its three fields, their values (offset, size and first
# row), and its end.
_TAGS = np.array([0x10 | thrift.I64, 0x10 | thrift.I32, 0x10 | thrift.I64, 0], np.uint8)
_NUMBERS = 7
_LONGEST = 8  # bytes of a number; no file is larger than 2^55 bytes
_AT_ONCE = 2**20  # bytes of indexes; as arrays they take about thirty times as much


class OffsetIndex(NamedTuple):
    """The offset index of a column as stored, the bytes that its data pages fill without a gap, and its rows."""

    data: bytes
    data_pages: byte_ranges.Span
    rows: int


class Moved(NamedTuple):
    """An offset index for another file, and how many pages it has."""

    pages: int
    data: bytes


def move(indexes: Sequence[OffsetIndex], shifts: Sequence[int]) -> list[Moved | None]:
    """Every offset index with its pages shifted by so many bytes. None: it does not fit its column."""
    results: list[Moved | None] = [None] * len(indexes)
    begins = {number: begin for number, index in enumerate(indexes) if (begin := _begin(index.data)) is not None}
    left = list(begins)
    while left:
        sizes = itertools.accumulate(len(indexes[number].data) for number in left)
        batch = left[: max(1, sum(size <= _AT_ONCE for size in sizes))]
        pages = _Pages([indexes[number] for number in batch], [begins[number] for number in batch])
        for number, moved in zip(batch, pages.moved([shifts[number] for number in batch]), strict=True):
            results[number] = moved
        left = left[len(batch) :]
    return results


def _begin(data: bytes) -> tuple[int, int] | None:
    """The number of pages, and where the first one begins. None: the bytes are no offset index."""
    try:
        count, at = column_index.next_list(data, 0, thrift.STRUCT)
    except (ValueError, IndexError):
        return None
    return (count, at) if 0 < count <= (len(data) - at) // _NUMBERS else None


class _Pages:
    """All pages of all indexes, one after the other."""

    def __init__(self, indexes: list[OffsetIndex], begins: list[tuple[int, int]]) -> None:
        self._indexes = indexes
        self._heads = [at for _, at in begins]
        self._bytes = np.frombuffer(b"".join(index.data for index in indexes), np.uint8)
        sizes = np.array([len(index.data) for index in indexes])
        self._ends = np.cumsum(sizes)  # of each index
        self._counts = np.array([count for count, _ in begins])
        self._first = np.cumsum(self._counts) - self._counts  # page of each index
        first_bytes = self._ends - sizes + np.array(self._heads)
        stops = np.flatnonzero(self._bytes < 128)  # the last bytes of numbers
        page_stops = np.searchsorted(stops, first_bytes) - _NUMBERS * self._first
        page_stops = np.repeat(page_stops, self._counts) + _NUMBERS * np.arange(self._counts.sum())
        # The checks below recognise an index with too few numbers: the numbers of the next one lie behind its end.
        self._stops = stops.take(page_stops[:, None] + np.arange(_NUMBERS), mode="clip") + 1
        self._starts = np.empty_like(self._stops)
        self._starts[:, 1:] = self._stops[:, :-1]
        self._starts[1:, 0] = self._stops[:-1, -1]
        self._starts[self._first, 0] = first_bytes

    def moved(self, shifts: list[int]) -> list[Moved | None]:
        offsets, right = self._checked()
        offsets = (offsets + np.repeat(np.array(shifts), self._counts)) << 1
        lengths = sum((offsets >> 7 * more > 0).astype(np.int64) for more in range(1, _LONGEST + 1)) + 1
        pages, ends = self._composed(offsets, lengths)
        results: list[Moved | None] = []
        for number, index in enumerate(self._indexes):
            first, last = self._first[number], self._first[number] + self._counts[number] - 1
            rest = int(self._stops[last, -1] - self._ends[number]) + len(index.data)
            if not right[number] or not _ends_at(index.data, rest, int(self._counts[number])):
                results.append(None)
                continue
            begin = ends[first - 1] if first else 0
            data = index.data[: self._heads[number]] + pages[begin : ends[last]].tobytes() + index.data[rest:]
            results.append(Moved(int(self._counts[number]), data))
        return results

    def _checked(self) -> tuple[Numbers, Flags]:
        """The offsets of all pages, and whether the pages of each index are pages and those of its column."""
        lengths = self._stops - self._starts
        right = (lengths[:, 0::2] == 1).all(1) & (self._bytes[self._stops[:, 0::2] - 1] == _TAGS).all(1)
        right &= (lengths <= _LONGEST).all(1) & (self._stops[:, -1] <= np.repeat(self._ends, self._counts))
        raw = self._decoded(self._starts[:, 1::2], np.where(right[:, None], lengths[:, 1::2], 1))
        right &= (raw & 1 == 0).all(1)  # in Thrift's zigzag, odd numbers are negative
        offsets, sizes, rows = (raw >> 1).T
        before = np.concatenate([[0], (offsets + sizes)[:-1]])
        before[self._first] = [index.data_pages[0] for index in self._indexes]
        row_before = np.concatenate([[0], rows[:-1]])
        row_before[self._first] = -1
        # Readers without an index take every page right behind the one before it, so an index with a gap is wrong.
        right &= (offsets == before) & (sizes > 0) & (rows > row_before)
        last = self._first + self._counts - 1
        within = (offsets + sizes)[last] == [sum(index.data_pages) for index in self._indexes]
        within &= (rows[last] < [index.rows for index in self._indexes]) & (rows[self._first] == 0)
        return offsets, within & np.logical_and.reduceat(right, self._first)

    def _decoded(self, starts: Numbers, lengths: Numbers) -> Numbers:
        numbers = np.zeros(starts.shape, np.int64)
        for more in range(int(lengths.max())):
            low = self._bytes.take(starts + more, mode="clip").astype(np.int64) & 127
            numbers += np.where(lengths > more, low << 7 * more, 0)
        return numbers

    def _composed(self, offsets: Numbers, lengths: Numbers) -> tuple[npt.NDArray[np.uint8], Numbers]:
        """The bytes of all pages with other offsets, and where each page ends."""
        rests = self._stops[:, -1] - self._starts[:, 2]
        ends = np.cumsum(1 + lengths + rests)
        begins = ends - rests - lengths - 1
        out = np.empty(int(ends[-1]), np.uint8)
        out[begins] = _TAGS[0]
        for more in range(int(lengths.max())):
            has = lengths > more
            ongoing = np.where(lengths > more + 1, 128, 0)
            out[(begins + 1 + more)[has]] = ((offsets >> 7 * more) & 127 | ongoing)[has]
        before = np.cumsum(rests) - rests
        each = np.arange(int(rests.sum()))
        out[each + np.repeat(ends - rests - before, rests)] = self._bytes[
            each + np.repeat(self._starts[:, 2] - before, rests)
        ]
        return out, ends


def _ends_at(data: bytes, rest: int, pages: int) -> bool:
    try:
        return column_index.end(data, rest, pages) == len(data)
    except (ValueError, IndexError):
        return False
