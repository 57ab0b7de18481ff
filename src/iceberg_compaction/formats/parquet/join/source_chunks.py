"""Row groups that are joined, with their bytes in memory, and the chunks of one column in all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats.parquet import format_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.formats.parquet import byte_ranges, page_layout, parquet_footer

_GAP = 2**20  # bytes between columns and their page indexes; a smaller gap is read with them
_MOST_INDEXES = 16 * 2**20  # bytes; larger page indexes are left out


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedGroup:
    """A row group, the bytes of its columns and those of its page indexes."""

    footer: parquet_footer.RawFooter
    group: parquet_footer.Group
    columns: Sequence[int | None]  # for each column of the output its number in this file; None: it has no such column
    segments: tuple[tuple[int, bytes], ...]  # offset in the file, and bytes
    deleted: NDArray[np.bool_] | None = None  # its rows that are left out; None: all of them stay

    @property
    def rows(self) -> int:
        """Rows that stay."""
        return self.group.rows - (0 if self.deleted is None else int(np.count_nonzero(self.deleted)))

    def chunk(self, column: int) -> SourceChunk | None:
        """A column of the output as this row group has it; None: all its values are null here."""
        number = self.columns[column]
        if number is None:
            return None
        chunk = self.group.chunks[number]
        base, data = self._segment(chunk.start, chunk.length)
        return SourceChunk(data, chunk.start - base, chunk, self.group.rows)

    def index(self, number: int, at: int, length: int) -> bytes | None:
        """A page index of a column of the file; None: it has none, or it was not loaded."""
        raw = self.group.chunks[number].raw
        start, count = format_fields.integer(raw, at, 0), format_fields.integer(raw, length, 0)
        if not start or not count:
            return None
        for base, data in self.segments:
            if base <= start and start + count <= base + len(data):
                return data[start - base : start - base + count]
        return None

    def _segment(self, start: int, length: int) -> tuple[int, bytes]:
        for base, data in self.segments:
            if base <= start and start + length <= base + len(data):
                return base, data
        raise ValueError("a column was not loaded")


class SourceChunk(NamedTuple):
    """A column chunk in memory."""

    data: bytes
    at: int  # where it begins in `data`
    chunk: parquet_footer.Chunk
    rows: int

    @property
    def end(self) -> int:
        return self.at + self.chunk.length

    @property
    def first_page(self) -> int:
        """Where data pages begin in `data`."""
        return self.at + self.chunk.data_pages[0] - self.chunk.start

    @property
    def dictionary(self) -> bytes:
        """The dictionary page; empty if there is none."""
        return self.data[self.at : self.first_page]

    @property
    def nulls(self) -> int | None:
        """None: nobody has counted them."""
        return format_fields.optional(self.chunk.statistics, format_fields.Statistics.NULLS)

    @property
    def pages(self) -> memoryview:
        """All data pages."""
        return memoryview(self.data)[self.first_page : self.end]


def kept_rows(groups: Sequence[LoadedGroup]) -> pa.BooleanArray | None:
    """Which rows of all these row groups stay; None: all of them."""
    if all(group.deleted is None for group in groups):
        return None
    deleted = [np.zeros(group.group.rows, bool) if group.deleted is None else group.deleted for group in groups]
    return pa.array(~np.concatenate(deleted))


def alive(stored: pa.Table, kept: pa.BooleanArray) -> pa.Table:
    """The rows of a column that stay. Chunk by chunk: a filter of all of it takes more than twice as long."""
    column, chunks, at = stored.column(0), [], 0
    for chunk in column.chunks:
        chunks.append(chunk.filter(kept.slice(at, len(chunk))))
        at += len(chunk)
    return pa.table([pa.chunked_array(chunks, column.type)], schema=stored.schema)


def deleted_nulls(stored: pa.ChunkedArray, kept: pa.BooleanArray | None, layout: page_layout.Layout) -> int:
    """Nulls of a flat column among the rows that do not stay. They are counted here and not by what is left, so that
    the proof notices nulls that get lost on the way into the new pages."""
    if kept is None or not stored.null_count or len(layout.repetitions) > 1:
        return 0
    return int(pc.sum(pc.and_not(stored.is_null(), kept)).as_py() or 0)


def spans(group: parquet_footer.Group, columns: Sequence[int | None], body: int) -> list[byte_ranges.Span]:
    """The bytes of a file to load for a row group: its columns in one go, and its page indexes with them if they are
    close. `body`: bytes before the footer."""
    wanted = [group.chunks[number] for number in columns if number is not None]
    start = min((chunk.start for chunk in wanted), default=0)
    end = max((chunk.start + chunk.length for chunk in wanted), default=0)
    indexes = [span for chunk in wanted for span in _index_spans(chunk) if end <= span[0] and sum(span) <= body]
    if not indexes:
        return [(start, end - start)]
    first, last = min(index[0] for index in indexes), max(map(sum, indexes))
    if last - first > _MOST_INDEXES:
        return [(start, end - start)]
    return [(start, last - start)] if first - end <= _GAP else [(start, end - start), (first, last - first)]


def _index_spans(chunk: parquet_footer.Chunk) -> list[byte_ranges.Span]:
    fields = (
        (format_fields.Column.OFFSET_INDEX, format_fields.Column.OFFSET_INDEX_LENGTH),
        (format_fields.Column.COLUMN_INDEX, format_fields.Column.COLUMN_INDEX_LENGTH),
    )
    both = [(format_fields.integer(chunk.raw, at, 0), format_fields.integer(chunk.raw, size, 0)) for at, size in fields]
    return [(start, length) for start, length in both if start > 0 and length > 0]
