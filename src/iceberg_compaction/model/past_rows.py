"""Rows past their time, as a worker tells them from the others: by the value of one column."""

from __future__ import annotations

from iceberg_compaction.model.value import Value


class PastRows(Value):
    """Rows whose value is below `least`. Rows without a value are none of them."""

    field_id: int  # of a top-level column
    least: int  # that stays: days, microseconds or a whole number, as the column's type has it
