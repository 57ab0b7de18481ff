"""The way that each column takes into a joined row group, judged by footers alone: its pages move as bytes, its indexes
are mapped to a merged dictionary, its dictionaries become pages, or its values are decoded and encoded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.formats.parquet import format_fields, page_headers
from iceberg_compaction.formats.parquet.join import page_bytes, value_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.formats.parquet import page_layout, parquet_footer

DICTIONARY_ENCODINGS = frozenset((2, 8))  # PLAIN_DICTIONARY, RLE_DICTIONARY
LEVEL_ENCODINGS = frozenset((3, 4))  # RLE, BIT_PACKED
# Every page costs a reader a few microseconds, so small ones are encoded into larger ones. A page is large enough by
# its bytes or by its rows: an encoder makes no pages of more rows than this either.
_LEAST_PAGE = 32 * 2**10  # bytes without compression
_LEAST_PAGE_ROWS = 10_000
NUMBERS = ("INT32", "INT64", "BOOLEAN")  # physical types whose values have the order of numbers
_REPEATED = 2
_PLACE = 9  # bytes of a page in an offset index, about
_MOST_OF_CHUNK = 0.5  # that a dictionary may take where it saves anything
_BYTES_PER_VALUE = 1.0  # in a chunk whose dictionary takes that much


class JoinWay(str, Enum):
    PAGES = "pages"
    INDEXES = "indexes"
    ENTRIES = "entries"  # of dictionaries that save nothing
    PLAIN = "plain"  # values of the rows that stay, where others are left out
    DECODE = "decode"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnWay:
    """The way of a column, and the bytes of its chunks."""

    way: JoinWay
    bytes: int
    uncompressed: int


INDEXED = (JoinWay.INDEXES, JoinWay.ENTRIES)  # ways of columns with dictionaries


def judge(chunks: Sequence[parquet_footer.Chunk | None], layout: page_layout.Layout) -> ColumnWay:
    """The way of a column, given its chunk in each row group; None: the row group lacks the column."""
    present = [chunk for chunk in chunks if chunk is not None]
    return ColumnWay(
        way=_way(present, layout, has_gaps=len(present) < len(chunks)),
        bytes=sum(chunk.length for chunk in present),
        uncompressed=sum(chunk.uncompressed for chunk in present),
    )


def without_rows(way: JoinWay, chunks: Sequence[parquet_footer.Chunk | None], layout: page_layout.Layout) -> JoinWay:
    """The way of a column that loses rows, given the one that it would take. The bounds of the rows that stay must be
    told by numbers or bytes, and NaNs would have to be counted anew. Values that are packed in another way than plainly
    would take more as plain ones. Nulls must be counted in all chunks, so that the proof can compare them."""
    is_decimal = bool(layout.annotation) and layout.annotation[0] == "DECIMAL"
    is_float = layout.physical in ("FLOAT", "DOUBLE")
    is_counted = all(chunk is None or format_fields.Statistics.NULLS in chunk.statistics for chunk in chunks)
    if way is JoinWay.DECODE or is_float or not is_counted or value_order.sort_key(layout) is None:
        return JoinWay.DECODE
    if way is JoinWay.INDEXES:
        return JoinWay.DECODE if is_decimal and layout.physical == "BYTE_ARRAY" else way
    return JoinWay.PLAIN if can_be_plain(chunks, layout) else JoinWay.DECODE


def can_be_plain(chunks: Sequence[parquet_footer.Chunk | None], layout: page_layout.Layout) -> bool:
    """Whether values may be decoded and encoded as plain numbers or bytes: they have the order of these, and are stored
    as such or in dictionaries."""
    encodings = frozenset[int]().union(*(chunk.encodings for chunk in chunks if chunk is not None))
    is_decimal = bool(layout.annotation) and layout.annotation[0] == "DECIMAL"
    is_ordered = layout.physical in NUMBERS or not is_decimal
    is_plain = encodings <= DICTIONARY_ENCODINGS | LEVEL_ENCODINGS | {page_headers.PLAIN}
    return is_ordered and is_plain and _REPEATED not in layout.repetitions


def can_unfold(layout: page_layout.Layout) -> bool:
    """Whether dictionaries of a column may become pages: its levels are at most the flags of its nulls."""
    return layout.repetitions in ((0,), (1,))


def _way(chunks: Sequence[parquet_footer.Chunk], layout: page_layout.Layout, *, has_gaps: bool) -> JoinWay:
    if not chunks or any(chunk.codec != chunks[0].codec or not chunk.length for chunk in chunks):
        return JoinWay.DECODE
    kinds = {_kind(chunk) for chunk in chunks}
    kind = JoinWay.ENTRIES if kinds == set(INDEXED) else next(iter(kinds))
    if JoinWay.DECODE in kinds or (JoinWay.PAGES in kinds and len(kinds) > 1):
        return JoinWay.DECODE
    is_composed = has_gaps or kind in INDEXED
    if is_composed and not page_bytes.can_compress(chunks[0].codec):
        return JoinWay.DECODE
    if kind is JoinWay.ENTRIES and (not can_unfold(layout) or _are_small(chunks, len(chunks))):
        return JoinWay.DECODE
    return JoinWay.DECODE if kind is JoinWay.PAGES and has_small_pages(chunks) else kind


def _kind(chunk: parquet_footer.Chunk) -> JoinWay:
    has_dictionary = chunk.data_pages[0] != chunk.start
    counts = _data_pages(chunk)
    encodings = counts.keys() or chunk.encodings - LEVEL_ENCODINGS
    if not has_dictionary:
        return JoinWay.DECODE if encodings & DICTIONARY_ENCODINGS else JoinWay.PAGES
    # The list of encodings names those of dictionaries and levels too; only counts tell that no page is plain.
    if not counts or not encodings <= DICTIONARY_ENCODINGS:
        return JoinWay.DECODE
    dictionary = chunk.data_pages[0] - chunk.start
    is_useless = dictionary > _MOST_OF_CHUNK * chunk.length and chunk.length > _BYTES_PER_VALUE * chunk.values
    return JoinWay.ENTRIES if is_useless else JoinWay.INDEXES


def _data_pages(chunk: parquet_footer.Chunk) -> dict[int, int]:
    """The number of data pages of each encoding; empty if the footer does not count them."""
    return {
        encoding: count
        for (kind, encoding), count in chunk.page_counts.items()
        if count and kind in (page_headers.DATA, page_headers.DATA_2)
    }


def has_small_pages(chunks: Sequence[parquet_footer.Chunk]) -> bool:
    """Whether readers would suffer from the pages of a column."""
    return _are_small(chunks, sum(_pages(chunk) for chunk in chunks))


def _are_small(chunks: Sequence[parquet_footer.Chunk], pages: int) -> bool:
    """Whether so many pages would be small, on average."""
    is_small = sum(chunk.uncompressed for chunk in chunks) < _LEAST_PAGE * pages
    return pages > 1 and is_small and sum(chunk.values for chunk in chunks) < _LEAST_PAGE_ROWS * pages


def _pages(chunk: parquet_footer.Chunk) -> int:
    counted = sum(_data_pages(chunk).values())
    return counted or max(1, format_fields.integer(chunk.raw, format_fields.Column.OFFSET_INDEX_LENGTH, 0) // _PLACE)
