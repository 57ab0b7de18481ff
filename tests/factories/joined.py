"""Row groups of several files joined into one, and a look at every figure of the result: statistics, encodings and page
indexes must be true of the rows."""

from __future__ import annotations

import collections
import decimal
import itertools
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files, spliced

from iceberg_compaction.formats.parquet import parquet_footer, splice, thrift
from iceberg_compaction.formats.parquet.join import join_row_groups

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.formats.parquet.join import joined_column, source_chunks

IO = PyArrowFileIO()
ARGUMENTS: dict[str, Any] = {
    **{name: value for name, value in spliced.ARGUMENTS.items() if name != "bloom_filter_options"},
    "dictionary_pagesize_limit": 2**20,
    "data_page_size": 2**20,
}
NULLS, MAX, MIN = 3, 5, 6  # of statistics
ENCODING_STATS = 13
REPEATED = parquet_files.REPEATED


def join_files(
    path: str, sources: Sequence[str], table: pa.Table, deleted: Iterator[Any] | None = None, **changes: Any
) -> dict[int, bool]:
    """Joins all row groups of these files, which have the rows of the table. `deleted` has the mask of the rows that
    are left out, or None, for each row group that has rows; the table has the others. Returns the joined columns by
    their number, and whether their bytes are those of the sources; the others are encoded."""
    arguments = {**ARGUMENTS, **changes}
    file = splice.SplicedFile(IO, path, table.schema, arguments)
    groups = []
    for source in sources:
        footer = parquet_footer.read(IO, source)
        assert footer.why_not is None, footer.why_not
        by_id = {leaf.field_id: number for number, leaf in enumerate(footer.leaves)}
        columns = [by_id.get(leaf.field_id) for leaf in file.leaves]
        for leaf, number in zip(file.leaves, columns, strict=True):
            assert number is None or footer.leaves[number].layout == leaf.layout
        with splice.Source(IO, footer) as opened:
            for group in footer.groups:
                if group.rows:
                    groups.append(opened.load(group, columns, None if deleted is None else next(deleted)))
    joined = join_row_groups.join(groups, file.leaves, range(len(file.leaves)), arguments)
    decoded = {leaf.path[0] for number, leaf in enumerate(file.leaves) if number not in joined}
    kept = {number: column for number, column in joined.items() if file.leaves[number].path[0] not in decoded}
    patch = table.select([name for name in table.column_names if name in decoded])
    file.join(table.num_rows, kept, patch, arguments)
    file.finish()
    return {number: _has_pages_of(column, groups, number) for number, column in kept.items()}


def _has_pages_of(joined: joined_column.JoinedColumn, groups: Sequence[source_chunks.LoadedGroup], column: int) -> bool:
    """Whether the data pages of all sources are in the joined column, byte for byte."""
    data = b"".join(map(bytes, joined.pieces))
    chunks = [group.chunk(column) for group in groups]
    return all(chunk is None or bytes(chunk.pages) in data for chunk in chunks)


def check(path: str, table: pa.Table) -> spliced.Seen:
    """Looks at every byte of a file with one row group, which holds the rows of the table."""
    seen = spliced.check(path)
    footer = parquet_footer.read(IO, path)
    with open(path, "rb") as stream:
        data = stream.read()
    (group,) = footer.groups
    assert group.rows == table.num_rows
    for leaf, chunk in zip(footer.leaves, group.chunks, strict=True):
        values = _leaf(table.column(leaf.path[0]).combine_chunks(), leaf.path[1:])
        _check_statistics(chunk.statistics, values, chunk.values, leaf.layout)
        _check_encodings(data, chunk)
        _check_page_indexes(data, chunk, table, leaf)
    return seen


def rows_of(path: str) -> pa.Table:
    return pq.read_table(path, page_checksum_verification=True, partitioning=None)


def _leaf(values: pa.Array, path: Sequence[str]) -> list[Any]:
    """The values of a leaf in physical form, without nulls."""
    if isinstance(values, pa.ChunkedArray):
        values = values.combine_chunks()
    if pa.types.is_struct(values.type):
        number = values.type.get_field_index(path[0])
        return _leaf(values.flatten()[number], path[1:])
    if pa.types.is_map(values.type):
        pairs = [pair for entries in values.to_pylist() for pair in entries or ()]
        sides = [pair[path[1] == "value"] for pair in pairs]
        return [_physical(value) for value in sides if value is not None]
    if pa.types.is_list(values.type):
        return _leaf(values.flatten(), path[2:])
    return [_physical(value) for value in _plain(values.drop_null()).to_pylist()]


def _plain(values: pa.Array) -> pa.Array:
    if pa.types.is_date32(values.type):
        return values.cast(pa.int32())
    is_time = pa.types.is_time64(values.type) or pa.types.is_timestamp(values.type)
    return values.cast(pa.int64()) if is_time else values


def _physical(value: Any) -> Any:
    if isinstance(value, decimal.Decimal):
        digits = value.as_tuple()
        number = int("".join(map(str, digits.digits)) or "0")
        return -number if digits.sign else number
    return value.encode() if isinstance(value, str) else value


def _bound(raw: bytes, layout: Any) -> Any:
    forms = {"INT32": "<i", "INT64": "<q", "BOOLEAN": "<?", "FLOAT": "<f", "DOUBLE": "<d"}
    if layout.physical in forms:
        return struct.unpack(forms[layout.physical], raw)[0]
    is_decimal = bool(layout.annotation) and layout.annotation[0] == "DECIMAL"
    return int.from_bytes(raw, "big", signed=True) if is_decimal else raw


def _check_range(low: bytes, high: bytes, values: list[Any], layout: Any) -> None:
    smallest, largest = _bound(low, layout), _bound(high, layout)
    assert smallest == smallest, "NaN"
    assert largest == largest, "NaN"
    for value in values:
        if value == value:  # NaNs have no place in the order
            assert smallest <= value <= largest
    if smallest == 0.0 and isinstance(smallest, float):
        assert struct.pack("<d", smallest) == struct.pack("<d", -0.0)
    if largest == 0.0 and isinstance(largest, float):
        assert struct.pack("<d", largest) == struct.pack("<d", 0.0)


def _check_statistics(statistics: thrift.Struct, values: list[Any], count: int, layout: Any) -> None:
    if NULLS in statistics and REPEATED not in layout.repetitions:  # writers do not agree on nulls around lists
        assert statistics[NULLS][1] == count - len(values)
    if MIN in statistics and MAX in statistics:  # of long values, pyarrow leaves one of them out
        _check_range(statistics[MIN][1], statistics[MAX][1], values, layout)


def _check_encodings(data: bytes, chunk: parquet_footer.Chunk) -> None:
    """The counts of pages by type and encoding, and the list of encodings."""
    pages: collections.Counter[tuple[int, int]] = collections.Counter()
    at = chunk.start
    while at < chunk.start + chunk.length:
        head: Any
        head, body = thrift.parse(data, at)
        kind = head[1][1]
        below = head[{parquet_files.DATA_V1: 5, parquet_files.DICTIONARY: 7, parquet_files.DATA_V2: 8}[kind]][1]
        # pyarrow counts data pages of version 2 as those of version 1.
        pages[kind % parquet_files.DATA_V2, below[4 if kind == parquet_files.DATA_V2 else 2][1]] += 1
        at = body + head[3][1]
    assert {encoding for _, encoding in pages} <= set(chunk.meta[2][1][1])
    if ENCODING_STATS in chunk.meta:
        counted: collections.Counter[tuple[int, int]] = collections.Counter()
        for each in chunk.meta[ENCODING_STATS][1][1]:
            counted[each[1][1] % parquet_files.DATA_V2, each[2][1]] += each[3][1]
        assert counted == pages


def _check_page_indexes(data: bytes, chunk: parquet_footer.Chunk, table: pa.Table, leaf: parquet_footer.Leaf) -> None:
    if parquet_files.OFFSET_INDEX not in chunk.raw:
        assert parquet_files.COLUMN_INDEX not in chunk.raw
        return
    offsets: Any = thrift.parse(data, chunk.raw[parquet_files.OFFSET_INDEX][1])[0][1][1][1]
    firsts = [*(place[spliced.FIRST_ROW][1] for place in offsets), table.num_rows]
    column = table.column(leaf.path[0])
    pages = [_leaf(column.slice(low, high - low), leaf.path[1:]) for low, high in itertools.pairwise(firsts)]
    counts = []
    for place in offsets:
        head, _ = thrift.parse(data, place[spliced.OFFSET][1])
        counts.append(head[5 if 5 in head else 8][1][1][1])
    assert all(len(page) <= count for page, count in zip(pages, counts, strict=True))
    if len(leaf.path) == 1:
        assert counts == [high - low for low, high in itertools.pairwise(firsts)]
    if parquet_files.COLUMN_INDEX not in chunk.raw:
        return
    index: Any = thrift.parse(data, chunk.raw[parquet_files.COLUMN_INDEX][1])[0]
    nulls, lows, highs = (index[number][1][1] for number in (1, 2, 3))
    assert nulls == [not page for page in pages]
    if 5 in index and REPEATED not in leaf.layout.repetitions:
        assert index[5][1][1] == [count - len(page) for count, page in zip(counts, pages, strict=True)]
    bounds = [pair for pair, null in zip(zip(lows, highs, strict=True), nulls, strict=True) if not null]
    for (low, high), page in zip(bounds, [page for page in pages if page], strict=True):
        _check_range(low, high, page, leaf.layout)
    for side in (0, 1) if index[4][1] else ():
        ordered = [_bound(pair[side], leaf.layout) for pair in bounds]
        assert ordered == sorted(ordered, reverse=index[4][1] == 2)
