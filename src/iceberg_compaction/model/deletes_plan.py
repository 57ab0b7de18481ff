"""The plan of the operation `deletes`: the delete files that leave a table, and what takes their place."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model.rewrite_task import Granularity
from iceberg_compaction.model.table_view import Pin
from iceberg_compaction.model.upkeep_plan import UpkeepPlan


class DeletesPlan(UpkeepPlan):
    """Delete files by what becomes of them. Data files are not touched, whatever the plan."""

    operation: Literal["deletes"] = "deletes"
    pin: Pin | None = None  # None: the table has no snapshot
    granularity: Granularity = Granularity.FILE  # of new position deletes
    dangling: tuple[str, ...] = ()  # apply to nothing, and are dropped
    merged: tuple[str, ...] = ()  # position deletes that are written anew
    converted: tuple[str, ...] = ()  # equality deletes that become position deletes
