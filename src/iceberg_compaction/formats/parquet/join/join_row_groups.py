"""Joins row groups that lie in memory: decides for every column of the output, by its bytes, how it is joined, and
joins it. Columns that must be decoded are left to the caller."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.formats.parquet.join import (
    check_pages,
    joined_column,
    leave_out_rows,
    merged_dictionary,
    move_pages,
    remap_indexes,
    unfold_dictionaries,
    ways,
)
from iceberg_compaction.storage import task_cores

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.formats.parquet import page_layout, parquet_footer
    from iceberg_compaction.formats.parquet.join import source_chunks

_USEFUL = 0.5  # entries of all dictionaries per value, from which on a merged one saves nothing
_DISTINCT = 0.85  # entries of all dictionaries per value that is not null, from which on hardly two values are equal
_PAGES = 4  # times the size of a page, which a dictionary that becomes one may have


def join(
    groups: Sequence[source_chunks.LoadedGroup],
    leaves: Sequence[parquet_footer.Leaf],
    columns: Sequence[int],
    arguments: Mapping[str, Any],
    cores: task_cores.TaskCores | None = None,
) -> dict[int, joined_column.JoinedColumn]:
    """The joined columns by their number in `leaves`, of those that are asked for in `columns`. One that is missing
    must be decoded. `arguments` are those of pyarrow's writer. ValueError, OSError or ArrowException: a page is
    damaged, or does not say the truth."""
    results = (cores or task_cores.TaskCores()).map(
        lambda column: _join(column, groups, leaves[column], arguments), columns
    )
    return {column: joined for column, joined in zip(columns, results, strict=True) if joined is not None}


def _join(
    column: int,
    groups: Sequence[source_chunks.LoadedGroup],
    leaf: parquet_footer.Leaf,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn | None:
    sources = [group.chunk(column) for group in groups]
    chunks = [chunk for chunk in sources if chunk is not None]
    footer_chunks = [None if chunk is None else chunk.chunk for chunk in sources]
    way = ways.judge(footer_chunks, leaf.layout).way
    if way is ways.JoinWay.DECODE or not all(check_pages.fits(chunk, leaf.layout, way) for chunk in chunks):
        return None
    if any(group.deleted is not None for group in groups):
        way = ways.without_rows(way, footer_chunks, leaf.layout)
        joined = _without_rows(groups, column, leaf.layout, arguments) if way is not ways.JoinWay.DECODE else None
        return joined if joined is not None and leave_out_rows.is_counted(joined) else None
    dictionaries = [chunk.dictionary for chunk in chunks]
    is_same = all(dictionary == dictionaries[0] for dictionary in dictionaries)
    is_useful = is_same and way is not ways.JoinWay.ENTRIES
    if is_useful and not ways.has_small_pages([chunk.chunk for chunk in chunks]):
        return move_pages.join(groups, column, leaf.layout)
    if _entries(chunks) > _USEFUL * sum(chunk.chunk.values for chunk in chunks):
        return _unfold(groups, column, leaf, arguments)
    merged = _merged(chunks, leaf.layout, arguments)
    return None if merged is None else remap_indexes.join(groups, column, leaf.layout, merged, arguments)


def _without_rows(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn | None:
    """The column of row groups of which some lose rows: as plain values where dictionaries save nothing. Few texts are
    not written many times instead; numbers take little more."""
    chunks = [chunk for chunk in (group.chunk(column) for group in groups) if chunk is not None]
    values = sum(chunk.chunk.values - (chunk.nulls or 0) for chunk in chunks)
    entries = _entries(chunks)
    if any(chunk.dictionary for chunk in chunks) and entries <= _USEFUL * values:
        merged = _merged(chunks, layout, arguments)
        if merged is not None:
            return remap_indexes.join(groups, column, layout, merged, arguments)
    may_repeat = layout.physical in ways.NUMBERS or not entries or entries >= _DISTINCT * values
    if not may_repeat or not ways.can_be_plain([chunk.chunk for chunk in chunks], layout):
        return None
    return leave_out_rows.join(groups, column, layout, arguments)


def _entries(chunks: Sequence[source_chunks.SourceChunk]) -> int:
    """Values in all dictionaries."""
    return sum(page_headers.header(chunk.dictionary, 0).values for chunk in chunks if chunk.dictionary)


def _merged(
    chunks: Sequence[source_chunks.SourceChunk], layout: page_layout.Layout, arguments: Mapping[str, Any]
) -> merged_dictionary.MergedDictionary | None:
    """The dictionaries as one. None: it would take more than a dictionary may."""
    dictionaries = [chunk.dictionary for chunk in chunks]
    codec, most = chunks[0].chunk.codec, arguments["dictionary_pagesize_limit"]
    try:
        if merged_dictionary.least_bytes(dictionaries, codec, layout) > most:
            return None
        merged = merged_dictionary.merge(dictionaries, codec, layout)
    except ValueError:
        return None
    return None if merged.values.nbytes > most else merged


def _unfold(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    leaf: parquet_footer.Leaf,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn | None:
    if not ways.can_unfold(leaf.layout):
        return None
    try:
        return unfold_dictionaries.join(groups, column, leaf.layout, _PAGES * arguments["data_page_size"])
    except ValueError:
        return None
