"""Has pyarrow encode ranks as it would encode the values that they stand for: indexes into a dictionary of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import format_fields, page_headers, parquet_footer, thrift
from iceberg_compaction.formats.parquet.join import encoded_ranks, joined_column, merge_indexes, page_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_LIMIT = 2**30  # bytes of a dictionary
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


def encode(ranks: pa.Table, repetitions: Sequence[int], arguments: Mapping[str, Any]) -> encoded_ranks.EncodedRanks:
    """The pages of the only column. `arguments` are those of pyarrow's writer. ValueError: the pages do not hold the
    ranks."""
    few = {name: value for name, value in arguments.items() if name not in _OF_VALUES}
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, ranks.schema, use_dictionary=True, dictionary_pagesize_limit=_NO_LIMIT, **few
    ) as writer:
        writer.write_table(ranks, row_group_size=ranks.num_rows)
    data = sink.getvalue()
    view = memoryview(data)
    footer = parquet_footer.parse("", bytes(view[-_TAIL:]), len(view))
    ((chunk,),) = [group.chunks for group in footer.groups]
    if [level for level in footer.leaves[0].layout.repetitions if level] != [level for level in repetitions if level]:
        raise ValueError("indexes of a dictionary were encoded with other levels")
    encoded_ranks.check(pq.ParquetFile(pa.BufferReader(data)), ranks.column(0))
    start, length = chunk.data_pages
    page = bytes(view[chunk.start : start])
    head = page_headers.header(page, 0)
    if head.kind != page_headers.DICTIONARY:
        raise ValueError("indexes of a dictionary were encoded without one")
    order = page_bytes.decompressed(page[head.body : head.body + head.compressed], chunk.codec, head.uncompressed)
    fields = format_fields.Column
    pages = _bytes_at(view, chunk, fields.OFFSET_INDEX, fields.OFFSET_INDEX_LENGTH)
    locations = merge_indexes.page_locations(pages, start, length, chunk.values)
    index = _bytes_at(view, chunk, fields.COLUMN_INDEX, fields.COLUMN_INDEX_LENGTH)
    return encoded_ranks.EncodedRanks(
        codec=chunk.codec,
        values=chunk.values,
        order=np.frombuffer(order, np.int32),
        pieces=[view[start : start + length]],
        uncompressed=chunk.uncompressed - head.body - head.uncompressed,
        encodings=tuple(sorted(chunk.encodings)),
        page_counts=joined_column.page_counts([chunk]),
        locations=None if locations is None else [each._replace(offset=each.offset - start) for each in locations],
        index=None if index is None else thrift.parse(index)[0],
    )


def _bytes_at(view: memoryview, chunk: parquet_footer.Chunk, at: int, length: int) -> bytes | None:
    start, count = (format_fields.integer(chunk.raw, number, 0) for number in (at, length))
    return bytes(view[start : start + count]) if start and count else None
