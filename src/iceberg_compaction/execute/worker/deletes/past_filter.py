"""Takes rows past their time out of a task's inputs, as deletes take rows out. Batches as their files have them come
in, those without such rows go out, and what was dropped is counted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas

if TYPE_CHECKING:
    from iceberg_compaction.model.past_rows import PastRows


class PastFilter:
    """The filter of one task. A file without the column has no value in any row, so that all rows stay."""

    def __init__(self, past: PastRows) -> None:
        self._past = past
        self.dropped = 0

    def apply(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The rows that are not past their time; the batch itself if all stay."""
        at = arrow_schemas.positions(batch.schema).get(self._past.field_id)
        if at is None:
            return batch
        numbers = _numbers(batch.column(at))
        stays = pc.fill_null(pc.greater_equal(numbers, pa.scalar(self._past.least, pa.int64())), True)
        rows = pc.sum(stays).as_py() or 0
        if rows == batch.num_rows:
            return batch
        self.dropped += batch.num_rows - rows
        return batch.filter(stays)


def _numbers(column: pa.Array) -> pa.Array:
    """Values as the bound counts them: days of dates, microseconds of moments."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        return _numbers(column.dictionary_decode())
    if pa.types.is_timestamp(kind):
        # A moment that is cut off to its microsecond is never after the bound if the whole one is not.
        return column.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    if pa.types.is_date32(kind):
        return column.cast(pa.int32()).cast(pa.int64())
    if pa.types.is_integer(kind):
        return column.cast(pa.int64())
    raise errors.ExecuteError(f"A column of type {kind} does not tell when a row was.")
