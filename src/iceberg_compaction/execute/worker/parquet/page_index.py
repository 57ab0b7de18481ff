"""The two page indexes of a column: where its pages are, and between which bounds their values lie. A file has
thousands of pages, so that what moves them knows how they are encoded and takes nothing apart that it need not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.parquet import fields, thrift

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker.parquet import layout, ranges

_PAGES = fields.OffsetIndex.PAGES << 4 | thrift.LIST
_OFFSET, _SIZE, _FIRST_ROW = (
    0x10 | thrift.I64,
    0x10 | thrift.I32,
    0x10 | thrift.I64,
)  # how each begins; a page ends with 0
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


def moved(data: bytes, shift: int, chunk: ranges.Span, rows: int) -> tuple[int, bytes] | None:
    """The number of pages, and the offset index with all of them `shift` bytes later. None: the index is not one of a
    column whose bytes are `chunk` and whose row group has so many rows."""
    try:
        count, at = _count(data)
        out = bytearray(data[:at])
        end, row = chunk[0], -1
        for _ in range(count):
            start, sized = _number(data, at, _OFFSET)
            size, ranked = _number(data, sized, _SIZE)
            first, at = _number(data, ranked, _FIRST_ROW)
            if data[at] or start < end or not size or first <= row or (row < 0 < first):
                return None
            at, end, row = at + 1, start + size, first
            out.append(_OFFSET)
            thrift.put_varint(out, (start + shift) << 1)
            out += data[sized:at]
        if not count or end > sum(chunk) or row >= rows:
            return None
        _, whole = thrift.parse(data, at, after=fields.OffsetIndex.PAGES)
    except (ValueError, IndexError):
        return None
    return (count, bytes(out) + data[at:]) if whole == len(data) else None


def _count(data: bytes) -> tuple[int, int]:
    """How many pages an offset index has, and where the first of them is."""
    if data[0] != _PAGES or data[1] & 15 != thrift.STRUCT:
        raise ValueError("that is no offset index")
    return thrift.varint(data, 2) if data[1] >> 4 == 15 else (data[1] >> 4, 2)


def _number(data: bytes, at: int, tag: int) -> tuple[int, int]:
    raw, end = thrift.varint(data, at + 1)
    if data[at] != tag or raw & 1:  # in Thrift's zigzag, odd numbers are negative
        raise ValueError("that is no page")
    return raw >> 1, end


def fits(data: bytes, pages: int, kind: layout.Layout) -> bool:
    """Whether bytes are a column index of so many pages, with bounds of values of the right size for all that have
    any. Some writers have left bounds out where readers rely on them."""
    try:
        index, end = thrift.parse(data)
    except ValueError:
        return False
    lists = []
    for number in (fields.ColumnIndex.NULL_PAGES, fields.ColumnIndex.MINS, fields.ColumnIndex.MAXES):
        code, value = index.get(number, (0, None))
        if code != thrift.LIST or len(value[1]) != pages:
            return False
        lists.append(value[1])
    width = kind.length or _WIDTHS.get(kind.physical)
    right = all(
        is_null or width is None or len(low) == len(high) == width for is_null, low, high in zip(*lists, strict=True)
    )
    return right and end == len(data)
