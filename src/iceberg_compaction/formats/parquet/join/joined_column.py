"""A column of the joined row group: its bytes in pieces, its entry in the footer, and its page indexes. All offsets are
relative to the first byte of the column."""

from __future__ import annotations

import collections
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from iceberg_compaction.formats.parquet import (
    assemble,
    format_fields,
    page_headers,
    page_layout,
    parquet_footer,
    thrift,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class PageLocation(NamedTuple):
    """A data page: where it begins, its bytes with the header, and its first row."""

    offset: int
    size: int
    first_row: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedColumn:
    """A column whose bytes are ready to be written."""

    pieces: Sequence[Any]  # bytes-like, in order
    codec: str
    values: int
    uncompressed: int
    dictionary_bytes: int  # of the dictionary page at the beginning; 0: there is none
    encodings: tuple[int, ...]
    page_counts: dict[tuple[int, int], int]  # pages by their type and encoding
    statistics: thrift.Struct
    page_locations: tuple[PageLocation, ...] | None  # None: not all of them are known
    bounds: thrift.Struct | None  # a column index
    deleted_nulls: int = 0  # of the rows that were left out

    @property
    def length(self) -> int:
        return sum(map(len, self.pieces))

    def footer_column(self, leaf: parquet_footer.Leaf, start: int) -> assemble.FooterColumn:
        """The entry of the column in the footer of a file in which it begins at `start`."""
        counts = [
            {1: (thrift.I32, kind), 2: (thrift.I32, encoding), 3: (thrift.I32, count)}
            for (kind, encoding), count in sorted(self.page_counts.items())
        ]
        meta: thrift.Struct = {
            format_fields.Meta.TYPE: (thrift.I32, page_layout.PHYSICAL.index(leaf.layout.physical)),
            format_fields.Meta.ENCODINGS: (thrift.LIST, (thrift.I32, list(self.encodings))),
            format_fields.Meta.PATH: (thrift.LIST, (thrift.BINARY, [name.encode() for name in leaf.path])),
            format_fields.Meta.CODEC: (thrift.I32, parquet_footer.CODECS.index(self.codec)),
            format_fields.Meta.VALUES: (thrift.I64, self.values),
            format_fields.Meta.UNCOMPRESSED: (thrift.I64, self.uncompressed),
            format_fields.Meta.COMPRESSED: (thrift.I64, self.length),
            format_fields.Meta.DATA_PAGE: (thrift.I64, start + self.dictionary_bytes),
        }
        if self.dictionary_bytes:
            meta[format_fields.Meta.DICTIONARY_PAGE] = (thrift.I64, start)
        if self.statistics:
            meta[format_fields.Meta.STATISTICS] = (thrift.STRUCT, self.statistics)
        if counts:
            meta[format_fields.Meta.ENCODING_STATS] = (thrift.LIST, (thrift.STRUCT, counts))
        raw: thrift.Struct = {
            format_fields.Column.FILE_OFFSET: (thrift.I64, 0),
            format_fields.Column.META: (thrift.STRUCT, meta),
        }
        return assemble.FooterColumn(raw, (start, self.length), self.uncompressed)

    def offset_index(self, start: int) -> bytes | None:
        """The offset index of the column in a file in which it begins at `start`."""
        if self.page_locations is None:
            return None
        pages = [
            {
                1: (thrift.I64, start + location.offset),
                2: (thrift.I32, location.size),
                3: (thrift.I64, location.first_row),
            }
            for location in self.page_locations
        ]
        return thrift.compose({1: (thrift.LIST, (thrift.STRUCT, pages))})

    def column_index(self) -> bytes | None:
        """The bounds of the column's pages. Without offsets they are of no use."""
        return None if self.bounds is None or self.page_locations is None else thrift.compose(self.bounds)


def page_counts(chunks: Iterable[parquet_footer.Chunk]) -> dict[tuple[int, int], int]:
    """Pages of all chunks by type and encoding, dictionaries left out; empty if a chunk does not count them."""
    total: collections.Counter[tuple[int, int]] = collections.Counter()
    for chunk in chunks:
        if not chunk.page_counts:
            return {}
        total.update(chunk.page_counts)
    return {key: count for key, count in total.items() if key[0] != page_headers.DICTIONARY}
