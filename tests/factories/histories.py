"""Snapshot histories made in memory: commits of some writer at a steady pace."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from iceberg_compaction.model.snapshot_history import SNAPSHOTS, History

NOON = 1_767_268_800_000  # 2026-01-01 12:00 UTC
MINUTE = 60_000


def commits(count: int, *, every_ms: int = MINUTE, start_ms: int = NOON, first: int = 1, **columns: Any) -> pa.Table:
    """As many snapshots; what is not given is null, or an append of Spark. `first`: the first sequence number."""
    given = {
        "snapshot_id": list(range(first, first + count)),
        "sequence_number": list(range(first, first + count)),
        "timestamp_ms": [start_ms + number * every_ms for number in range(count)],
        "operation": "append",
        "engine": "spark",
        **columns,
    }
    filled = {
        field.name: value if isinstance(value := given.get(field.name), list) else [value] * count
        for field in SNAPSHOTS
    }
    return pa.table(filled, schema=SNAPSHOTS)


def history(*parts: pa.Table, **changes: Any) -> History:
    """One line of snapshots."""
    return History(snapshots=pa.concat_tables([SNAPSHOTS.empty_table(), *parts]), **changes)
