"""Checks by their headers that the pages of a chunk are those that its footer speaks of, and by their checksums that
they are whole. Pages that move as bytes are not decoded, so nothing else would notice: values too many or too few would
shift the rows of all chunks behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from isal import isal_zlib

from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.formats.parquet.join import ways

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import source_chunks

_DATA_PAGES = (page_headers.DATA, page_headers.DATA_2)
_REPEATED = 2


def fits(chunk: source_chunks.SourceChunk, layout: page_layout.Layout, way: ways.JoinWay) -> bool:
    """Whether the chunk consists of data pages in the encodings of its way, with as many values and rows as its footer
    counts. Certain writers put a dictionary where data should begin, and readers take a page without values for the
    end. ValueError: a page is damaged."""
    try:
        headers = _headers(chunk)
        dictionary = page_headers.header(chunk.dictionary, 0) if chunk.dictionary else None
    except ValueError:
        return False
    if dictionary and (dictionary.kind != page_headers.DICTIONARY or dictionary.end != len(chunk.dictionary)):
        return False
    if not all(head.kind in _DATA_PAGES and head.values > 0 for head in headers):
        return False
    if any((head.encoding in ways.DICTIONARY_ENCODINGS) is not (way in ways.INDEXED) for head in headers):
        return False
    if any(head.encoding not in chunk.chunk.encodings or not _has_levels(head) for head in headers):
        return False
    values = sum(head.values for head in headers)
    if values != chunk.chunk.values or (_REPEATED not in layout.repetitions and values != chunk.rows):
        return False
    # Only pages of version 2 count their rows.
    if all(head.rows is not None for head in headers) and sum(head.rows or 0 for head in headers) != chunk.rows:
        return False
    _check_sums(chunk.data, headers)
    if dictionary:  # a merged one gets a new checksum, which would hide the damage
        _check_sums(chunk.dictionary, [dictionary])
    return True


def _has_levels(head: page_headers.PageHeader) -> bool:
    """Whether the levels of a page have an encoding that Parquet allows. No checksum covers a header."""
    return ways.LEVEL_ENCODINGS.issuperset(head.level_encodings)


def _check_sums(data: bytes, headers: list[page_headers.PageHeader]) -> None:
    view = memoryview(data)
    for head in headers:
        if head.crc is not None and head.crc != isal_zlib.crc32(view[head.body : head.end]):
            raise ValueError("a page has another checksum than its header says")


def _headers(chunk: source_chunks.SourceChunk) -> list[page_headers.PageHeader]:
    """The headers of all pages behind the dictionary. ValueError: the pages do not fill the chunk."""
    at, headers = chunk.first_page, []
    while at < chunk.end:
        head = page_headers.header(chunk.data, at)
        headers.append(head)
        at = head.end
    if at != chunk.end:
        raise ValueError("the pages of a column do not end where it does")
    return headers
