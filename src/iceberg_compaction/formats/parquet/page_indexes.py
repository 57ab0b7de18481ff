"""Carries page indexes and Bloom filters over, for columns that are copied as bytes: from behind the row groups of the
source to behind those of the new file. An index that is missing, unreadable or does not fit its column is left out:
files without indexes are slower to search, files with wrong ones lose rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from iceberg_compaction.formats.parquet import (
    bloom,
    byte_ranges,
    column_index,
    format_fields,
    offset_index,
    parquet_footer,
    thrift,
)
from iceberg_compaction.storage import look_ahead

if TYPE_CHECKING:
    import contextlib
    from collections.abc import Iterator, Sequence

    from pyiceberg.io import FileIO

    from iceberg_compaction.formats.parquet import assemble, page_layout
    from iceberg_compaction.formats.parquet.join import joined_column

_AT_ONCE = 16 * 2**20  # bytes that are read together
_GAP = 64 * 2**10  # bytes between two spans; a smaller gap is read rather than a second request made
_FILES_AT_ONCE = 4
_MOST = 16 * 2**20  # bytes of page indexes from one file, and of one Bloom filter; larger ones are left out


class Reader(Protocol):
    def read(self, start: int, length: int) -> bytes: ...


class Origin(Protocol):
    """The source of indexes."""

    def open(self) -> contextlib.AbstractContextManager[Reader]: ...

    @property
    def bounds(self) -> tuple[int, int]:
        """The first offset at which indexes may begin, and the last at which they may end."""


@dataclass(frozen=True, slots=True)
class Stored:
    """A file that row groups were copied from."""

    io: FileIO
    path: str
    body: int

    def open(self) -> contextlib.AbstractContextManager[Reader]:
        return byte_ranges.Input(self.io, self.path)

    @property
    def bounds(self) -> tuple[int, int]:
        return len(parquet_footer.MAGIC), self.body


@dataclass(slots=True, kw_only=True)
class Carried:
    """A column chunk of the new file that waits for its indexes. `column` is its entry in the new footer, as yet
    without them."""

    column: thrift.Struct
    chunk: parquet_footer.Chunk
    layout: page_layout.Layout
    rows: int
    shift: int  # how much later the chunk's bytes begin than in the origin
    origin: Origin


def write(output: byte_ranges.RangeOutput, carried: Sequence[Carried]) -> None:
    """Append the indexes that fit, and write their offsets into each column."""
    by_origin: dict[Origin, list[Carried]] = {}
    for each in carried:
        by_origin.setdefault(each.origin, []).append(each)
    for group in by_origin.values():
        _write_blooms(output, group)
    all_wanted = [wanted for group in by_origin.values() if 0 < (wanted := _wanted(group)).size <= _MOST]
    moved: list[_PageIndexes] = []
    for wanted, data in zip(all_wanted, look_ahead.in_order(_fetch, all_wanted, at_once=_FILES_AT_ONCE), strict=True):
        moved += _moved(wanted, data)
    _write_page_indexes(output, moved)


def write_joined(
    output: byte_ranges.RangeOutput, columns: Sequence[tuple[assemble.FooterColumn, joined_column.JoinedColumn]]
) -> None:
    """Append the indexes of joined columns, and write their offsets into each column: bounds first, as above."""
    for column, joined in columns:
        if (bounds := joined.column_index()) is not None:
            column.raw[format_fields.Column.COLUMN_INDEX] = (thrift.I64, output.position)
            column.raw[format_fields.Column.COLUMN_INDEX_LENGTH] = (thrift.I32, len(bounds))
            output.write(bounds)
    for column, joined in columns:
        if (offsets := joined.offset_index(column.span[0])) is not None:
            column.raw[format_fields.Column.OFFSET_INDEX] = (thrift.I64, output.position)
            column.raw[format_fields.Column.OFFSET_INDEX_LENGTH] = (thrift.I32, len(offsets))
            output.write(offsets)


def _write_blooms(output: byte_ranges.RangeOutput, carried: list[Carried]) -> None:
    wanted = [
        (span, each)
        for each in carried
        if (span := _span(each, each.chunk.meta, format_fields.Meta.BLOOM, format_fields.Meta.BLOOM_LENGTH))
        and span[1] <= _MOST
    ]
    if not wanted:
        return
    with wanted[0][1].origin.open() as file:
        for number, data in _read(file, [span for span, _ in wanted]):
            if not _is_bloom(data):
                continue
            meta = wanted[number][1].column[format_fields.Column.META][1]
            meta[format_fields.Meta.BLOOM] = (thrift.I64, output.position)
            meta[format_fields.Meta.BLOOM_LENGTH] = (thrift.I32, len(data))
            output.write(data)


def _is_bloom(data: bytes) -> bool:
    try:
        bloom.BloomFilter(data)
    except ValueError:
        return False
    return True


class _Wanted(NamedTuple):
    """The spans of the page indexes of columns that come from one file."""

    origin: Origin
    columns: list[tuple[Carried, byte_ranges.Span, byte_ranges.Span | None]]

    @property
    def spans(self) -> list[byte_ranges.Span]:
        return [span for _, *both in self.columns for span in both if span is not None]

    @property
    def size(self) -> int:
        return sum(length for _, length in self.spans)


def _wanted(carried: list[Carried]) -> _Wanted:
    columns: list[tuple[Carried, byte_ranges.Span, byte_ranges.Span | None]] = []
    for each in carried:
        offsets = _span(
            each, each.chunk.raw, format_fields.Column.OFFSET_INDEX, format_fields.Column.OFFSET_INDEX_LENGTH
        )
        bounds = _span(
            each, each.chunk.raw, format_fields.Column.COLUMN_INDEX, format_fields.Column.COLUMN_INDEX_LENGTH
        )
        if offsets is not None:  # without them, bounds are of no use
            columns.append((each, offsets, bounds))
    return _Wanted(carried[0].origin, columns)


def _fetch(wanted: _Wanted) -> dict[byte_ranges.Span, bytes]:
    spans = wanted.spans
    with wanted.origin.open() as file:
        return {spans[number]: data for number, data in _read(file, spans)}


class _PageIndexes(NamedTuple):
    """The page indexes of a column in the new file."""

    of: Carried
    offsets: bytes
    bounds: bytes | None


def _moved(wanted: _Wanted, data: dict[byte_ranges.Span, bytes]) -> list[_PageIndexes]:
    """Page indexes as the new file has them, without those that do not fit."""
    stored = [
        offset_index.OffsetIndex(data[offsets], each.chunk.data_pages, each.rows) for each, offsets, _ in wanted.columns
    ]
    indexes = []
    shifts = [each.shift for each, _, _ in wanted.columns]
    for (each, _, bounds), moved in zip(wanted.columns, offset_index.move(stored, shifts), strict=True):
        if moved is not None:
            right = bounds is not None and column_index.fits(data[bounds], moved.pages, each.layout)
            indexes.append(_PageIndexes(each, moved.data, data[bounds] if bounds is not None and right else None))
    return indexes


def _write_page_indexes(output: byte_ranges.RangeOutput, moved: list[_PageIndexes]) -> None:
    """Bounds first, then offsets, as others lay them out: readers take those of many columns with one read."""
    for carried, _, bounds in moved:
        if bounds is not None:
            carried.column[format_fields.Column.COLUMN_INDEX] = (thrift.I64, output.position)
            carried.column[format_fields.Column.COLUMN_INDEX_LENGTH] = (thrift.I32, len(bounds))
            output.write(bounds)
    for carried, offsets, _ in moved:
        carried.column[format_fields.Column.OFFSET_INDEX] = (thrift.I64, output.position)
        carried.column[format_fields.Column.OFFSET_INDEX_LENGTH] = (thrift.I32, len(offsets))
        output.write(offsets)


def _span(each: Carried, struct: thrift.Struct, at: int, length: int) -> byte_ranges.Span | None:
    start, count = format_fields.integer(struct, at, 0), format_fields.integer(struct, length, 0)
    lowest, highest = each.origin.bounds
    return (start, count) if lowest <= start and 0 < count <= highest - start else None


def _read(file: Reader, spans: list[byte_ranges.Span]) -> Iterator[tuple[int, bytes]]:
    """The bytes of each span with its number; those that lie together are read together."""
    order = sorted(range(len(spans)), key=lambda number: spans[number])
    while order:
        first = end = spans[order[0]][0]
        count = 0
        for number in order:
            start, length = spans[number]
            if count and (start > end + _GAP or start + length > first + _AT_ONCE):
                break
            end, count = max(end, start + length), count + 1
        data = file.read(first, end - first)
        for number in order[:count]:
            start, length = spans[number]
            yield number, data[start - first : start - first + length]
        order = order[count:]
