"""Whether the schedule of a table is due. Moments that were missed are caught up with once, not one by one; a clock
that jumped ahead and came back does not stop a schedule."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction.policy import due_times

if TYPE_CHECKING:
    from iceberg_compaction.model.table_policy import TablePolicy

JUMP_MS = 3_600_000  # a state that is further in the future was written by a wrong clock


@dataclass(frozen=True, slots=True, kw_only=True)
class DueMoment:
    """The answer. `due_ms`: the first moment since the last one that was attended to which has come; None: none has.
    `next_ms`: the next one to wait for, without the delay of the table; None: there is none."""

    due_ms: int | None
    next_ms: int | None


def check(policy: TablePolicy, done_ms: int, now_ms: int, delay_ms: int = 0) -> DueMoment:
    """The schedule of a table that was attended to until `done_ms`, at this moment. The table is due `delay_ms` after
    each moment of its schedule."""
    since = corrected(done_ms, now_ms)
    first = _next(policy, since)
    if first is None or first + delay_ms > now_ms:
        return DueMoment(due_ms=None, next_ms=first)
    return DueMoment(due_ms=first, next_ms=_next(policy, now_ms - delay_ms))


def corrected(moment_ms: int, now_ms: int) -> int:
    """A moment of the past; one of a future that no clock shows yet counts as now."""
    return now_ms if moment_ms > now_ms + JUMP_MS else moment_ms


def _next(policy: TablePolicy, after_ms: int) -> int | None:
    due = due_times.next_due(policy, datetime.fromtimestamp(after_ms / 1000, timezone.utc))
    return None if due is None else round(due.timestamp() * 1000)
