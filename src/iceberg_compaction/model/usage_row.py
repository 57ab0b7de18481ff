"""What one tenant has used in a month, for whoever shares the bill."""

from __future__ import annotations

from iceberg_compaction.model.value import Value


class UsageRow(Value):
    """One tenant in one month, in UTC. Runs count in the month in which they began."""

    month: str  # 2026-11
    tenant: str | None  # None: tables of no tenant
    runs: int = 0
    failed: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    requests: int = 0  # to object stores
    compute_seconds: float = 0.0  # of tasks
    run_seconds: float = 0.0  # from the beginning of runs to their end
    cost: float = 0.0  # dollars, by the price list
