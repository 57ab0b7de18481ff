"""Rows that wait to be encoded are counted as they come and go."""

from __future__ import annotations

import pyarrow as pa
import pytest

from iceberg_compaction.execute.worker.output import forecast, parquet_options, row_buffer

TRIAL_BYTES = 4_096


def _buffer(rows: pa.RecordBatch) -> row_buffer.RowBuffer:
    options = parquet_options.WriteOptions(row_group_bytes=1 << 20, parquet={"compression": "zstd"}, free=())
    return row_buffer.RowBuffer(forecast.Forecast(rows.schema, options, 8.0), TRIAL_BYTES)


def _batch(rows: int, large: int = 0) -> pa.RecordBatch:
    return pa.record_batch({"id": range(rows), "text": ["x" * (large if row == 3 else row % 7) for row in range(rows)]})


@pytest.mark.parametrize("large", [0, 2 * TRIAL_BYTES], ids=["small rows", "a row that is large by itself"])
def test_all_rows_are_forecast_as_the_sum_of_their_parts(large: int) -> None:
    buffer = _buffer(_batch(1))
    for rows in (100, 5, 900, 40, 7):
        buffer.append(_batch(rows, large))
    while buffer.rows:
        parts = buffer._parts
        assert buffer.nbytes == int(sum(part.batch.num_rows * part.width for part in parts))
        for exact in (False, True):
            total = sum(part.batch.num_rows * part.trial for part in parts if part.exact is exact)
            assert buffer.forecast(buffer.rows)[exact] == pytest.approx(total)
        assert (buffer.rows_before(TRIAL_BYTES) is not None) is any(part.trial >= TRIAL_BYTES for part in parts)
        assert sum(batch.num_rows for batch in buffer.take(min(buffer.rows, 97)))
    assert (buffer.nbytes, buffer.forecast(0)) == (0, (0.0, 0.0))
