"""Reads the headers of pages: their sizes, the number and encoding of their values, their checksums. From a file they
are read one by one; the bytes between them are not read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from iceberg_compaction.formats.parquet import format_fields, thrift

if TYPE_CHECKING:
    from collections.abc import Iterator

# Parquet's numbers for the types of pages, and for the encodings of pages that are composed here.
DATA, DICTIONARY, DATA_2 = 0, 2, 3
PLAIN, RLE, RLE_DICTIONARY = 0, 3, 8
_HEADER = 512  # bytes read for a header at first; statistics of long values may make it longer
_LONGEST = 2**20
_LEVELS = (3, 4)  # fields of a data page of version 1
_ALL_BITS = 2**32 - 1


class PageHeader(NamedTuple):
    """A page as its header describes it."""

    kind: int
    values: int
    encoding: int  # of values
    level_encodings: tuple[int, ...]  # in data pages of version 1 only; -1: the header lacks one
    rows: int | None  # in data pages of version 2 only
    uncompressed: int
    compressed: int
    crc: int | None  # of the compressed bytes; None: the writer made none
    body: int  # the offset of the page's bytes behind the header

    @property
    def end(self) -> int:
        """The offset of the next page."""
        return self.body + self.compressed


def header(data: bytes, at: int = 0) -> PageHeader:
    """The header that begins at an offset. Raises ValueError if there is none."""
    return _header(*thrift.parse(data, at))


def first(source: Any, start: int) -> PageHeader:
    """The page of a file that begins at an offset. Raises ValueError if there is none."""
    return _read(source, start)


def all_pages(source: Any, start: int, length: int) -> Iterator[PageHeader]:
    """The pages of a column chunk of a file."""
    end = start + length
    while start < end:
        page = _read(source, start)
        start += page.end
        yield page


def _read(source: Any, start: int) -> PageHeader:
    """A page; its offsets count from where it begins."""
    size = _HEADER
    while True:
        source.seek(start)
        data = bytes(source.read(size))
        try:
            raw, body = thrift.parse(data)
            break
        except ValueError:
            if len(data) < size or size >= _LONGEST:
                raise ValueError("a page has no header that can be understood") from None
            size *= 8
    return _header(raw, body)


def _header(raw: thrift.Struct, body: int) -> PageHeader:
    fields = format_fields.Page
    kind = format_fields.integer(raw, fields.TYPE)
    of_kind = {DATA: fields.DATA, DATA_2: fields.DATA_2, DICTIONARY: fields.DICTIONARY}.get(kind)
    below = {} if of_kind is None else format_fields.child(raw, of_kind) or {}
    crc = format_fields.optional(raw, fields.CRC)
    uncompressed = format_fields.integer(raw, fields.UNCOMPRESSED)
    compressed = format_fields.integer(raw, fields.COMPRESSED)
    if compressed < 0 or uncompressed < 0:
        raise ValueError("a page says that it has less than no bytes")
    return PageHeader(
        kind=kind,
        values=format_fields.integer(below, 1, 0),
        encoding=format_fields.integer(below, 4 if kind == DATA_2 else 2, PLAIN),
        level_encodings=tuple(format_fields.integer(below, field, -1) for field in _LEVELS) if kind == DATA else (),
        rows=format_fields.integer(below, 3) if kind == DATA_2 else None,
        uncompressed=uncompressed,
        compressed=compressed,
        crc=None if crc is None else crc & _ALL_BITS,
        body=body,
    )
