"""Output files: batches come in, Parquet files of the wanted size come out. Row groups and files are cut by what the
rows really took on disk so far, memory stays bounded, row order is kept, and the last few rows never become a file of
their own."""

from __future__ import annotations

import contextlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.execute.worker import buffer, forecast, metrics
from iceberg_compaction.model import sizing

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from iceberg_compaction.execute.worker import locations, measure, options
    from iceberg_compaction.model import policy

_BUFFER_BYTES = 192 * 2**20  # Arrow bytes held back at most; a row group may come out smaller for it
_CLOSE_ENOUGH = 0.1  # of a size; no row group is opened for less
_FULL = 0.03  # of the target; a file that lacks no more than this is full
_DOUBTFUL = 0.7  # the part of a file's room that is filled first where the forecast may miss by more than that
_TRIAL_BYTES = 8 * 2**20  # Arrow bytes of which a few rows are encoded for trial


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """What is to be written. `bytes_per_row` is what rows take in the inputs, a first guess at what comes out."""

    columns: pa.Schema
    options: options.WriteOptions
    locations: locations.OutputLocations
    sizes: policy.Sizes
    partition: str  # canonical JSON
    rows: int | None  # how many will come, at most; None: nobody knows
    bytes_per_row: float


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenFile:
    """A finished file, its footer as the writer made it, and what the footer does not know."""

    path: str
    partition: str
    size: int
    metadata: Any
    rows: metrics.RowMetrics


class RollingWriter:
    """Writes one attempt's files. The meter stands where rows enter the Parquet encoder, so whatever happens before,
    in here too, is seen by it."""

    def __init__(self, io: FileIO, request: WriteRequest, meter: measure.Meter) -> None:
        self._io = io
        self._request = request
        self._meter = meter
        self._forecast = forecast.Forecast(request.columns, request.options, request.bytes_per_row)
        self._buffer = buffer.RowBuffer(self._forecast, min(_TRIAL_BYTES, request.sizes.target // 10))
        self._written_rows = 0
        self._recent = (0.0, 0.0)  # rows and bytes written, those of earlier files fading out
        self._footer = 0  # bytes that the last file took after its rows
        self._known_rows = request.rows
        self._file: _OpenFile | None = None
        self.finished: list[WrittenFile] = []
        self.paths: list[str] = []  # everything that this attempt has put on storage

    def write(self, batch: pa.RecordBatch) -> None:
        """Take a batch; encode what makes a whole row group."""
        self._buffer.append(batch)
        while rows := self._group_rows():
            self._write_group(rows)

    def expect(self, rows: int) -> None:
        """How many rows will come in all, as far as is known by now."""
        self._known_rows = rows

    @property
    def buffered_bytes(self) -> int:
        return self._buffer.nbytes

    def flush(self) -> None:
        """Encode what is buffered, to free its memory."""
        while self._buffer.rows:
            self._write_group(self._group_rows() or self._buffer.rows)

    def close(self) -> list[WrittenFile]:
        """Encode the rest and finish the last file."""
        self._known_rows = self._written_rows + self._buffer.rows
        self.flush()
        if self._file is not None:
            self._finish_file()
        return self.finished

    def abort(self) -> tuple[str, ...]:
        """Give up: close what is open and delete everything. Returns what could not be deleted."""
        if self._file is not None:
            self._file.abandon()
            self._file = None
        left = []
        for path in self.paths:
            try:
                self._io.delete(path)
            except FileNotFoundError:
                continue
            except Exception:  # noqa: BLE001 - the error that led here matters more, and is on its way up
                left.append(path)
        return tuple(left)

    # Where to cut

    def _held(self) -> int:
        """Bytes of the file that the next rows go to: the open one, unless that is full. A full one stays open until
        there are rows for another, since the last few may still go into it."""
        held = 0 if self._file is None else self._file.position
        room, takes_all = self._room(held)
        return 0 if not takes_all and room <= _FULL * self._request.sizes.target else held

    def _to_come(self) -> int:
        """Bytes of rows that are not written yet, buffered or still to be read."""
        known = self._buffer.size
        unread = max(0, (self._known_rows or 0) - self._written_rows - self._buffer.rows)
        rows, size = self._recent
        return int(known + unread * (size + known) / max(1.0, rows + self._buffer.rows))

    def _room(self, held: int) -> tuple[int, bool]:
        """Bytes that a file with so many should still take, and whether it takes all that is to come."""
        held += self._footer
        if self._known_rows is None:
            return self._request.sizes.target - held, False
        rest = self._to_come()
        if sizing.takes_all(held, rest, self._request.sizes):
            return rest, True
        room = sizing.roll_size(held + rest, self._request.sizes, held) - held
        return room, rest - room <= _CLOSE_ENOUGH * self._request.sizes.target

    def _group_bytes(self) -> float:
        """What the next row group should take."""
        room, takes_all = self._room(self._held())
        group = self._request.options.row_group_bytes
        if room > (1 + _CLOSE_ENOUGH) * group:
            return group
        if takes_all:
            return math.inf
        # What ends a file must hit. The larger part comes first, and what it really took tells how large the rest is.
        doubtful = self._forecast.doubt * room > _FULL * self._request.sizes.target
        return room * _DOUBTFUL if doubtful else room

    def _group_rows(self) -> int:
        """Rows of the next row group; 0 means: wait for more."""
        wanted = self._group_bytes()
        if self._buffer.rows and self._buffer.size >= wanted:
            return self._buffer.rows_within(wanted)
        return self._buffer.rows if self._buffer.nbytes >= _BUFFER_BYTES else 0

    # Encoding

    def _write_group(self, rows: int) -> None:
        if self._file is not None and not self._held():
            self._finish_file()
        told = self._buffer.told(rows)
        table = pa.Table.from_batches(self._take(rows), schema=self._request.columns).unify_dictionaries()
        if self._file is None:
            self._file = self._open_file(table)
        for batch in table.to_batches():
            self._meter.add(batch)
        size = self._file.write(table)
        self._forecast.learn(told, size)
        self._written_rows += rows
        fading = 0.5 ** (size / self._request.sizes.target)
        self._recent = (self._recent[0] * fading + rows, self._recent[1] * fading + size)

    def _open_file(self, first: pa.Table) -> _OpenFile:
        path = self._request.locations.path(len(self.paths))
        stream = self._io.new_output(path).create()
        self.paths.append(path)  # not earlier: a file that was there before is not ours to delete
        return _OpenFile(path, stream, self._request, first)

    def _take(self, rows: int) -> list[pa.RecordBatch]:
        return self._buffer.take(rows)

    def _finish_file(self) -> None:
        assert self._file is not None
        position = self._file.position
        self.finished.append(self._file.finish())
        self._footer = self.finished[-1].size - position
        self._file = None


class _OpenFile:
    """One file being written."""

    def __init__(self, path: str, stream: Any, request: WriteRequest, first: pa.Table) -> None:
        self.path = path
        self._partition = request.partition
        self._stream = stream
        self._metadata: list[Any] = []
        self._rows = metrics.RowMetrics(columns=request.columns)
        arguments = request.options.arguments(first)
        self._writer = pq.ParquetWriter(self._stream, request.columns, metadata_collector=self._metadata, **arguments)
        self.position = 0

    def write(self, table: pa.Table) -> int:
        """Encode one row group; returns its bytes."""
        self._rows.add(table)
        self._writer.write_table(table, row_group_size=table.num_rows)
        before, self.position = self.position, int(self._stream.tell())
        return self.position - before

    def finish(self) -> WrittenFile:
        self._writer.close()
        size = int(self._stream.tell())
        self._stream.close()
        return WrittenFile(
            path=self.path, partition=self._partition, size=size, metadata=self._metadata[0], rows=self._rows
        )

    def abandon(self) -> None:
        """Close without caring whether the file is whole; it is deleted next."""
        for part in (self._writer, self._stream):
            with contextlib.suppress(Exception):
                part.close()
