"""What a file says of the columns of a row group without one of their values being read, in the form in which deletes
ask for it: statistics from the footer, and Bloom filters, which are read when somebody asks."""

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
    io: FileIO, raw: parquet_footer.RawFooter, group: int, places: Iterable[int | None]
) -> dict[int, untouched_row_groups.Extent]:
    """The extents of some columns of a row group by field id; `places` are those whose bounds mean what the table's
    mean, and None for others."""
    found = {}
    for place in places:
        if place is None or (number := raw.leaves[place].field_id) is None:
            continue
        chunk = raw.groups[group].chunks[place]
        known = chunk.statistics
        found[number] = untouched_row_groups.Extent(
            values=chunk.values,
            nulls=format_fields.optional(known, format_fields.Statistics.NULLS),
            low=format_fields.binary(known, format_fields.Statistics.MIN),
            high=format_fields.binary(known, format_fields.Statistics.MAX),
            width=_WIDTHS.get(raw.leaves[place].layout.physical, 0),
            bloom=functools.partial(_read_bloom, io, raw, chunk) if format_fields.Meta.BLOOM in chunk.meta else None,
        )
    return found


def _read_bloom(io: FileIO, raw: parquet_footer.RawFooter, chunk: parquet_footer.Chunk) -> bloom.BloomFilter | None:
    """The Bloom filter of a column; None if it cannot be had."""
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
