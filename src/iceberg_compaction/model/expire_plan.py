"""The plan of an expiry: which snapshots, branches and tags leave a table, and which stay and why."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model import lease
from iceberg_compaction.model.snapshot_retention import Retention, RetentionGoal
from iceberg_compaction.model.upkeep_plan import UpkeepPlan

EXPIRE: Literal["expire"] = "expire"


class ExpirePlan(UpkeepPlan):
    """Snapshots to expire. Performing it never expires others."""

    operation: Literal["expire"] = EXPIRE
    goal: RetentionGoal
    retention: Retention
    snapshot_ids: tuple[int, ...] = ()  # that expire
    refs: tuple[str, ...] = ()  # branches and tags that leave with them
    schema_ids: tuple[int, ...] = ()
    spec_ids: tuple[int, ...] = ()
    unfinished: tuple[str, ...] = ()  # earlier runs whose files are still to be removed

    @property
    def changes_metadata(self) -> bool:
        """Whether there is something to commit."""
        return bool(self.snapshot_ids or self.refs or self.schema_ids or self.spec_ids)

    @property
    def resources(self) -> tuple[str, ...]:
        """Other operations may go on: what they are based on stays."""
        return (lease.SNAPSHOTS,)
