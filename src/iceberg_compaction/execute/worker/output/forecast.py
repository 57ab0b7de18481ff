"""Forecasts the bytes that rows will take in a file: a few of them are encoded for trial, and the outcome of earlier
forecasts corrects the next. Batches come in, bytes per row go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from iceberg_compaction.execute.worker.input import value_widths

if TYPE_CHECKING:
    from collections.abc import Iterable

    from iceberg_compaction.execute.worker.output import parquet_options

_PIECES = 4  # of a batch that are tried together
_LEAST_ROWS = 1024
_SHARE = 48  # one row in so many is encoded for trial
_TRIAL_BYTES = 4 * 2**20  # decoded bytes of a trial, unless a single row has more
_UNNEEDED = ("bloom_filter_options", "sorting_columns", "write_page_index", "metadata_collector")


class Forecast:
    """Bytes per row of the next rows, and the error of recent forecasts."""

    def __init__(self, columns: pa.Schema, options: parquet_options.WriteOptions, bytes_per_row: float) -> None:
        self._columns = columns
        self._plain = pa.schema([field.with_type(_value_type(field.type)) for field in columns])
        self._parquet = {name: value for name, value in options.parquet.items() if name not in _UNNEEDED}
        self._latest = max(1.0, bytes_per_row)
        self._factor = 1.0  # real bytes per byte of a trial
        self.learned = False  # whether a forecast has been compared with a file
        self.doubt = 0.5  # the part of a forecast that may be wrong

    def trial(self, batch: pa.RecordBatch, *, remember: bool = True) -> float:
        """Bytes per row of this batch by trial. A small part differs from the whole, in its dictionaries above all, so
        the figure is right only after `corrected`."""
        rows = min(batch.num_rows, max(_LEAST_ROWS, batch.num_rows // _SHARE))
        if batch.num_rows and rows * (width := _mean_bytes(batch)) > _TRIAL_BYTES:
            rows = max(1, int(_TRIAL_BYTES / width))
        length = -(-rows // _PIECES)
        step = max(length, (batch.num_rows - length) // max(1, _PIECES - 1))
        pieces = [self._decoded(batch.slice(start, length)) for start in range(0, batch.num_rows, step)][:_PIECES]
        table = pa.Table.from_batches(pieces, schema=self._plain)
        bytes_per_row = float(max(1.0, self._encoded(table) / max(1, table.num_rows)))
        if remember:
            self._latest = bytes_per_row
        return bytes_per_row

    def weigh(self, batches: Iterable[pa.RecordBatch]) -> int:
        """Bytes that rows take as one row group, measured by encoding all of them."""
        return self._encoded(pa.Table.from_batches(batches, schema=self._columns).unify_dictionaries())

    def _encoded(self, table: pa.Table) -> int:
        stream = pa.MockOutputStream()
        with pq.ParquetWriter(stream, table.schema, **self._parquet) as writer:
            writer.write_table(table, row_group_size=max(1, table.num_rows))
            return int(stream.size())

    @property
    def latest(self) -> float:
        """The last trial, for rows too few to bother."""
        return self._latest

    def corrected(self, size: float) -> float:
        return size * self._factor

    def learn(self, forecast: float, size: int) -> None:
        """Compares a forecast as it came from trials with the real bytes."""
        if forecast <= 0:
            return
        missed = abs(size / self.corrected(forecast) - 1)
        self.doubt = min(0.5, missed if not self.learned else (self.doubt + missed) / 2)
        self._factor = size / forecast if not self.learned else (self._factor + size / forecast) / 2
        self.learned = True

    def _decoded(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The batch without dictionaries, because a writer would store all of a dictionary for a few rows."""
        columns = [
            column.dictionary_decode() if pa.types.is_dictionary(column.type) else column for column in batch.columns
        ]
        return pa.RecordBatch.from_arrays(columns, schema=self._plain)


def _mean_bytes(batch: pa.RecordBatch) -> float:
    """Bytes of a row on average once dictionaries are decoded."""
    if not any(pa.types.is_dictionary(kind) for kind in batch.schema.types):
        return float(batch.nbytes / batch.num_rows)
    return float(np.mean(value_widths.row_bytes(batch)))


def _value_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind
