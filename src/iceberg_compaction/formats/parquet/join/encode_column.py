"""Has pyarrow encode the only column of a table in memory. The rows of a row group come in; a column chunk goes out
with its page indexes, as if it had been loaded from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.formats.parquet import format_fields, parquet_footer
from iceberg_compaction.formats.parquet.join import source_chunks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_TAIL = 2**20  # bytes behind the pages that hold the indexes and the footer
_AT_ONCE = 1024  # values that pyarrow encodes before it looks whether a page is full
_PAGE = 2**20  # bytes, as pyarrow has it
# Arguments of pyarrow's writer that speak of columns by name, or of columns with other values than these.
_BY_NAME = (
    "use_dictionary",
    "write_statistics",
    "dictionary_pagesize_limit",
    "bloom_filter_options",
    "sorting_columns",
    "column_encoding",
    "use_byte_stream_split",
    "write_batch_size",
)
# Codecs for which pyarrow's writer has other names than footers.
_NAMES = {"UNCOMPRESSED": "none", "LZ4_RAW": "lz4"}


class EncodedChunk(NamedTuple):
    """A column chunk in a file of its own, with its offset index and its column index."""

    chunk: source_chunks.SourceChunk
    offsets: bytes | None
    bounds: bytes | None


def encode(table: pa.Table, repetitions: Sequence[int], arguments: Mapping[str, Any], **own: Any) -> EncodedChunk:
    """The chunk of the only column. `arguments` are those of pyarrow's writer, of which `own` take the place of those
    that name columns. ValueError: its levels are not those of a column with these repetitions."""
    few = {name: value for name, value in arguments.items() if name not in _BY_NAME} | own
    width = table.nbytes / max(1, table.num_rows)
    if (page := arguments.get("data_page_size", _PAGE)) < width * _AT_ONCE / 8:
        few["write_batch_size"] = max(1, int(page / width))
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(sink, table.schema, **few) as writer:
        writer.write_table(table, row_group_size=table.num_rows)
    data = sink.getvalue().to_pybytes()
    footer = parquet_footer.parse("", data[-_TAIL:], len(data))
    ((chunk,),) = [group.chunks for group in footer.groups]
    if [level for level in footer.leaves[0].layout.repetitions if level] != [level for level in repetitions if level]:
        raise ValueError("values were encoded with other levels than they had")
    fields = format_fields.Column
    return EncodedChunk(
        chunk=source_chunks.SourceChunk(data, chunk.start, chunk, table.num_rows),
        offsets=_bytes_at(data, chunk, fields.OFFSET_INDEX, fields.OFFSET_INDEX_LENGTH),
        bounds=_bytes_at(data, chunk, fields.COLUMN_INDEX, fields.COLUMN_INDEX_LENGTH),
    )


def codec_of(arguments: Mapping[str, Any]) -> str:
    """The name in footers of the codec that arguments of pyarrow's writer ask for."""
    name = str(arguments.get("compression", "snappy")).lower()
    return next((codec for codec, own in _NAMES.items() if own == name), name.upper())


def with_codec(arguments: Mapping[str, Any], codec: str) -> dict[str, Any]:
    """The arguments of pyarrow's writer, with a codec by its name in footers."""
    if codec == codec_of(arguments):
        return dict(arguments)
    return {**arguments, "compression": _NAMES.get(codec, codec.lower()), "compression_level": None}


def _bytes_at(data: bytes, chunk: parquet_footer.Chunk, at: int, length: int) -> bytes | None:
    start, count = (format_fields.integer(chunk.raw, number, 0) for number in (at, length))
    return data[start : start + count] if start and count else None
