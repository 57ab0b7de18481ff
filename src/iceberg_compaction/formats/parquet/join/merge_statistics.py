"""Merges the statistics of the chunks of a column. A figure that one chunk lacks is left out of the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.formats.parquet import format_fields, thrift
from iceberg_compaction.formats.parquet.join import value_order

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.formats.parquet import page_layout
    from iceberg_compaction.formats.parquet.join import source_chunks

    Counted = tuple[int, thrift.Struct]  # values of a chunk, and its statistics

_NULLS, _MIN, _MAX = format_fields.Statistics.NULLS, format_fields.Statistics.MIN, format_fields.Statistics.MAX
_EXACT = {_MIN: format_fields.Statistics.MIN_EXACT, _MAX: format_fields.Statistics.MAX_EXACT}


def of_column(groups: Sequence[source_chunks.LoadedGroup], column: int, layout: page_layout.Layout) -> thrift.Struct:
    """The statistics of a column in all row groups. Those that lack the column have nulls in all rows."""
    counted: list[Counted] = []
    for group in groups:
        chunk, rows = group.chunk(column), group.group.rows
        if chunk is None:
            counted.append((rows, {_NULLS: (thrift.I64, rows)}))
        else:
            counted.append((chunk.chunk.values, chunk.chunk.statistics))
    return merge(counted, layout)


def merge(chunks: Sequence[Counted], layout: page_layout.Layout) -> thrift.Struct:
    """The statistics of all chunks. The older bounds and the number of distinct values are dropped."""
    merged: thrift.Struct = {}
    nulls = [format_fields.optional(statistics, _NULLS) for _, statistics in chunks]
    if all(count is not None for count in nulls):
        merged[_NULLS] = (thrift.I64, sum(count or 0 for count in nulls))
    filled = [statistics for (values, statistics), count in zip(chunks, nulls, strict=True) if count != values]
    key = value_order.sort_key(layout)
    if key is None or not filled or any(_MIN not in each or _MAX not in each for each in filled):
        return merged
    try:
        low = min(filled, key=lambda each: key(each[_MIN][1]))
        high = max(filled, key=lambda each: key(each[_MAX][1]))
    except ValueError:  # a NaN, or a bound of the wrong size
        return merged
    for bound, best in ((_MIN, low), (_MAX, high)):
        merged |= {number: best[number] for number in (bound, _EXACT[bound]) if number in best}
    return merged
