"""Checks by their headers that the pages of a chunk are those that its footer speaks of. Pages that move as bytes are
not decoded, so nothing else would notice: values too many or too few would shift the rows of all chunks behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.formats.parquet.join import page_bytes, ways

if TYPE_CHECKING:
    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import source_chunks

_DATA_PAGES = (page_bytes.DATA, page_bytes.DATA_2)
_REPEATED = 2


def fits(chunk: source_chunks.SourceChunk, layout: page_layout.Layout, way: ways.JoinWay) -> bool:
    """Whether the chunk consists of data pages in the encodings of its way, with as many values and rows as its footer
    counts. Certain writers put a dictionary where data should begin, and readers take a page without values for the
    end."""
    try:
        headers = _headers(chunk)
        if chunk.dictionary and not _is_dictionary(chunk.dictionary):
            return False
    except ValueError:
        return False
    if not all(head.kind in _DATA_PAGES and head.values > 0 for head in headers):
        return False
    if any((head.encoding in ways.DICTIONARY_ENCODINGS) is not (way is ways.JoinWay.INDEXES) for head in headers):
        return False
    values = sum(head.values for head in headers)
    if values != chunk.chunk.values or (_REPEATED not in layout.repetitions and values != chunk.rows):
        return False
    # Only pages of version 2 count their rows.
    return any(head.rows is None for head in headers) or sum(head.rows or 0 for head in headers) == chunk.rows


def _headers(chunk: source_chunks.SourceChunk) -> list[page_bytes.Header]:
    """The headers of all pages behind the dictionary. ValueError: the pages do not fill the chunk."""
    at, headers = chunk.first_page, []
    while at < chunk.end:
        head = page_bytes.header(chunk.data, at)
        if head.compressed < 0:
            raise ValueError("a page has less than no bytes")
        headers.append(head)
        at = head.body + head.compressed
    if at != chunk.end:
        raise ValueError("the pages of a column do not end where it does")
    return headers


def _is_dictionary(page: bytes) -> bool:
    head = page_bytes.header(page, 0)
    return head.kind == page_bytes.DICTIONARY and head.body + head.compressed == len(page)
