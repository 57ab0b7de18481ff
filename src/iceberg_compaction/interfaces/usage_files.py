"""Usage as files: CSV for spreadsheets, JSON for programs."""

from __future__ import annotations

import csv
import io
from typing import TYPE_CHECKING

from iceberg_compaction.model.usage_row import UsageRow

if TYPE_CHECKING:
    from collections.abc import Sequence

_FORMULA = ("=", "+", "-", "@")  # a spreadsheet would calculate a text that begins so


def csv_text(rows: Sequence[UsageRow]) -> str:
    """The rows with a header."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(UsageRow.model_fields)
    for row in rows:
        writer.writerow(_cell(value) for value in row.model_dump().values())
    return stream.getvalue()


def _cell(value: object) -> object:
    if isinstance(value, float):
        return f"{value:.6f}".rstrip("0").rstrip(".")
    if isinstance(value, str) and value.startswith(_FORMULA):
        return f"'{value}"
    return "" if value is None else value
