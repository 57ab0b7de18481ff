"""Joins the chunks of a column of which some lose rows. Pages of the others move as bytes. Values of a chunk that loses
rows are decoded under their physical type alone, so that no decimal, date or text is made of them; those of the rows
that stay are encoded as plain pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from iceberg_compaction.formats.parquet import format_fields, thrift
from iceberg_compaction.formats.parquet.join import (
    encode_column,
    forged_file,
    merge_statistics,
    move_pages,
    page_bytes,
    source_chunks,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow.parquet as pq

    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import joined_column

    _Part = tuple[source_chunks.LoadedGroup, source_chunks.SourceChunk | None]

_AT_ONCE = 8 * 2**20  # uncompressed bytes that are decoded at a time, so that little of a column is in memory
_NULLS = format_fields.Statistics.NULLS
_BOUNDS = frozenset((format_fields.Statistics.MIN, format_fields.Statistics.MAX))


def is_counted(column: joined_column.JoinedColumn) -> bool:
    """Whether the nulls of a column are counted, and its bounds known if it has values. Manifests of the inputs cannot
    fill such gaps, because they speak of the rows that were left out, too."""
    nulls = format_fields.optional(column.statistics, _NULLS)
    return nulls is not None and (nulls == column.values or column.statistics.keys() >= _BOUNDS)


def join(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn | None:
    """The column of the joined row group. Row groups that lack it get a page of nulls. `arguments` are those of
    pyarrow's writer. None: it must be decoded, because its codec is not known here."""
    sources = [group.chunk(column) for group in groups]
    codec, writer = _compression(groups, sources, arguments)
    if not page_bytes.can_compress(codec):
        return None
    pages = move_pages.MovedPages(codec, layout)
    counted: list[merge_statistics.Counted] = []
    deleted_nulls = 0
    for part in _parts(groups, sources):
        (group, chunk), chunks = part[0], [chunk for _, chunk in part if chunk is not None]
        if chunk is None:
            pages.add_nulls(group.rows)
            counted.append((group.rows, {_NULLS: (thrift.I64, group.rows)}))
            deleted_nulls += group.group.rows - group.rows
        elif not _changes(group, chunk):
            pages.add(chunk, *move_pages.indexes(group, column))
            counted.append((chunk.chunk.values, chunk.chunk.statistics))
        else:
            kept = source_chunks.kept_rows([group for group, _ in part])
            for values, stay in _decoded(chunks, layout, kept):
                alive = values if stay is None else source_chunks.alive(values, stay)
                deleted_nulls += source_chunks.deleted_nulls(values.column(0), stay, layout)
                if not alive.num_rows:
                    continue
                encoded = encode_column.encode(alive, layout.repetitions, writer, use_dictionary=False)
                pages.add(encoded.chunk, encoded.offsets, encoded.bounds)
                counted.append((encoded.chunk.chunk.values, encoded.chunk.chunk.statistics))
    return pages.joined(merge_statistics.merge(counted, layout), deleted_nulls)


def _changes(group: source_chunks.LoadedGroup, chunk: source_chunks.SourceChunk) -> bool:
    """Whether the pages of a chunk cannot stay as they are: rows are left out, or it has a dictionary of its own."""
    return group.deleted is not None or bool(chunk.dictionary)


def _compression(
    groups: Sequence[source_chunks.LoadedGroup],
    sources: Sequence[source_chunks.SourceChunk | None],
    arguments: Mapping[str, Any],
) -> tuple[str, dict[str, Any]]:
    """The codec of the column, and the arguments of pyarrow's writer for it: those of the table, unless pages stay."""
    staying = [
        chunk.chunk.codec
        for group, chunk in zip(groups, sources, strict=True)
        if chunk is not None and not _changes(group, chunk)
    ]
    codec = staying[0] if staying else encode_column.codec_of(arguments)
    return codec, encode_column.with_codec(arguments, codec)


def _parts(
    groups: Sequence[source_chunks.LoadedGroup], sources: Sequence[source_chunks.SourceChunk | None]
) -> Iterator[list[_Part]]:
    """Neighbours that are decoded together, as many as are few bytes; each of the others is alone."""
    part: list[_Part] = []
    size = 0
    for group, chunk in zip(groups, sources, strict=True):
        is_decoded = chunk is not None and _changes(group, chunk)
        if part and (not is_decoded or size >= _AT_ONCE):
            yield part
            part, size = [], 0
        if chunk is None or not is_decoded:
            yield [(group, chunk)]
            continue
        part.append((group, chunk))
        size += chunk.chunk.uncompressed
    if part:
        yield part


def _decoded(
    chunks: Sequence[source_chunks.SourceChunk], layout: page_layout.Layout, kept: pa.BooleanArray | None
) -> Iterator[tuple[pa.Table, pa.BooleanArray | None]]:
    """All values of these chunks, as plain numbers or bytes, and which of them stay (None: all); bit by bit."""
    forged = [
        forged_file.ForgedChunk(
            rows=chunk.rows, values=chunk.chunk.values, dictionary=chunk.dictionary or None, pages=[chunk.pages]
        )
        for chunk in chunks
    ]
    file = forged_file.open_file(layout.physical, layout.length, layout.repetitions, chunks[0].chunk.codec, forged)
    rows, size = sum(chunk.rows for chunk in chunks), sum(chunk.chunk.uncompressed for chunk in chunks)
    at = 0
    for values in _tables(file, rows if size <= 2 * _AT_ONCE else max(1, rows * _AT_ONCE // size)):
        yield values, None if kept is None else kept.slice(at, values.num_rows)
        at += values.num_rows
    if at != rows:
        raise ValueError("a column has more or fewer values than its footer says")


def _tables(file: pq.ParquetFile, rows: int) -> Iterator[pa.Table]:
    """All values of a file with so many rows or fewer at a time."""
    if rows >= file.metadata.num_rows:
        yield file.read(use_threads=False)
    else:
        for batch in file.iter_batches(rows, use_threads=False):
            yield pa.Table.from_batches([batch])
