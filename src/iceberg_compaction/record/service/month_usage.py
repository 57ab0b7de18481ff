"""What tenants have used, added up from the history of runs. The history forgets runs after a while, so that a month is
complete only as long as all of its runs are kept."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model.usage_row import UsageRow

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.record.store import RunStore

_AT_ONCE = 1000
_MONTH = re.compile(r"(\d{4})-(\d{2})")


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageRequest:
    """One month such as 2026-11. `tenant_of`: the tenant of a table; None: as its policy has it. `may_see`: whether
    rows of a tenant are wanted."""

    month: str
    tenant_of: Callable[[str], str | None]
    may_see: Callable[[str | None], bool] = lambda tenant: True


def usage(store: RunStore, request: UsageRequest) -> list[UsageRow]:
    """A row for each tenant that had runs, by name; tables of no tenant come first."""
    start_ms, end_ms = month_bounds(request.month)
    rows: dict[str | None, UsageRow] = {}
    for record in _runs(store, start_ms, end_ms):
        tenant = request.tenant_of(record.table) or record.outcome.tenant
        if request.may_see(tenant):
            rows[tenant] = _add(rows.get(tenant) or UsageRow(month=request.month, tenant=tenant), record)
    return [rows[tenant] for tenant in sorted(rows, key=lambda name: (name is not None, name or ""))]


def month_bounds(month: str) -> tuple[int, int]:
    """The first and the last millisecond of a month; ConfigError: it is none."""
    match = _MONTH.fullmatch(month.strip())
    try:
        year, number = (int(match[1]), int(match[2])) if match else (0, 0)
        start = datetime(year, number, 1, tzinfo=timezone.utc)
        end = datetime(year + number // 12, number % 12 + 1, 1, tzinfo=timezone.utc)
    except ValueError:
        raise errors.ConfigError(f"{month[:20]!r} is no month; write it like 2026-11.") from None
    return int(start.timestamp() * 1000), int(end.timestamp() * 1000) - 1


def month_of(now_ms: int) -> str:
    """The month of a moment."""
    return datetime.fromtimestamp(now_ms / 1000, timezone.utc).strftime("%Y-%m")


def _runs(store: RunStore, start_ms: int, end_ms: int) -> Iterator[RunRecord]:
    """Runs of this time, read in parts: those of one moment at the edge of two parts count once."""
    until_ms, edge = end_ms, set[str]()
    at_once = _AT_ONCE
    while True:
        part = store.history(since_ms=start_ms, until_ms=until_ms, limit=at_once)
        new = [record for record in part if record.run_id not in edge]
        yield from new
        if len(part) < at_once:
            return
        last_ms = part[-1].started_ms
        if last_ms == until_ms and not new:
            at_once *= 2  # more runs began at one moment than are read at once
            continue
        edge = {record.run_id for record in part if record.started_ms == last_ms} | (
            edge if last_ms == until_ms else set()
        )
        until_ms = last_ms


def _add(row: UsageRow, record: RunRecord) -> UsageRow:
    end = record.outcome
    effort = end.effort
    seconds = effort.copy_seconds + effort.join_seconds + effort.encode_seconds
    return row.model_copy(
        update={
            "runs": row.runs + 1,
            "failed": row.failed + (not end.ok),
            "bytes_read": row.bytes_read + effort.bytes,
            "bytes_written": row.bytes_written + end.bytes_added,
            "requests": row.requests + end.requests.total,
            "compute_seconds": row.compute_seconds + seconds,
            "run_seconds": row.run_seconds + end.seconds,
            "cost": row.cost + end.cost,
        }
    )
