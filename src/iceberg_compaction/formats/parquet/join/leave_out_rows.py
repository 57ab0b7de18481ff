"""Joins the chunks of a column of which some lose rows. Pages of the others move as bytes. Values of a chunk that loses
rows are decoded under their physical type alone, so that no decimal, date or text is made of them; those of the rows
that stay are encoded as plain pages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import format_fields, thrift
from iceberg_compaction.formats.parquet.join import (
    encode_column,
    forged_file,
    merge_statistics,
    move_pages,
    source_chunks,
    ways,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import joined_column

    _Part = tuple[source_chunks.LoadedGroup, source_chunks.SourceChunk | None]

_AT_ONCE = 8 * 2**20  # uncompressed bytes of chunks that are decoded, so that little of a column is in memory
_NULLS = format_fields.Statistics.NULLS
_BOUNDS = frozenset((format_fields.Statistics.MIN, format_fields.Statistics.MAX))


def is_bounded(column: joined_column.JoinedColumn) -> bool:
    """Whether the bounds of a column are known, or it has no values. Those of its inputs may be bounds of rows that
    were left out."""
    return column.statistics.keys() >= _BOUNDS or format_fields.optional(column.statistics, _NULLS) == column.values


def join(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn | None:
    """The column of the joined row group. Row groups that lack it get a page of nulls. `arguments` are those of
    pyarrow's writer. None: it must be decoded, because its bounds are not known."""
    if ways.without_rows(ways.JoinWay.PAGES, layout) is not ways.JoinWay.PLAIN:
        return None
    sources = [group.chunk(column) for group in groups]
    codec, writer = _compression(groups, sources, arguments)
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
            values = _decoded(chunks, layout)
            kept = values.filter(source_chunks.kept_rows([group for group, _ in part]))
            deleted_nulls += values.column(0).null_count - kept.column(0).null_count
            encoded = encode_column.encode(kept, layout.repetitions, writer, use_dictionary=False)
            pages.add(encoded.chunk, encoded.offsets, encoded.bounds)
            counted.append((encoded.chunk.chunk.values, encoded.chunk.chunk.statistics))
    joined = pages.joined(merge_statistics.merge(counted, layout), deleted_nulls)
    return joined if is_bounded(joined) else None


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


def _decoded(chunks: Sequence[source_chunks.SourceChunk], layout: page_layout.Layout) -> pa.Table:
    """All values of these chunks, as plain numbers or bytes."""
    forged = [
        forged_file.ForgedChunk(
            rows=chunk.rows, values=chunk.chunk.values, dictionary=chunk.dictionary or None, pages=[chunk.pages]
        )
        for chunk in chunks
    ]
    values = forged_file.read(layout.physical, layout.length, layout.repetitions, chunks[0].chunk.codec, forged)
    if values.num_rows != sum(chunk.rows for chunk in chunks):
        raise ValueError("a column has more or fewer values than its footer says")
    return values
