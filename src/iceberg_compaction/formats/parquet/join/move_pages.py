"""Joins the chunks of a column by moving their pages as bytes: chunks without dictionaries, or with equal ones. Pages
are complete in themselves, so the joined column is one page after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import format_fields, page_headers, thrift
from iceberg_compaction.formats.parquet.join import joined_column, merge_indexes, merge_statistics, page_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import source_chunks

_OFFSETS = (format_fields.Column.OFFSET_INDEX, format_fields.Column.OFFSET_INDEX_LENGTH)
_BOUNDS = (format_fields.Column.COLUMN_INDEX, format_fields.Column.COLUMN_INDEX_LENGTH)


def join(
    groups: Sequence[source_chunks.LoadedGroup], column: int, layout: page_layout.Layout
) -> joined_column.JoinedColumn:
    """The column of the joined row group. Row groups that lack it get a page of nulls."""
    sources = [group.chunk(column) for group in groups]
    first = next(chunk for chunk in sources if chunk is not None)
    pages = MovedPages(first.chunk.codec, layout, first.dictionary)
    for group, chunk in zip(groups, sources, strict=True):
        if chunk is None:
            pages.add_nulls(group.group.rows)
        else:
            pages.add(chunk, *indexes(group, column))
    return pages.joined(merge_statistics.of_column(groups, column, layout))


def indexes(group: source_chunks.LoadedGroup, column: int) -> tuple[bytes | None, bytes | None]:
    """The offset index and the column index of a column that a row group has."""
    number = group.columns[column]
    assert number is not None
    return group.index(number, *_OFFSETS), group.index(number, *_BOUNDS)


class MovedPages:
    """The pages of a column, chunk after chunk, behind the dictionary that all of them share, if they have one."""

    def __init__(self, codec: str, layout: page_layout.Layout, dictionary: bytes = b"") -> None:
        self._codec = codec
        self._layout = layout
        self._dictionary = dictionary
        self._pieces: list[Any] = [self._dictionary] if self._dictionary else []
        head = page_headers.header(self._dictionary, 0) if self._dictionary else None
        self._dictionary_size = head.body + head.uncompressed if head is not None else 0
        self._at, self._uncompressed = len(self._dictionary), self._dictionary_size
        self._row = self._values = 0
        self._chunks: list[source_chunks.SourceChunk] = []
        self._null_pages = 0
        self._locations: list[joined_column.PageLocation] | None = []
        self._bounds = merge_indexes.Bounds(layout)

    def add(self, chunk: source_chunks.SourceChunk, offsets: bytes | None, bounds: bytes | None) -> None:
        start, length = chunk.chunk.data_pages
        locations = (
            merge_indexes.page_locations(offsets, start, length, chunk.rows) if self._locations is not None else None
        )
        if locations is None or self._locations is None:
            self._locations = None
        else:
            self._bounds.add(bounds, len(locations))
            self._locations += [
                joined_column.PageLocation(each.offset - start + self._at, each.size, each.first_row + self._row)
                for each in locations
            ]
        self._pieces.append(chunk.pages)
        self._chunks.append(chunk)
        self._advance(length, chunk.rows, chunk.chunk.values, chunk.chunk.uncompressed - self._dictionary_size)

    def add_nulls(self, rows: int) -> None:
        page, uncompressed = page_bytes.nulls(rows, self._codec, self._layout.repetitions)
        if self._locations is not None:
            self._locations.append(joined_column.PageLocation(self._at, len(page), self._row))
            self._bounds.add_nulls(rows)
        self._pieces.append(page)
        self._null_pages += 1
        self._advance(len(page), rows, rows, uncompressed)

    def _advance(self, length: int, rows: int, values: int, uncompressed: int) -> None:
        self._at += length
        self._row += rows
        self._values += values
        self._uncompressed += uncompressed

    def joined(self, statistics: thrift.Struct, deleted_nulls: int = 0) -> joined_column.JoinedColumn:
        chunks = [each.chunk for each in self._chunks]
        counts = joined_column.page_counts(chunks)
        encodings = frozenset[int]().union(*(chunk.encodings for chunk in chunks))
        if self._null_pages:
            encodings |= {page_headers.PLAIN, page_headers.RLE}
            key = (page_headers.DATA, page_headers.PLAIN)
            counts = counts and counts | {key: counts.get(key, 0) + self._null_pages}
        if self._dictionary and counts:
            counts = counts | {(page_headers.DICTIONARY, page_headers.PLAIN): 1}
        return joined_column.JoinedColumn(
            pieces=self._pieces,
            codec=self._codec,
            values=self._values,
            uncompressed=self._uncompressed,
            dictionary_bytes=len(self._dictionary),
            encodings=tuple(sorted(encodings)),
            page_counts=counts,
            statistics=statistics,
            page_locations=None if self._locations is None else tuple(self._locations),
            bounds=self._bounds.merged(),
            deleted_nulls=deleted_nulls,
        )
