"""Filters that ask for the time, such as `ts >= current_date() - interval 7 days`, get one answer for a plan: the plan
has the time itself, and whoever reads or performs it later selects the same rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.metadata import look
from iceberg_compaction.model import times

if TYPE_CHECKING:
    from pyiceberg.table import Table


def pin(where: str | None, table: Table, now_ms: int) -> str | None:
    """The filter with times in it. ConfigError: it cannot be read."""
    return None if where is None else look.pin_filter(where, table, now_ms)


def notes(stated: str | None, pinned: str | None, now_ms: int) -> tuple[str, ...]:
    """What a plan says of it; nothing if the filter is as it was."""
    if stated == pinned:
        return ()
    return (f"The filter {stated} was read at {times.utc_minute(now_ms)}: {pinned}.",)
