"""Joins the chunks of a column whose pages are all indexes into dictionaries. The dictionaries are merged, and pyarrow
decodes every page under a dictionary of ranks, so numbers come out instead of values; it encodes these, and their
dictionary is exchanged for the one of values. No value is decoded but those of dictionaries."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import format_fields, page_headers, parquet_footer
from iceberg_compaction.formats.parquet.join import (
    forged_file,
    joined_column,
    merge_indexes,
    merge_statistics,
    merged_dictionary,
    page_bytes,
    ways,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import numpy.typing as npt

    from iceberg_compaction.formats.parquet import page_layout, thrift
    from iceberg_compaction.formats.parquet.join import source_chunks

_INDEX = 4  # bytes of a rank
_NO_LIMIT = 2**30  # bytes of a dictionary
_AT_ONCE = 2**18  # rows that are compared
_TAIL = 2**20  # bytes behind the pages that hold the indexes and the footer
# Arguments of pyarrow's writer that speak of columns by name, or of columns with other values than ranks.
_OF_VALUES = (
    "use_dictionary",
    "write_statistics",
    "dictionary_pagesize_limit",
    "bloom_filter_options",
    "sorting_columns",
    "column_encoding",
    "use_byte_stream_split",
    "write_batch_size",
)


def join(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    merged: merged_dictionary.MergedDictionary,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn:
    """The column of the joined row group. Row groups that lack it get a page of nulls. `arguments` are those of
    pyarrow's writer. ValueError: the encoded ranks are not those that were decoded."""
    ranks = decoded(groups, column, layout, merged.ranks)
    encoded = _Encoded(ranks, arguments)
    if [level for level in encoded.repetitions if level] != [level for level in layout.repetitions if level]:
        raise ValueError("indexes of a dictionary were encoded with other levels")
    if not encoded.holds(ranks):
        raise ValueError("indexes of a dictionary have changed while they were encoded")
    dictionary = merged.values.take(pa.array(encoded.dictionary()))
    body = merged_dictionary.plain(dictionary)
    page = page_bytes.compose(
        page_headers.DICTIONARY, len(dictionary), page_bytes.compressed(body, encoded.chunk.codec), len(body)
    )
    chunk, pages = encoded.chunk, encoded.pages()
    shift = len(page) - chunk.data_pages[0]
    locations = encoded.page_locations()
    counts = joined_column.page_counts([chunk])
    if any(encoding not in ways.DICTIONARY_ENCODINGS for _, encoding in counts):
        raise ValueError("indexes of a dictionary were encoded as plain numbers")
    return joined_column.JoinedColumn(
        pieces=[page, pages],
        codec=chunk.codec,
        values=chunk.values,
        uncompressed=chunk.uncompressed - encoded.dictionary_size + page_headers.header(page, 0).body + len(body),
        dictionary_bytes=len(page),
        encodings=tuple(sorted(chunk.encodings)),
        page_counts=counts | {(page_headers.DICTIONARY, page_headers.PLAIN): 1},
        statistics=merge_statistics.of_column(groups, column, layout),
        page_locations=None
        if locations is None
        else tuple(each._replace(offset=each.offset + shift) for each in locations),
        bounds=_bounds(encoded, merged, layout, len(locations)) if locations and merged.ordered else None,
    )


def decoded(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    dictionaries: Sequence[merged_dictionary.Ranks],
) -> pa.Table:
    """The ranks of all values: what pyarrow decodes under these dictionaries of ranks, one for each row group that has
    the column."""
    sources = [group.chunk(column) for group in groups]
    codec = next(chunk.chunk.codec for chunk in sources if chunk is not None)
    ranks, forged = iter(dictionaries), []
    for group, chunk in zip(groups, sources, strict=True):
        if chunk is None:
            rows = group.group.rows
            page, _ = page_bytes.nulls(rows, codec, layout.repetitions)
            forged.append(forged_file.ForgedChunk(rows=rows, values=rows, dictionary=None, pages=[page]))
            continue
        raw = next(ranks).tobytes()
        dictionary = page_bytes.compose(
            page_headers.DICTIONARY, len(raw) // _INDEX, page_bytes.compressed(raw, codec), len(raw)
        )
        values = chunk.chunk.values
        forged.append(
            forged_file.ForgedChunk(rows=chunk.rows, values=values, dictionary=dictionary, pages=[chunk.pages])
        )
    return forged_file.read("INT32", 0, layout.repetitions, codec, forged)


class _Encoded:
    """A file of ranks, encoded by pyarrow as it would encode the values."""

    def __init__(self, ranks: pa.Table, arguments: Mapping[str, Any]) -> None:
        few = {name: value for name, value in arguments.items() if name not in _OF_VALUES}
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(
            sink, ranks.schema, use_dictionary=True, dictionary_pagesize_limit=_NO_LIMIT, **few
        ) as writer:
            writer.write_table(ranks, row_group_size=ranks.num_rows)
        self._data = sink.getvalue()
        self._view = memoryview(self._data)
        footer = parquet_footer.parse("", bytes(self._view[-_TAIL:]), len(self._view))
        ((self.chunk,),) = [group.chunks for group in footer.groups]
        self.repetitions = footer.leaves[0].layout.repetitions
        self.dictionary_size = 0  # without compression, header included

    def holds(self, ranks: pa.Table) -> bool:
        """Whether these are the ranks that were encoded, all of them; decoded bit by bit, to save memory."""
        expected, at = ranks.column(0), 0
        for batch in pq.ParquetFile(pa.BufferReader(self._data)).iter_batches(_AT_ONCE, use_threads=False):
            part = pa.chunked_array([batch.column(0)])
            if not part.equals(expected.slice(at, len(part))):
                return False
            at += len(part)
        return at == len(expected)

    def dictionary(self) -> npt.NDArray[np.int32]:
        """The ranks in the order of the dictionary."""
        page = bytes(self._view[self.chunk.start : self.chunk.data_pages[0]])
        head = page_headers.header(page, 0)
        if head.kind != page_headers.DICTIONARY:
            raise ValueError("indexes of a dictionary were encoded without one")
        self.dictionary_size = head.body + head.uncompressed
        raw = page_bytes.decompressed(
            page[head.body : head.body + head.compressed], self.chunk.codec, head.uncompressed
        )
        return np.frombuffer(raw, np.int32)

    def pages(self) -> memoryview:
        """All data pages."""
        start, length = self.chunk.data_pages
        return self._view[start : start + length]

    def index(self, at: int, length: int) -> bytes | None:
        start, count = (format_fields.integer(self.chunk.raw, number, 0) for number in (at, length))
        return bytes(self._view[start : start + count]) if start and count else None

    def page_locations(self) -> list[joined_column.PageLocation] | None:
        index = self.index(format_fields.Column.OFFSET_INDEX, format_fields.Column.OFFSET_INDEX_LENGTH)
        return merge_indexes.page_locations(index, *self.chunk.data_pages, self.chunk.values)


def _bounds(
    encoded: _Encoded, merged: merged_dictionary.MergedDictionary, layout: page_layout.Layout, pages: int
) -> thrift.Struct | None:
    """The bounds of pages: ranks have the order of values, so the bounds of ranks become those of values."""
    index = encoded.index(format_fields.Column.COLUMN_INDEX, format_fields.Column.COLUMN_INDEX_LENGTH)
    if index is None:
        return None
    return merge_indexes.of_ranks(index, lambda rank: merged_dictionary.plain_value(merged.values, rank), layout, pages)
