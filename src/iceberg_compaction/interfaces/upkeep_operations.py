"""Operations of housekeeping from what people write, for the command line and the library alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model import moments
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots

if TYPE_CHECKING:
    from collections.abc import Sequence


def retention_goal(
    *,
    older_than: str | None = None,
    retain_last: int | None = None,
    snapshot_ids: Sequence[int] = (),
    allow_recent: bool = False,
    clean_metadata: bool = False,
    keep_files: bool = False,
) -> RetentionGoal:
    """What is asked of an expiry. `older_than` is a moment such as 5d or 2026-01-31."""
    return RetentionGoal(
        older_than_ms=None if older_than is None else max(0, moments.parse_ms(older_than, wiring.now_ms())),
        retain_last=retain_last,
        snapshot_ids=tuple(snapshot_ids),
        allow_recent=allow_recent,
        clean_metadata=clean_metadata,
        keep_files=keep_files,
    )


def expire(
    table: str, goal: RetentionGoal, *, per_second: float | None = None, count_files: bool = False
) -> ExpireSnapshots:
    """The expiry of a table's snapshots. `count_files`: the plan finds the files that would go, too."""
    return ExpireSnapshots(table=table, goal=goal, per_second=per_second, count_files=count_files)
