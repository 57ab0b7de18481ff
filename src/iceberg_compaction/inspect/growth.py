"""Growth of a table by day: the commits of its history come in, one value for each day (UTC) with commits goes out, the
oldest first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import times
from iceberg_compaction.model.table_health import GrowthDay

if TYPE_CHECKING:
    import pyarrow as pa

    from iceberg_compaction.inspect.writers import WriterCommits

MOST_DAYS = 90
_DAY_MS = 86_400_000
_SUMS = ("added_files", "removed_files", "added_bytes", "removed_bytes", "added_records", "removed_records")
_TOTALS = ("total_files", "total_bytes", "total_records")


def growth(commits: WriterCommits, snapshots: pa.Table) -> tuple[GrowthDay, ...]:
    """The latest MOST_DAYS days that had commits."""
    days = commits.columns["timestamp_ms"] // _DAY_MS
    totals = {name: snapshots[name] for name in _TOTALS}
    return tuple(_day(commits, totals, int(day), np.flatnonzero(days == day)) for day in np.unique(days)[-MOST_DAYS:])


def _day(commits: WriterCommits, totals: dict[str, pa.ChunkedArray], day: int, rows: np.ndarray) -> GrowthDay:
    added = np.bincount(commits.writer[rows], weights=commits.columns["added_files"][rows]).astype(np.int64)
    last = int(rows[-1])  # snapshots are in the order of the branch, whatever their timestamps
    return GrowthDay(
        day=times.day(day),
        commits=len(rows),
        **{name: int(commits.columns[name][rows].sum()) for name in _SUMS},
        **{name: column[last].as_py() for name, column in totals.items()},
        added_files_by_writer={commits.name(number): int(added[number]) for number in np.flatnonzero(added).tolist()},
    )
