"""Checks column indexes, which hold the bounds of a column's pages. A column index is the same in any file, so
its bytes are checked and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.formats.parquet import thrift

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import page_layout

_NEXT_LIST = 0x10 | thrift.LIST
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def fits(data: bytes, pages: int, kind: page_layout.Layout) -> bool:
    """Whether bytes are a column index of so many pages, with bounds of values of the right size for all that have
    any. Certain writers have left out bounds that readers rely on."""
    try:
        flags, begin = next_list(data, 0, thrift.TRUE, thrift.FALSE)
        nulls = data[begin : begin + flags]
        lows, at = _lengths(data, begin + flags)
        highs, at = _lengths(data, at)
        if not flags == len(lows) == len(highs) == pages or end(data, at, pages) != len(data):
            return False
    except (ValueError, IndexError):
        return False
    width = kind.length or _WIDTHS.get(kind.physical)
    if width is None or lows == highs == [width] * pages:
        return True
    return all(null == thrift.TRUE or low == high == width for null, low, high in zip(nulls, lows, highs, strict=True))


def next_list(data: bytes, at: int, *kinds: int) -> tuple[int, int]:
    """The number of values in the list that is the next field, and the offset of the first one."""
    if data[at] != _NEXT_LIST:
        raise ValueError("the bytes are no page index")
    return _values(data, at + 1, *kinds)


def _values(data: bytes, at: int, *kinds: int) -> tuple[int, int]:
    head = data[at]
    if head & 15 not in kinds:
        raise ValueError("the bytes are no page index")
    return thrift.varint(data, at + 1) if head >> 4 == 15 else (head >> 4, at + 1)


def _lengths(data: bytes, at: int) -> tuple[list[int], int]:
    """The lengths of the values in the list that is the next field, and the offset of its end."""
    count, at = next_list(data, at, thrift.BINARY)
    lengths = []
    for _ in range(count):
        length = data[at]
        if length < 128:
            at += length + 1
        else:
            length, at = thrift.varint(data, at)
            at += length
        lengths.append(length)
    return lengths, at


def end(data: bytes, at: int, pages: int) -> int:
    """The offset of the end of an index's rest: numbers, and lists with equally many numbers for every page."""
    while head := data[at]:
        kind, count, at = head & 15, 1, at + 1
        if kind == thrift.LIST:
            count, at = _values(data, at, thrift.I32, thrift.I64)
            if count % pages:
                raise ValueError("the bytes are no page index")
        if not head >> 4 or kind not in (thrift.I32, thrift.I64, thrift.LIST):
            raise ValueError("the bytes are no page index")
        for _ in range(count):
            while data[at] > 127:
                at += 1
            at += 1
    return at + 1
