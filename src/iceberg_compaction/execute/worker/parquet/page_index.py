"""The two page indexes of a column: where its pages are, and between which bounds their values lie. A file has
thousands of pages, so that they are looked at and moved all at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.execute.worker.parquet import fields, thrift

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker.parquet import layout, ranges

_PAGES = fields.OffsetIndex.PAGES << 4 | thrift.LIST
_OFFSET, _SIZE, _FIRST_ROW, _STOP = 0x10 | thrift.I64, 0x10 | thrift.I32, 0x10 | thrift.I64, 0  # tags of a page
_WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_LONGEST = 9  # bytes of a varint that is no more than 63 bits


def moved(data: bytes, shift: int, chunk: ranges.Span, rows: int) -> tuple[int, bytes] | None:
    """The number of pages, and the offset index with all of them `shift` bytes later. None: the index is not one of a
    column whose bytes are `chunk` and whose row group has so many rows."""
    try:
        return _moved(data, shift, chunk, rows)
    except (ValueError, IndexError):
        return None


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


def _moved(data: bytes, shift: int, chunk: ranges.Span, rows: int) -> tuple[int, bytes] | None:
    if data[0] != _PAGES or data[1] & 15 != thrift.STRUCT:
        return None
    count, begin = data[1] >> 4, 2
    if count == 15:
        count, begin = thrift.varint(data, 2)
    raw = np.frombuffer(data, np.uint8)
    # Tags and the last bytes of numbers are below 128, all others are not: seven such bytes make a page.
    ends = np.flatnonzero(raw[begin:] < 128)[: 7 * count] + begin
    if not count or len(ends) != 7 * count:
        return None
    starts = np.concatenate(([begin], ends[:-1] + 1)).reshape(count, 7)
    ends = ends.reshape(count, 7)
    if (starts[:, ::2] != ends[:, ::2]).any() or (raw[ends[:, ::2]] != (_OFFSET, _SIZE, _FIRST_ROW, _STOP)).any():
        return None
    offsets, sizes, firsts = _numbers(raw, starts[:, 1::2], ends[:, 1::2]).T
    begins, stops = np.append(offsets, sum(chunk)), np.append(chunk[0], offsets + sizes)
    in_order = (begins >= stops).all() and (sizes > 0).all()
    if not in_order or firsts[0] != 0 or (np.diff(firsts) <= 0).any() or firsts[-1] >= rows:
        return None
    out = bytearray(data[:begin])
    places = zip((offsets + shift).tolist(), (ends[:, 1] + 1).tolist(), (ends[:, 6] + 1).tolist(), strict=True)
    for offset, sized, end in places:
        out.append(_OFFSET)
        thrift.put_varint(out, offset << 1)
        out += data[sized:end]
    rest = int(ends[-1, -1]) + 1
    if thrift.parse(data, rest, after=fields.OffsetIndex.PAGES)[1] != len(data):
        return None
    return count, bytes(out) + data[rest:]


def _numbers(raw: np.ndarray, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """Numbers that are not negative, in Thrift's zigzag."""
    longest = int((ends - starts).max()) + 1
    if longest > _LONGEST:
        raise ValueError("a Thrift number is too long")
    found = np.zeros(starts.shape, dtype=np.int64)
    for place in range(longest):
        at = starts + place
        byte = raw[np.minimum(at, ends)].astype(np.int64) & 127
        found |= np.where(at <= ends, byte << (7 * place), 0)
    if (found & 1).any():
        raise ValueError("a number is negative")
    return found >> 1
