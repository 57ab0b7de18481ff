"""The extents of a row group's columns, without reading a value: statistics from the footer, and Bloom filters, which
are read only when deletes need them. A footer comes in, extents by field id go out."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.deletes import untouched_row_groups
from iceberg_compaction.formats.parquet import bloom, byte_ranges, format_fields

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

    from iceberg_compaction.formats.parquet import parquet_footer

_WIDTHS = {"INT32": 4, "INT64": 8}  # bytes of a number


def of_group(
    io: FileIO, raw: parquet_footer.RawFooter, group: int, columns: Iterable[int | None]
) -> dict[int, untouched_row_groups.Extent]:
    """The extents of columns of a row group by field id. `columns` are the indexes of those whose bounds have the same
    meaning as the table's, and None for others."""
    extents = {}
    for index in columns:
        if index is None or (number := raw.leaves[index].field_id) is None:
            continue
        chunk = raw.groups[group].chunks[index]
        statistics = chunk.statistics
        extents[number] = untouched_row_groups.Extent(
            values=chunk.values,
            nulls=format_fields.optional(statistics, format_fields.Statistics.NULLS),
            low=format_fields.binary(statistics, format_fields.Statistics.MIN),
            high=format_fields.binary(statistics, format_fields.Statistics.MAX),
            width=_WIDTHS.get(raw.leaves[index].layout.physical, 0),
            bloom=functools.partial(_read_bloom, io, raw, chunk) if format_fields.Meta.BLOOM in chunk.meta else None,
        )
    return extents


def _read_bloom(io: FileIO, raw: parquet_footer.RawFooter, chunk: parquet_footer.Chunk) -> bloom.BloomFilter | None:
    """The Bloom filter of a column; None if it cannot be read."""
    start = format_fields.optional(chunk.meta, format_fields.Meta.BLOOM)
    length = format_fields.optional(chunk.meta, format_fields.Meta.BLOOM_LENGTH)
    if start is None or not length or not 0 < start <= raw.body - length:
        return None
    with byte_ranges.Input(io, raw.path) as file:
        data = file.read(start, length)
    try:
        return bloom.BloomFilter(data)
    except ValueError:
        return None
