"""Decodes a Parquet file in batches of bounded memory, whatever its bytes stand for: a dictionary of long texts that
millions of rows name, runs of equal values, pages that compress to nothing. Footers and page headers come in; batches
go out, and dictionaries of texts are decoded only as far as they fit."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction import errors
from iceberg_compaction.execute.worker.input import column_slices, row_needs, stored_columns, value_widths
from iceberg_compaction.formats.parquet import page_headers
from iceberg_compaction.model import byte_size

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from iceberg_compaction.execute.worker import budgets

_SAMPLE_ROWS = 16
_TINY = 2**20  # bytes of a file, decompressed


class Decoder:
    """An open file, read row group by row group."""

    def __init__(
        self,
        stream: Any,
        memory: row_needs.Needs,
        columns: Sequence[str] | None,
        limits: budgets.Budgets,
        **options: Any,
    ) -> None:
        self._needs = memory
        self._columns = columns
        self._limits = limits
        coded = memory.coded | {
            chunk.path for chunk in memory.unsure if self._is_wanted(chunk) and _is_coded(chunk, stream)
        }
        self._dense = _inspect_pages(stream, [chunk for chunk in memory.dense if self._is_wanted(chunk)], limits)
        self._open = functools.partial(_open, stream, options)
        self._file = self._open(coded)
        self._nested = {path for path in coded if "." in path}
        self._flat = coded - self._nested
        self.groups = self._file.num_row_groups

    def _is_wanted(self, chunk: row_needs.ColumnChunk) -> bool:
        return self._columns is None or any(
            chunk.path == name or chunk.path.startswith(f"{name}.") for name in self._columns
        )

    def batches(self, group: int, kept: Collection[str] = ()) -> Iterator[pa.RecordBatch]:
        """The rows of a row group. The columns of `kept` stay dictionaries if they are."""
        rows, done = self._rows(group), 0
        if slices := self._slices(group):
            each = replace(self._limits, batch_bytes=self._limits.batch_bytes // len(slices))
            for batch in column_slices.batches(slices, lambda names: self._columns_of(group, rows, names, kept, each)):
                yield from bounded(batch, kept, self._limits)
            return
        options = {"row_groups": [group], "columns": self._columns, "use_threads": self._limits.cores > 1}
        try:
            for batch in self._file_for(group).iter_batches(rows, **options):
                yield from bounded(batch, kept, self._limits)
                done += batch.num_rows
        except pa.ArrowNotImplementedError:
            # Within lists and structs pyarrow can only read dictionaries that are not given up half-way.
            if not self._nested:
                raise
            self._file, self._nested = self._open(self._flat), set()
            for batch in self._file_for(group).iter_batches(rows, **options):
                rest = batch.slice(min(done, batch.num_rows))
                done -= batch.num_rows - rest.num_rows
                yield from bounded(rest, kept, self._limits)

    def _file_for(self, group: int) -> Any:
        """The open file, without the dictionaries that pyarrow cannot make in this row group."""
        coded, deltas = self._flat | self._nested, self._needs.deltas[group]
        return self._file if coded.isdisjoint(deltas) else self._open(coded - deltas)

    def _slices(self, group: int) -> list[list[str]]:
        """The columns in slices that are decoded in turn; none: all of them at a time."""
        if self._needs.open_bytes[group] <= self._limits.open_bytes:
            return []
        sizes: dict[str, int] = dict.fromkeys(self._columns or self._file.schema_arrow.names, 0)
        if any("." in name for name in sizes):
            return []  # a dot means a path to pyarrow
        for column in stored_columns.of_group(self._file.metadata.row_group(group)).columns:
            name = column.path.split(".")[0]
            if name in sizes and column.values:
                sizes[name] += row_needs.open_bytes(column)
                sizes[name] += 2 * min(self._limits.stream_bytes, column.compressed)
        slices = column_slices.cut(sizes, self._limits.open_bytes)
        return slices if len(slices) > 1 else []

    def _columns_of(
        self, group: int, rows: int, names: Sequence[str], kept: Collection[str], limits: budgets.Budgets
    ) -> Iterator[pa.RecordBatch]:
        """All rows of a few columns; nested dictionaries are decoded, because pyarrow may not be able to read them, and
        the others except those of `kept`, because the dictionaries of all columns meet later."""
        file = self._open(self._flat - self._needs.deltas[group]) if self._nested else self._file_for(group)
        for batch in file.iter_batches(rows, row_groups=[group], columns=names, use_threads=False):
            yield from bounded(batch, kept, limits)

    def whole(self, rows: int) -> pa.Table | None:
        """All rows in one go, if these are few; None: they are not. Texts may be dictionaries."""
        if self._nested or self._flat & frozenset().union(*self._needs.deltas):
            return None
        if any(self._rows(group) < rows or self._slices(group) for group in range(self.groups)):
            return None
        # Threads of pyarrow would cost more than they gain where tiny files are decoded side by side.
        is_tiny = sum(self._file.metadata.row_group(group).total_byte_size for group in range(self.groups)) <= _TINY
        return self._file.read(self._columns, use_threads=self._limits.cores > 1 and not is_tiny)

    def _rows(self, group: int) -> int:
        """Rows of a row group that are decoded at once."""
        each = max(self._needs.row_bytes[group], self._dense.get(group, 0.0))
        if self._needs.prefixed:
            each += self._sample(group)
        rows = int(self._limits.batch_bytes / max(1.0, each))
        if not rows and each > self._limits.row_bytes:
            raise too_large(int(each), self._limits)
        return max(1, min(self._limits.batch_rows, rows))

    def _sample(self, group: int) -> float:
        """Bytes of a row's texts that are stored as their difference from the text before."""
        paths = [path for path in self._needs.prefixed if self._columns is None or path.split(".")[0] in self._columns]
        options = {"row_groups": [group], "columns": paths, "use_threads": False}
        batch = next(self._file_for(group).iter_batches(_SAMPLE_ROWS, **options), None) if paths else None
        return 0.0 if batch is None or not batch.num_rows else 2 * batch.nbytes / batch.num_rows


def _open(stream: Any, options: dict[str, Any], coded: Collection[str]) -> Any:
    stream.seek(0)
    return pq.ParquetFile(stream, read_dictionary=sorted(coded), **options)


def _is_coded(chunk: row_needs.ColumnChunk, stream: Any) -> bool:
    page = page_headers.first(stream, chunk.start)
    if page.values >= chunk.values:
        return False  # no value is repeated, so a dictionary would only be one more copy
    return (
        page.kind == page_headers.DICTIONARY
        and chunk.uncompressed - page.uncompressed <= row_needs.INDEX * chunk.values
    )


def _inspect_pages(stream: Any, dense: Sequence[row_needs.ColumnChunk], limits: budgets.Budgets) -> dict[int, float]:
    """The most bytes that a row takes in a page, by row group. Raises UnsupportedError where pages are too large."""
    row_bytes: dict[int, float] = {}
    open_bytes: dict[int, int] = {}
    for chunk in dense:
        largest, each = 0, 0.0
        for page in page_headers.all_pages(stream, chunk.start, chunk.length):
            largest = max(largest, page.uncompressed)
            if page.kind != page_headers.DICTIONARY:
                each = max(each, page.uncompressed / max(1, page.values))
        row_bytes[chunk.group] = row_bytes.get(chunk.group, 0.0) + each
        open_bytes[chunk.group] = open_bytes.get(chunk.group, 0) + largest
    if (most := max(open_bytes.values(), default=0)) > limits.page_bytes:
        raise errors.UnsupportedError(
            f"its pages decompress to {byte_size.format_size(most)} at a time, but at most "
            f"{byte_size.format_size(limits.page_bytes)} may be in memory; write it anew with smaller pages"
        )
    return row_bytes


def bounded(batch: pa.RecordBatch, kept: Collection[str], limits: budgets.Budgets) -> Iterator[pa.RecordBatch]:
    """A batch in slices that are small when decoded. Dictionaries are decoded, except in the columns of `kept`."""
    coded = [column for column in batch.columns if value_widths.has_dictionary(column.type)]
    if not coded:
        yield batch
        return
    if value_widths.most_bytes(batch) <= min(limits.batch_bytes, limits.row_bytes):
        yield _without_dictionaries(batch, kept)
        return
    each = value_widths.row_bytes(batch)
    for start, rows in value_widths.cuts(each, batch.num_rows, limits.batch_bytes):
        if rows == 1 and (width := each if isinstance(each, int) else int(each[start])) > limits.row_bytes:
            raise too_large(width, limits)
        yield _without_dictionaries(batch.slice(start, rows), kept)


def _without_dictionaries(batch: pa.RecordBatch, kept: Collection[str]) -> pa.RecordBatch:
    names = batch.schema.names
    columns = [
        column if name in kept else value_widths.decoded(column)
        for name, column in zip(names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)


def too_large(row_bytes: int, limits: budgets.Budgets) -> errors.UnsupportedError:
    """The error for a single row that is larger than its budget."""
    return errors.UnsupportedError(
        f"it has a row of {byte_size.format_size(row_bytes)}, but a row may take at most "
        f"{byte_size.format_size(limits.row_bytes + 1)} of memory"
    )
