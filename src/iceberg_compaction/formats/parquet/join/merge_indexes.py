"""Merges the page indexes of the chunks of a column, whose pages follow one another in the joined column. An index that
is missing or does not fit leaves the whole column without: files without indexes are slower to search, files with wrong
ones lose rows."""

from __future__ import annotations

import itertools
import struct
from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import column_index, format_fields, thrift
from iceberg_compaction.formats.parquet.join import joined_column, value_order

if TYPE_CHECKING:
    from collections.abc import Callable

    from iceberg_compaction.formats.parquet import page_layout

_NULL_PAGES, _MIN, _MAX, _BOUNDARY_ORDER, _NULL_COUNTS = range(1, 6)
_KINDS = {_NULL_PAGES: thrift.TRUE, _MIN: thrift.BINARY, _MAX: thrift.BINARY, _NULL_COUNTS: thrift.I64}
_UNORDERED, _ASCENDING = 0, 1
LONGEST = 4096  # bytes of a bound
# Both zeros are equal to readers, so a zero is the smaller one as a minimum and the larger one as a maximum.
_ZEROS = {
    physical: {_MIN: struct.pack(form, -0.0), _MAX: struct.pack(form, 0.0)}
    for physical, form in (("FLOAT", "<f"), ("DOUBLE", "<d"))
}


def page_locations(data: bytes | None, start: int, length: int, rows: int) -> list[joined_column.PageLocation] | None:
    """The pages of a chunk, from its offset index: they begin at `start` of the file, fill `length` bytes without a gap
    and have `rows` rows. None: there is no index that fits."""
    if data is None:
        return None
    try:
        raw, end = thrift.parse(data)
        pages = [
            joined_column.PageLocation(*(format_fields.integer(page, number) for number in (1, 2, 3)))
            for page in format_fields.children(raw, 1)
        ]
    except (ValueError, IndexError):
        return None
    at, row = start, -1
    for page in pages:
        if page.offset != at or page.size <= 0 or page.first_row <= row:
            return None
        at, row = at + page.size, page.first_row
    fits = pages and pages[0].first_row == 0 and row < rows and at == start + length and end == len(data)
    return pages if fits else None


class Bounds:
    """The bounds of pages, chunk after chunk."""

    def __init__(self, layout: page_layout.Layout) -> None:
        self._layout = layout
        self._lists: dict[int, list[Any]] = {number: [] for number in _KINDS}
        self._is_known = True

    def add(self, data: bytes | None, pages: int) -> None:
        """Takes the column index of the next chunk, which has so many pages; None: it has none."""
        if data is None or not column_index.fits(data, pages, self._layout):
            self._is_known = False
        if not self._is_known:
            return
        raw, _ = thrift.parse(data or b"")
        lists = {number: raw[number][1][1] for number in _KINDS if number in raw}
        if len(lists.get(_NULL_COUNTS, ())) != pages:
            lists.pop(_NULL_COUNTS, None)
        self._extend(lists)

    def add_nulls(self, values: int) -> None:
        """Takes a page without values."""
        self._extend({_NULL_PAGES: [True], _MIN: [b""], _MAX: [b""], _NULL_COUNTS: [values]})

    def _extend(self, lists: dict[int, list[Any]]) -> None:
        for number in list(self._lists):
            if number in lists:
                self._lists[number] += lists[number]
            elif number == _NULL_COUNTS:
                del self._lists[number]  # optional
            else:
                self._is_known = False

    def merged(self) -> thrift.Struct | None:
        """The column index of all pages; None: the bounds of some are not known."""
        if not self._is_known or not self._lists[_NULL_PAGES]:
            return None
        lists: thrift.Struct = {number: (thrift.LIST, (_KINDS[number], each)) for number, each in self._lists.items()}
        return {**lists, _BOUNDARY_ORDER: (thrift.I32, self._order())}

    def _order(self) -> int:
        """Ascending, if pages are; the order within chunks says nothing about that between them."""
        key = value_order.sort_key(self._layout)
        if key is None:
            return _UNORDERED
        nulls = self._lists[_NULL_PAGES]
        try:
            for number in (_MIN, _MAX):
                keys = [key(bound) for bound, null in zip(self._lists[number], nulls, strict=True) if not null]
                if any(before > after for before, after in itertools.pairwise(keys)):
                    return _UNORDERED
        except ValueError:
            return _UNORDERED
        return _ASCENDING


def of_page(low: bytes, high: bytes, nulls: int) -> bytes | None:
    """A column index of one page, which has values. None: a bound is too long."""
    if max(len(low), len(high)) > LONGEST:
        return None
    lists = {_NULL_PAGES: [False], _MIN: [low], _MAX: [high], _BOUNDARY_ORDER: None, _NULL_COUNTS: [nulls]}
    return thrift.compose(
        {
            number: (thrift.I32, _UNORDERED) if each is None else (thrift.LIST, (_KINDS[number], each))
            for number, each in lists.items()
        }
    )


def rank_index(lows: list[int], highs: list[int], nulls: list[int], empty: list[bool]) -> thrift.Struct:
    """A column index whose bounds are ranks; `empty`: pages without values."""
    bounds = zip(lows, highs, empty, strict=True)
    filled = [(low, high) for low, high, none in bounds if not none]
    is_ascending = all(one[0] <= two[0] and one[1] <= two[1] for one, two in itertools.pairwise(filled))
    low, high = (
        [b"" if none else rank.to_bytes(4, "little") for rank, none in zip(ranks, empty, strict=True)]
        for ranks in (lows, highs)
    )
    lists = {_NULL_PAGES: empty, _MIN: low, _MAX: high, _NULL_COUNTS: nulls}
    index: thrift.Struct = {number: (thrift.LIST, (_KINDS[number], each)) for number, each in lists.items()}
    return {**index, _BOUNDARY_ORDER: (thrift.I32, _ASCENDING if is_ascending else _UNORDERED)}


def of_chunk(index: thrift.Struct) -> tuple[int | None, tuple[int, int] | None]:
    """The nulls of all pages and the bounds of all ranks, by a column index whose bounds are ranks. None: they are not
    counted, or there is no value."""
    lists = {number: index[number][1][1] for number in _KINDS if number in index}
    nulls = sum(lists[_NULL_COUNTS]) if _NULL_COUNTS in lists else None
    filled = [at for at, is_empty in enumerate(lists[_NULL_PAGES]) if not is_empty]
    lows, highs = ([int.from_bytes(lists[number][at], "little") for at in filled] for number in (_MIN, _MAX))
    return nulls, (min(lows), max(highs)) if lows else None


def of_ranks(
    index: thrift.Struct, value: Callable[[int], bytes], layout: page_layout.Layout, pages: int
) -> thrift.Struct | None:
    """A column index whose bounds are ranks, with the values that the ranks stand for. None: it has other pages, or a
    bound that is too long."""
    raw = dict(index)
    lists = {number: raw[number][1][1] for number in _KINDS if number in raw}
    if len(lists.get(_NULL_PAGES, ())) != pages:
        return None
    nulls = lists[_NULL_PAGES]
    for number in (_MIN, _MAX):
        ranks = lists[number]
        bounds = [
            b"" if null else value(int.from_bytes(rank, "little")) for rank, null in zip(ranks, nulls, strict=True)
        ]
        if any(len(bound) > LONGEST for bound in bounds):
            return None
        if layout.physical in _ZEROS:
            bounds = [
                _ZEROS[layout.physical][number] if bound in _ZEROS[layout.physical].values() else bound
                for bound in bounds
            ]
        raw[number] = (thrift.LIST, (thrift.BINARY, bounds))
    return {number: raw[number] for number in (*_KINDS, _BOUNDARY_ORDER) if number in raw}
