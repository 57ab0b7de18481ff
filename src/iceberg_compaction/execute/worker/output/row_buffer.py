"""Rows that wait to be encoded, in order, with a forecast of the bytes that they will take in a file."""

from __future__ import annotations

import collections
import itertools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.execute.worker.input import value_widths

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_compaction.execute.worker.output import forecast


@dataclass(frozen=True, slots=True)
class _BufferedRows:
    batch: pa.RecordBatch
    width: float  # Arrow bytes per row; a slice would count all of its dictionaries
    trial: float  # bytes per row in a file, by trial
    exact: bool = False  # whether all of these rows were tried

    def sliced(self, start: int, rows: int) -> _BufferedRows:
        return replace(self, batch=self.batch.slice(start, rows))


class RowBuffer:
    """First in, first out. `trial_bytes`: a trial is made after so many Arrow bytes, for fewer the last one counts."""

    def __init__(self, forecasts: forecast.Forecast, trial_bytes: int) -> None:
        self._forecasts = forecasts
        self._trial_bytes = trial_bytes
        self._untried = float(trial_bytes)  # so that the first batch is tried whatever its size
        self._parts: collections.deque[_BufferedRows] = collections.deque()
        # Of all parts: a task has many small ones, and each is asked for after each.
        self._arrow_bytes = 0.0
        self._forecast = [0.0, 0.0]
        self._exact_parts = 0
        self.rows = 0

    def append(self, batch: pa.RecordBatch) -> None:
        """Takes a batch, in pieces if it is large, since rows may change on the way. A row that is large by itself is a
        piece whose bytes are known exactly from its trial."""
        for start, stop in itertools.pairwise(_cuts(batch, self._trial_bytes)):
            piece = batch.slice(start, stop - start)
            if piece.num_rows == 1 and piece.nbytes >= self._trial_bytes:  # it says nothing about other rows
                trial = self._forecasts.trial(piece, remember=False)
                self._put(_BufferedRows(piece, piece.nbytes, trial, exact=True))
            else:
                self._append(piece)
        self.rows += batch.num_rows

    def _append(self, batch: pa.RecordBatch) -> None:
        width = batch.nbytes / max(1, batch.num_rows)
        pieces = max(1, min(batch.num_rows, batch.nbytes // self._trial_bytes))
        rows = max(1, -(-batch.num_rows // pieces))
        for start in range(0, batch.num_rows, rows):
            piece = batch.slice(start, rows)
            self._untried += piece.num_rows * width
            if self._untried >= self._trial_bytes:
                self._untried = 0
                trial = self._forecasts.trial(piece)
            else:
                trial = self._forecasts.latest
            self._put(_BufferedRows(piece, width, trial))

    def _put(self, part: _BufferedRows, *, first: bool = False) -> None:
        (self._parts.appendleft if first else self._parts.append)(part)
        self._count(part, 1)

    def _pop(self) -> _BufferedRows:
        part = self._parts.popleft()
        self._count(part, -1)
        if not self._parts:  # what rounding left
            self._arrow_bytes, self._forecast = 0.0, [0.0, 0.0]
        return part

    def _count(self, part: _BufferedRows, sign: int) -> None:
        rows = sign * part.batch.num_rows
        self._arrow_bytes += rows * part.width
        self._forecast[part.exact] += rows * part.trial
        self._exact_parts += sign * part.exact

    @property
    def weight(self) -> int:
        """Bytes that all rows take as one row group, measured by encoding them."""
        return self._forecasts.weigh(part.batch for part in self._parts)

    @property
    def nbytes(self) -> int:
        """Arrow bytes."""
        return int(self._arrow_bytes)

    @property
    def size(self) -> float:
        """Bytes that all rows will take in a file."""
        guessed, exact = self.forecast(self.rows)
        return self._forecasts.corrected(guessed) + exact

    def forecast(self, rows: int) -> tuple[float, float]:
        """Bytes of the first rows by trial: those that need a correction, and those that are exact."""
        if rows >= self.rows:
            return self._forecast[0], self._forecast[1]
        totals = [0.0, 0.0]
        for part in self._parts:
            count = min(rows, part.batch.num_rows)
            totals[part.exact] += count * part.trial
            rows -= count
        return totals[0], totals[1]

    def _each(self, part: _BufferedRows) -> float:
        return part.trial if part.exact else self._forecasts.corrected(part.trial)

    def rows_before(self, size: float) -> int | None:
        """Rows before the first row that takes so many bytes alone; None: there is no such row."""
        rows = 0
        for part in self._parts if self._exact_parts else ():
            if part.exact and part.trial >= size:
                return rows
            rows += part.batch.num_rows
        return None

    def rows_within(self, size: float) -> int:
        """Rows that will take so many bytes; at least one, at most all."""
        rows = 0
        for part in self._parts:
            each = self._each(part)
            if size <= part.batch.num_rows * each:
                return max(1, rows + int(size / each))
            rows += part.batch.num_rows
            size -= part.batch.num_rows * each
        return rows

    def take(self, rows: int) -> list[pa.RecordBatch]:
        """Removes the first rows."""
        taken, missing = [], rows
        while missing:
            part = self._pop()
            count = part.batch.num_rows
            if count > missing:
                self._put(part.sliced(missing, count - missing), first=True)
                part = part.sliced(0, missing)
            taken.append(part.batch)
            missing -= part.batch.num_rows
        self.rows -= rows
        return taken


def _cuts(batch: pa.RecordBatch, large: int) -> list[int]:
    """The starts of the pieces of a batch, and its end, so that every row of so many bytes is a piece of its own."""
    ends = {0, batch.num_rows}
    if batch.num_rows > 1 and batch.nbytes >= large and not isinstance(each := value_widths.row_bytes(batch), int):
        rows = np.flatnonzero(each >= large).tolist()
        ends.update(rows, (row + 1 for row in rows))
    return sorted(ends)
