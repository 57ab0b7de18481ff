"""Joins the chunks of a column whose pages are all indexes into dictionaries. The dictionaries are merged, and pyarrow
decodes every page under a dictionary of ranks, so numbers come out instead of values; it encodes these, and their
dictionary is exchanged for the one of values. No value is decoded but those of dictionaries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from iceberg_compaction.formats.parquet import format_fields, page_headers, thrift
from iceberg_compaction.formats.parquet.join import (
    forged_file,
    joined_column,
    merge_indexes,
    merge_statistics,
    merged_dictionary,
    move_pages,
    page_bytes,
    source_chunks,
    ways,
)
from iceberg_compaction.formats.parquet.join.ranks import encode_ranks, pack_ranks

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.formats.parquet import page_layout

_INDEX = 4  # bytes of a rank


def join(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    merged: merged_dictionary.MergedDictionary,
    arguments: Mapping[str, Any],
) -> joined_column.JoinedColumn:
    """The column of the joined row group. Row groups that lack it get a page of nulls. `arguments` are those of
    pyarrow's writer. ValueError: the encoded ranks are not those that were decoded."""
    codec = _codec(groups, column)
    ranks = decoded(groups, column, layout, merged.ranks)
    kept = source_chunks.kept_rows(groups)
    deleted_nulls = source_chunks.deleted_nulls(ranks.column(0), kept, layout)
    if kept is not None:
        ranks, merged = _used(source_chunks.alive(ranks, kept), merged)
    if ranks.num_rows != sum(group.rows for group in groups):
        raise ValueError("a column has more or fewer rows than its row groups")
    if kept is not None and not len(merged.values) and layout.repetitions == (1,):
        return _only_nulls(ranks.num_rows, codec, layout, deleted_nulls)
    packed = pack_ranks.pack(ranks.column(0), len(merged.values), layout.repetitions, arguments)
    encoded = packed or encode_ranks.encode(ranks, layout.repetitions, arguments)
    dictionary = merged.values if encoded.order is None else merged.values.take(pa.array(encoded.order))
    body = merged_dictionary.plain(dictionary)
    page = page_bytes.compose(
        page_headers.DICTIONARY, len(dictionary), page_bytes.compressed(body, encoded.codec), len(body)
    )
    locations = encoded.locations
    if any(encoding not in ways.DICTIONARY_ENCODINGS for _, encoding in encoded.page_counts):
        raise ValueError("indexes of a dictionary were encoded as plain numbers")
    return joined_column.JoinedColumn(
        pieces=[page, *encoded.pieces],
        codec=encoded.codec,
        values=encoded.values,
        uncompressed=encoded.uncompressed + page_headers.header(page, 0).body + len(body),
        dictionary_bytes=len(page),
        encodings=encoded.encodings,
        page_counts=encoded.page_counts | {(page_headers.DICTIONARY, page_headers.PLAIN): 1},
        statistics=merge_statistics.of_column(groups, column, layout)
        if kept is None
        else _statistics(encoded.index, merged),
        page_locations=None
        if locations is None
        else tuple(each._replace(offset=each.offset + len(page)) for each in locations),
        bounds=_bounds(encoded.index, merged, layout, len(locations)) if locations and merged.ordered else None,
        deleted_nulls=deleted_nulls,
    )


def _codec(groups: Sequence[source_chunks.LoadedGroup], column: int) -> str:
    return next(chunk.chunk.codec for chunk in (group.chunk(column) for group in groups) if chunk is not None)


def _only_nulls(rows: int, codec: str, layout: page_layout.Layout, deleted_nulls: int) -> joined_column.JoinedColumn:
    """A column of which all values were deleted."""
    pages = move_pages.MovedPages(codec, layout)
    pages.add_nulls(rows)
    return pages.joined({format_fields.Statistics.NULLS: (thrift.I64, rows)}, deleted_nulls)


def _used(
    ranks: pa.Table, merged: merged_dictionary.MergedDictionary
) -> tuple[pa.Table, merged_dictionary.MergedDictionary]:
    """The ranks among those values that some row still has: what was deleted must not stay in the dictionary for
    everybody to read. Ranks in lists are encoded by pyarrow, which takes no others into its dictionary anyway."""
    column = ranks.column(0)
    if not pa.types.is_int32(column.type):
        return ranks, merged
    is_used = np.zeros(len(merged.values), bool)
    for chunk in column.chunks:
        is_used[chunk.drop_null().to_numpy()] = True
    if is_used.all():
        return ranks, merged
    numbers = pa.array((np.cumsum(is_used) - 1).astype(np.int32))
    column = pa.chunked_array([numbers.take(chunk) for chunk in column.chunks], column.type)
    values = merged.values.filter(pa.array(is_used))
    return pa.table([column], schema=ranks.schema), replace(merged, values=values)


def decoded(
    groups: Sequence[source_chunks.LoadedGroup],
    column: int,
    layout: page_layout.Layout,
    dictionaries: Sequence[merged_dictionary.Ranks],
) -> pa.Table:
    """The ranks of all values: what pyarrow decodes under these dictionaries of ranks, one for each row group that has
    the column."""
    sources = [group.chunk(column) for group in groups]
    codec = _codec(groups, column)
    ranks, forged = iter(dictionaries), []
    for group, chunk in zip(groups, sources, strict=True):
        if chunk is None:
            rows = group.group.rows
            page, _ = page_bytes.nulls(rows, codec, layout.repetitions)
            forged.append(forged_file.ForgedChunk(rows=rows, values=rows, dictionary=None, pages=[page]))
            continue
        raw = next(ranks).tobytes()
        dictionary = page_bytes.compose(
            page_headers.DICTIONARY, len(raw) // _INDEX, page_bytes.barely_compressed(raw, codec), len(raw)
        )
        values = chunk.chunk.values
        forged.append(
            forged_file.ForgedChunk(rows=chunk.rows, values=values, dictionary=dictionary, pages=[chunk.pages])
        )
    return forged_file.read("INT32", 0, layout.repetitions, codec, forged)


def _bounds(
    index: thrift.Struct | None, merged: merged_dictionary.MergedDictionary, layout: page_layout.Layout, pages: int
) -> thrift.Struct | None:
    """The bounds of pages: ranks have the order of values, so the bounds of ranks become those of values."""
    if index is None:
        return None
    return merge_indexes.of_ranks(index, lambda rank: merged_dictionary.plain_value(merged.values, rank), layout, pages)


def _statistics(index: thrift.Struct | None, merged: merged_dictionary.MergedDictionary) -> thrift.Struct:
    """The statistics of a column of which rows were left out: those of the ranks that stay. Ranks without an order are
    no bounds."""
    if index is None:
        return {}
    nulls, ranks = merge_indexes.of_chunk(index)
    statistics: thrift.Struct = {} if nulls is None else {format_fields.Statistics.NULLS: (thrift.I64, nulls)}
    if ranks is None or not merged.ordered:
        return statistics
    low, high = (merged_dictionary.plain_value(merged.values, rank) for rank in ranks)
    if max(len(low), len(high)) > merge_indexes.LONGEST:
        return statistics
    bounds: thrift.Struct = {
        format_fields.Statistics.MIN: (thrift.BINARY, low),
        format_fields.Statistics.MAX: (thrift.BINARY, high),
    }
    return statistics | bounds
