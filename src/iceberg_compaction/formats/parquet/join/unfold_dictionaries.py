"""Joins the chunks of a column whose dictionaries save nothing, because hardly two values are equal. Such a dictionary
holds the plain values, mostly in the order of rows, so its compressed bytes become a data page of version 2, whose
levels lie outside the compression. Values in another order are put in that of rows, if all have the same width."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow.compute as pc

from iceberg_compaction.formats.parquet import format_fields, page_headers, thrift
from iceberg_compaction.formats.parquet.join import (
    joined_column,
    merge_indexes,
    merge_statistics,
    merged_dictionary,
    page_bytes,
    remap_indexes,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import source_chunks

_WIDTHS = {"INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}
_LENGTH = 4  # bytes of the length of a text
_PLAIN = (page_headers.PLAIN, 2)  # encodings of a dictionary, by the names that it has had


def join(
    groups: Sequence[source_chunks.LoadedGroup], column: int, layout: page_layout.Layout, most: int
) -> joined_column.JoinedColumn | None:
    """The column of the joined row group: a page for each row group. None: it must be decoded, because its values
    differ in width and are in another order, or take more than `most` bytes. ValueError: a dictionary does not hold
    what its header says."""
    dictionaries = [chunk and _Dictionary(chunk, layout) for chunk in (group.chunk(column) for group in groups)]
    present = [dictionary for dictionary in dictionaries if dictionary is not None]
    if any(each.size > most for each in present):
        return None
    indexes = remap_indexes.decoded(
        groups, column, layout, [np.arange(each.entries, dtype=np.int32) for each in present]
    )
    pages = _UnfoldedPages(present[0].codec, layout)
    values = indexes.column(0).combine_chunks()
    for group, dictionary in zip(groups, dictionaries, strict=True):
        of_group = values.slice(pages.rows, group.group.rows)
        if dictionary is None or of_group.null_count == len(of_group):
            pages.add_nulls(len(of_group))
        elif (payload := dictionary.in_rows(of_group.drop_null().to_numpy())) is None:
            return None
        else:
            pages.add(of_group, *payload, dictionary.statistics)
    return pages.joined(merge_statistics.of_column(groups, column, layout))


class _Dictionary:
    """A dictionary page, whose values are not decoded."""

    def __init__(self, chunk: source_chunks.SourceChunk, layout: page_layout.Layout) -> None:
        page = chunk.dictionary
        head = page_headers.header(page, 0)
        if head.kind != page_headers.DICTIONARY or head.encoding not in _PLAIN:
            raise ValueError("a column has no dictionary of plain values where its footer says so")
        self._payload, self._width = page[head.body : head.end], layout.length or _WIDTHS.get(layout.physical, 0)
        self.entries, self.size, self.codec = head.values, head.uncompressed, chunk.chunk.codec
        self.statistics = chunk.chunk.statistics
        if self._width and self.size != self.entries * self._width:
            raise ValueError("a dictionary has more or fewer bytes than its values take")
        if head.crc is None and head.values:  # PyIceberg writes no checksums, so only decoding shows damage
            # To decompress would not do: a codec that ends early is noticed by those who decode.
            values = merged_dictionary.decoded([page], [head], self.codec, layout)
            lengths = 0 if self._width else pc.sum(pc.binary_length(values)).as_py() or 0
            if len(values) * (self._width or _LENGTH) + lengths != self.size:
                raise ValueError("a dictionary has more or fewer bytes than its values take")

    def in_rows(self, indexes: np.ndarray[Any, Any]) -> tuple[bytes, int] | None:
        """Compressed bytes of the values that these indexes name, one after the other, and their size without
        compression. None: they cannot be told without decoding them."""
        if len(indexes) == self.entries and np.array_equal(indexes, np.arange(self.entries)):
            return self._payload, self.size
        if not self._width:
            return None
        entries = np.frombuffer(page_bytes.decompressed(self._payload, self.codec, self.size), f"V{self._width}")
        values = entries[indexes].tobytes()
        payload = page_bytes.compressed(values, self.codec)
        if page_bytes.decompressed(payload, self.codec, len(values)) != values:
            raise ValueError("values have changed while they were compressed")
        return payload, len(values)


class _UnfoldedPages:
    """The pages of the joined column."""

    def __init__(self, codec: str, layout: page_layout.Layout) -> None:
        self._codec, self._layout = codec, layout
        self._pieces: list[bytes] = []
        self._locations: list[joined_column.PageLocation] = []
        self._bounds = merge_indexes.Bounds(layout)
        self._at = self._uncompressed = self._null_pages = 0
        self.rows = 0

    def add_nulls(self, rows: int) -> None:
        page, uncompressed = page_bytes.nulls(rows, self._codec, self._layout.repetitions)
        self._bounds.add_nulls(rows)
        self._null_pages += 1
        self._append(page, rows, uncompressed)

    def add(self, values: pa.Array, payload: bytes, size: int, statistics: thrift.Struct) -> None:
        """Takes the payload of a page; `values` has nulls where the page has them."""
        levels = page_bytes.levels(values) if self._layout.repetitions[0] else b""
        page, head = page_bytes.compose_v2(len(values), values.null_count, levels, payload, size, self._codec)
        self._bounds.add(_bounds(statistics, values.null_count), 1)
        self._append(page, len(values), head + len(levels) + size)

    def _append(self, page: bytes, rows: int, uncompressed: int) -> None:
        self._locations.append(joined_column.PageLocation(self._at, len(page), self.rows))
        self._pieces.append(page)
        self._at, self.rows = self._at + len(page), self.rows + rows
        self._uncompressed += uncompressed

    def joined(self, statistics: thrift.Struct) -> joined_column.JoinedColumn:
        counts = {
            (page_headers.DATA, page_headers.PLAIN): self._null_pages,
            (page_headers.DATA_2, page_headers.PLAIN): len(self._pieces) - self._null_pages,
        }
        return joined_column.JoinedColumn(
            pieces=self._pieces,
            codec=self._codec,
            values=self.rows,
            uncompressed=self._uncompressed,
            dictionary_bytes=0,
            encodings=(page_headers.PLAIN, page_headers.RLE),
            page_counts={key: count for key, count in counts.items() if count},
            statistics=statistics,
            page_locations=tuple(self._locations),
            bounds=self._bounds.merged(),
        )


def _bounds(statistics: thrift.Struct, nulls: int) -> bytes | None:
    """The column index of a chunk that is one page; None: its bounds are not known."""
    low = format_fields.binary(statistics, format_fields.Statistics.MIN)
    high = format_fields.binary(statistics, format_fields.Statistics.MAX)
    return None if low is None or high is None else merge_indexes.of_page(low, high, nulls)
