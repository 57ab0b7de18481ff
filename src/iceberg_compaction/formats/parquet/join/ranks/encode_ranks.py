"""Has pyarrow encode ranks as it would encode the values that they stand for: indexes into a dictionary of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import page_headers, thrift
from iceberg_compaction.formats.parquet.join import (
    encode_column,
    joined_column,
    merge_indexes,
    page_bytes,
)
from iceberg_compaction.formats.parquet.join.ranks import encoded_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NO_LIMIT = 2**30  # bytes of a dictionary


def encode(ranks: pa.Table, repetitions: Sequence[int], arguments: Mapping[str, Any]) -> encoded_ranks.EncodedRanks:
    """The pages of the only column. `arguments` are those of pyarrow's writer. ValueError: the pages do not hold the
    ranks."""
    encoded = encode_column.encode(
        ranks, repetitions, arguments, use_dictionary=True, dictionary_pagesize_limit=_NO_LIMIT
    )
    encoded_ranks.check(pq.ParquetFile(pa.BufferReader(encoded.chunk.data)), ranks.column(0))
    chunk, page = encoded.chunk.chunk, encoded.chunk.dictionary
    head = page_headers.header(page, 0) if page else None
    if head is None or head.kind != page_headers.DICTIONARY:
        raise ValueError("indexes of a dictionary were encoded without one")
    order = page_bytes.decompressed(page[head.body : head.body + head.compressed], chunk.codec, head.uncompressed)
    start, length = chunk.data_pages
    locations = merge_indexes.page_locations(encoded.offsets, start, length, chunk.values)
    return encoded_ranks.EncodedRanks(
        codec=chunk.codec,
        values=chunk.values,
        order=np.frombuffer(order, np.int32),
        pieces=[encoded.chunk.pages],
        uncompressed=chunk.uncompressed - head.body - head.uncompressed,
        encodings=tuple(sorted(chunk.encodings)),
        page_counts=joined_column.page_counts([chunk]),
        locations=None if locations is None else [each._replace(offset=each.offset - start) for each in locations],
        index=None if encoded.bounds is None else thrift.parse(encoded.bounds)[0],
    )
