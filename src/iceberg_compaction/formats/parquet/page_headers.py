"""Reads the headers of pages: the size of a page once it is decompressed, and the number of its values. Headers are
read one by one; the bytes between them are not read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Iterator

DICTIONARY = 2  # Parquet's number for that type of page
_HEADER = 512  # bytes read for a header at first; statistics of long values may make it longer
_LONGEST = 2**20
_TYPE, _UNCOMPRESSED, _COMPRESSED, _CRC, _DATA, _INDEX, _DICTIONARY, _DATA_2 = range(1, 9)
_VALUES = 1


@dataclass(frozen=True, slots=True)
class Page:
    """A page as its header describes it."""

    kind: int
    bytes: int  # uncompressed
    values: int


def first(source: Any, start: int) -> Page:
    """The page that begins at an offset. Raises ValueError if there is none."""
    return _page(source, start)[0]


def all_pages(source: Any, start: int, length: int) -> Iterator[Page]:
    """The pages of a column chunk."""
    end = start + length
    while start < end:
        page, start = _page(source, start)
        yield page


def _page(source: Any, start: int) -> tuple[Page, int]:
    """A page, and the offset of the next one."""
    size = _HEADER
    while True:
        source.seek(start)
        data = bytes(source.read(size))
        try:
            header, after = thrift.parse(data)
            break
        except ValueError:
            if len(data) < size or size >= _LONGEST:
                raise ValueError("a page has no header that can be understood") from None
            size *= 8
    compressed = format_fields.integer(header, _COMPRESSED)
    bytes_of = format_fields.integer(header, _UNCOMPRESSED)
    if compressed < 0 or bytes_of < 0:
        raise ValueError("a page says that it has less than no bytes")
    below = (
        format_fields.child(header, _DATA)
        or format_fields.child(header, _DATA_2)
        or format_fields.child(header, _DICTIONARY)
        or {}
    )
    kind, values = format_fields.integer(header, _TYPE), format_fields.integer(below, _VALUES, 0)
    return Page(kind, bytes_of, values), start + after + compressed
