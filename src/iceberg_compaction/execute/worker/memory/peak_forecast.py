"""Forecasts the peak of a task's memory from metadata alone: footers of the inputs, deletes, the arrangement and the
budgets come in, bytes go out. The shares were measured over many shapes of tables (`bench.memory`); a forecast is meant
to be a little too high."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.input import file_bundles
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.execute.worker import budgets
    from iceberg_compaction.execute.worker.input import read_files
    from iceberg_compaction.model import rewrite_task

_MIB = 2**20
FIXED = 40 * _MIB  # of every task: schemas, threads, codecs, buffers of storage
_ALLOCATED = 1.15  # bytes that the allocator holds for a byte in use
_BATCHES = 2.0  # decoded batches at a time: one being filled, one on its way
_ENCODED = 0.25  # of a byte that waits to be encoded: dictionaries, pages of a column, checksums
_COLUMN = 48 * 1024  # of a column of an open output file: encoder, page indexes
_FOOTER_COLUMN = 600  # of a column chunk in a footer, and once more if it may be copied
_RAW_COLUMN = 13_000
_CORE = 40 * _MIB  # of a further core: pages and dictionaries of a column, memory that its thread keeps
_KEY = 40  # of a key of equality deletes
_POSITION = 1.2  # of a row of a file with position deletes, and of a record in a delete file
_BUNDLES = 2  # of tiny files: as they were decoded, and in one piece
_COPY = 32 * _MIB  # of bytes on their way from file to file
_JOINED = 2.5  # of a byte of a joined row group: pages, the new pages, and columns that are decoded
_LEFT_OUT = 64 * _MIB  # on each core, of values that are decoded, those that stay and their pages
_LEFT_OUT_SHARE = 4.0  # the same of a byte of a joined row group, if that is less
_SORTED = 2.2  # of a byte that is sorted in memory: the rows and their copies in order
_MERGED = 4.0  # of a byte that is merged from local disk


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskShape:
    """The parts of a task that decide about its memory. `parts`: rows that are decoded."""

    footers: Sequence[read_files.Footer]
    parts: Sequence[read_files.FilePart]
    deletes: Sequence[rewrite_task.DeleteFile] = ()
    is_sorted: bool = False
    is_parted: bool = False
    is_copied: bool = False  # whether row groups are copied or joined
    joined_bytes: int = 0  # of row groups that become one
    leaves_out: bool = False  # whether these lose rows


@dataclass(frozen=True, slots=True, kw_only=True)
class PeakForecast:
    """Bytes at the peak of a task, beside those of the process."""

    footers: int
    deletes: int
    reading: int  # files, open pages, decoded batches
    holding: int  # rows that are sorted, parted or wait to be encoded
    encoding: int

    @property
    def before_rows(self) -> int:
        """Bytes that are held before the first row is read."""
        return FIXED + self.footers + self.deletes

    @property
    def total(self) -> int:
        return self.before_rows + self.reading + self.holding + self.encoding


def forecast(shape: TaskShape, limits: budgets.Budgets) -> PeakForecast:
    """The peak of a task under these budgets."""
    groups = [_DecodedGroup(part.footer, group) for part in shape.parts for group in _groups(part)]
    rows = sum(group.decoded for group in groups)
    batch = _batch(groups, limits)
    reading = _stored(shape.parts, limits) + _open_pages(groups, limits) + int(_BATCHES * _ALLOCATED * batch)
    reading += min(rows, _BUNDLES * file_bundles.MOST_DECODED)
    held = min(rows, limits.buffer_bytes + batch)
    holding, encoding = held, int(_ENCODED * held)
    if shape.is_sorted or shape.is_parted:
        holding, reading, encoding = _arranged(shape, limits, min(rows, limits.run_bytes + batch), held, reading)
    reading += _side_by_side(rows, held, limits)
    columns = max((footer.leaves for footer in shape.footers), default=0)
    files = limits.open_partitions if shape.is_parted else 1
    copied = (_COPY if shape.is_copied else 0) + int(_JOINED * shape.joined_bytes)
    if shape.leaves_out:
        copied += limits.cores * min(_LEFT_OUT, int(_LEFT_OUT_SHARE * shape.joined_bytes))
    return PeakForecast(
        footers=sum(_footer(footer) for footer in shape.footers),
        deletes=_deletes(shape, limits),
        reading=reading + copied,
        holding=int(_ALLOCATED * holding),
        encoding=int(_ALLOCATED * encoding) + files * columns * _COLUMN,
    )


def _side_by_side(rows: int, held: int, limits: budgets.Budgets) -> int:
    """Bytes that further cores of a task take: batches that wait, and columns that are decoded and encoded."""
    if limits.cores == 1:
        return 0
    waiting = int(_ALLOCATED * min(rows, limits.ahead_bytes))
    return waiting + (limits.cores - 1) * (min(rows, _CORE) + int(_ENCODED * held))


@dataclass(frozen=True, slots=True)
class _DecodedGroup:
    footer: read_files.Footer
    number: int

    @property
    def decoded(self) -> int:
        return int(self.footer.group_rows[self.number] * self.footer.needs.row_bytes[self.number])


def _groups(part: read_files.FilePart) -> Sequence[int]:
    return range(len(part.footer.group_rows)) if part.groups is None else part.groups


def _batch(groups: Sequence[_DecodedGroup], limits: budgets.Budgets) -> int:
    """Bytes of the largest decoded batch: a row at least."""
    widest = max((group.footer.needs.row_bytes[group.number] for group in groups), default=0.0)
    largest = max((group.decoded for group in groups), default=0)
    return int(min(largest, max(limits.batch_bytes, widest)))


def _stored(parts: Sequence[read_files.FilePart], limits: budgets.Budgets) -> int:
    """Bytes of files as they are stored: some small files, or the buffers of a large one."""
    small = [part.footer.size if part.footer.size <= limits.whole_file_bytes else 0 for part in parts]
    reach = [0, *itertools.accumulate(small)]
    ahead = limits.files_ahead + 1
    files = max((reach[min(start + ahead, len(small))] - reach[start] for start in range(len(small))), default=0)
    large = [part.footer for part in parts if part.footer.size > limits.whole_file_bytes]
    return files + max((_buffers(footer, limits) for footer in large), default=0)


def _buffers(footer: read_files.Footer, limits: budgets.Budgets) -> int:
    largest = max(footer.group_bytes, default=0)
    if max(footer.needs.open_bytes, default=0) > limits.open_bytes:  # columns are read in turn
        return min(largest, limits.buffered_row_group_bytes)
    return largest if largest <= limits.buffered_row_group_bytes else min(largest, footer.leaves * limits.stream_bytes)


def _open_pages(groups: Sequence[_DecodedGroup], limits: budgets.Budgets) -> int:
    pages = max((group.footer.needs.open_bytes[group.number] for group in groups), default=0)
    column = max((group.footer.needs.open_column_bytes[group.number] for group in groups), default=0)
    return int(_ALLOCATED * max(min(pages, limits.open_bytes), column))


def _arranged(shape: TaskShape, limits: budgets.Budgets, run: int, held: int, reading: int) -> tuple[int, int, int]:
    """Bytes that are held, bytes for reading and bytes for encoding, in the phase that takes more: rows that come in,
    or rows that go out."""
    merged = int(_MERGED * min(run, limits.merge_bytes))
    if shape.is_sorted:
        comes_in, encoding = int(_SORTED * run), 0
    else:
        open_rows = min(held, limits.open_partition_bytes + limits.chunk_bytes)
        waiting = int(_SORTED * min(run, limits.run_bytes // 2))
        comes_in, encoding = open_rows + waiting + 2 * limits.chunk_bytes, int(_ENCODED * open_rows)
    goes_out = held + merged
    if comes_in + encoding + reading > goes_out + int(_ENCODED * held):
        return comes_in, reading, encoding
    return goes_out, 0, int(_ENCODED * held)


def _footer(footer: read_files.Footer) -> int:
    chunks = footer.leaves * len(footer.group_rows)
    return footer.leaves * _FOOTER_COLUMN + (chunks * _RAW_COLUMN if footer.raw is not None else 0)


def _deletes(shape: TaskShape, limits: budgets.Budgets) -> int:
    keys = sum(file.record_count for file in shape.deletes if file.content == table_view.EQUALITY_DELETES)
    positions = sum(file.record_count for file in shape.deletes if file.content == table_view.POSITION_DELETES)
    rows = sum(footer.rows for footer in shape.footers) if shape.deletes else 0
    return int(min(keys * _KEY, 1.5 * limits.key_bytes) + _POSITION * rows + 16 * positions)
