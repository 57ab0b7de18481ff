"""Whether a table is due, from its stored health alone: for a scheduler over many tables."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.value import Value


class DueState(str, Enum):
    """The answer. Closed set."""

    DUE = "due"  # a trigger fires
    QUIET = "quiet"  # none does
    UNKNOWN = "unknown"  # the stored figures do not say; only a look at the table does


class TableDue(Value):
    """The answer for one table."""

    catalog: str
    table: str
    state: DueState
    triggers: tuple[str, ...] = ()  # those that fire, with figures
    unknown: tuple[str, ...] = ()  # names of those that the stored figures do not answer
    next_ms: int | None = None  # when time alone makes the table due; None: never
    seen_ms: int  # when the figures were measured
