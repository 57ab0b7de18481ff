"""Decides whether small row groups are joined or encoded, by their footers: columns that need no decoding are joined
many times faster than encoded, the others are not. Row groups come in, a decision goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from iceberg_compaction.formats.parquet.join import ways

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.worker.copy import copied_row_groups

# Bytes per second on one core, and seconds for each column chunk and each file, as measured on tables of many shapes.
_ENCODED, _DECODED = 46e6, 40e6
_JOINED = {
    ways.JoinWay.PAGES: 800e6,
    ways.JoinWay.INDEXES: 120e6,
    ways.JoinWay.ENTRIES: 250e6,
    ways.JoinWay.PLAIN: 60e6,
}
_PER_CHUNK, _PER_SOURCE, _PER_ENCODED_SOURCE = 60e-6, 0.5e-3, 1e-3
_GAIN = 0.75  # of the time of encoding; joined row groups are a little larger, so little gain is none
_DECODED_BYTES = 128 * 2**20  # without compression, since the decoded columns of a row group are held at once


def decoded_columns(sources: Sequence[copied_row_groups.Copy], wanted: copied_row_groups.Wanted) -> frozenset[int]:
    """Field ids of the top-level columns that must be decoded to join these row groups. A column's leaves belong
    together, so one that must be decoded takes the others with it."""
    return _decoded(_judged(sources, wanted), wanted)


def held_at_once(sources: Sequence[copied_row_groups.Copy], decoded: frozenset[int]) -> int:
    """How many of the first row groups may become one, by the memory that their decoded columns take; at least one."""
    total = 0
    for count, source in enumerate(sources):
        total += _held(source, decoded)
        if count and total > _DECODED_BYTES:
            return count
    return len(sources)


def fits_memory(sources: Sequence[copied_row_groups.Copy], decoded: frozenset[int]) -> bool:
    """Whether the decoded columns of these row groups may be held at once."""
    return sum(_held(source, decoded) for source in sources) <= _DECODED_BYTES


def worth_joining(
    sources: Sequence[copied_row_groups.Copy], wanted: copied_row_groups.Wanted, *, unfolds: bool = True
) -> bool:
    """Whether joining these row groups takes less time than encoding them. `unfolds`: dictionaries may become pages."""
    judged = _judged(sources, wanted)
    decoded = _decoded(judged, wanted)
    if not all(fits_memory((source,), decoded) for source in sources):
        return False
    join = len(sources) * (_PER_SOURCE + len(judged) * _PER_CHUNK)
    encode = len(sources) * _PER_ENCODED_SOURCE
    for column in judged:
        encode += column.bytes / _ENCODED
        if column.top in decoded or (column.way is ways.JoinWay.ENTRIES and not unfolds):
            join += column.bytes / _DECODED
        else:
            join += (column.bytes - column.staying) / _JOINED[column.way]
            join += column.staying / _JOINED[ways.JoinWay.PAGES]
    return join < _GAIN * encode


class _Column(NamedTuple):
    """A leaf of the output: its top-level column, its way, and its bytes in all row groups."""

    top: int
    way: ways.JoinWay
    bytes: int
    staying: int  # of these, the pages of row groups that lose no rows while others do


def _decoded(judged: list[_Column], wanted: copied_row_groups.Wanted) -> frozenset[int]:
    return frozenset(column.top for column in judged if column.way is ways.JoinWay.DECODE) | wanted.filtered


def _held(source: copied_row_groups.Copy, decoded: frozenset[int]) -> int:
    columns = zip(source.raw.leaves, source.raw.groups[source.group].chunks, strict=True)
    return sum(chunk.uncompressed for leaf, chunk in columns if leaf.ids[0] in decoded)


def _judged(sources: Sequence[copied_row_groups.Copy], wanted: copied_row_groups.Wanted) -> list[_Column]:
    judged = []
    loses_rows = any(source.deleted for source in sources)
    for number, top in enumerate(wanted.tops):
        chunks = []
        for source in sources:
            column = source.columns[number]
            chunks.append(None if column is None else source.raw.groups[source.group].chunks[column])
        of_all = ways.judge(chunks, wanted.leaves[number].layout)
        way, staying = of_all.way, 0
        if any(source.columns[number] is None and top not in source.absent for source in sources):
            way = ways.JoinWay.DECODE
        elif loses_rows:
            way = ways.without_rows(of_all.way, chunks, wanted.leaves[number].layout)
            pairs = zip(sources, chunks, strict=True) if of_all.way is ways.JoinWay.PAGES else ()
            staying = sum(chunk.length for source, chunk in pairs if chunk is not None and not source.deleted)
        judged.append(_Column(top, way, of_all.bytes, staying))
    return judged
