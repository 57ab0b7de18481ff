"""Statistics of a table: what is asked for, and the plan that makes them. They belong to one snapshot, and help engines
to plan queries; no row depends on them."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model import lease
from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.value import Value

STATISTICS: Literal["statistics"] = "statistics"
ALL_COLUMNS = "all"  # stands for every column that can be counted


class StatisticsGoal(Value):
    """Which statistics a table should have."""

    partitions: bool = True  # counts of rows, files and bytes in each partition, from metadata alone
    columns: tuple[str, ...] = ()  # whose distinct values are counted, which reads them; ALL_COLUMNS: each that can be


class StatisticsPlan(UpkeepPlan):
    """Statistics to make for one snapshot."""

    operation: Literal["statistics"] = STATISTICS
    goal: StatisticsGoal
    snapshot_id: int | None = None  # None: the table has none
    of_partitions: bool = False  # partition statistics are made
    columns: tuple[str, ...] = ()  # distinct values of these are counted

    @property
    def resources(self) -> tuple[str, ...]:
        return (lease.STATISTICS,)
