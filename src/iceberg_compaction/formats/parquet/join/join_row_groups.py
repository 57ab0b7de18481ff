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

    from iceberg_compaction.formats.parquet import parquet_footer
    from iceberg_compaction.formats.parquet.join import source_chunks

_USEFUL = 0.5  # entries of all dictionaries per value, from which on a merged one saves nothing
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
    way = ways.judge([None if chunk is None else chunk.chunk for chunk in sources], leaf.layout).way
    if way is ways.JoinWay.DECODE or not all(check_pages.fits(chunk, leaf.layout, way) for chunk in chunks):
        return None
    loses_rows = any(group.deleted is not None for group in groups)
    if loses_rows and ways.without_rows(way, leaf.layout) is ways.JoinWay.DECODE:
        return None
    dictionaries = [chunk.dictionary for chunk in chunks]
    if loses_rows and not any(dictionaries):
        return leave_out_rows.join(groups, column, leaf.layout, arguments)
    is_same = all(dictionary == dictionaries[0] for dictionary in dictionaries)
    is_useful = is_same and way is not ways.JoinWay.ENTRIES
    if is_useful and not loses_rows and not ways.has_small_pages([chunk.chunk for chunk in chunks]):
        return move_pages.join(groups, column, leaf.layout)
    entries = sum(page_headers.header(dictionary, 0).values for dictionary in dictionaries)
    if entries > _USEFUL * sum(chunk.chunk.values for chunk in chunks):
        if loses_rows:
            return leave_out_rows.join(groups, column, leaf.layout, arguments)
        return _unfold(groups, column, leaf, arguments)
    codec, most = chunks[0].chunk.codec, arguments["dictionary_pagesize_limit"]
    try:
        if merged_dictionary.least_bytes(dictionaries, codec, leaf.layout) > most:
            return None
        merged = merged_dictionary.merge(dictionaries, codec, leaf.layout)
    except ValueError:
        return None
    if merged.values.nbytes > most:
        return None
    joined = remap_indexes.join(groups, column, leaf.layout, merged, arguments)
    return None if loses_rows and not leave_out_rows.is_bounded(joined) else joined


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
