"""What a dry run of housekeeping answers: the plan of one step, or all steps of `maintain`. Closed set."""

from __future__ import annotations

from typing import TypeAlias

from iceberg_compaction.model.deletes_plan import DeletesPlan
from iceberg_compaction.model.expire_plan import ExpirePlan
from iceberg_compaction.model.maintenance import TableMaintenance
from iceberg_compaction.model.manifest_plan import ManifestPlan
from iceberg_compaction.model.orphan_plan import OrphanPlan
from iceberg_compaction.model.statistics_plan import StatisticsPlan
from iceberg_compaction.model.tag_plan import TagPlan
from iceberg_compaction.model.ttl_plan import TtlPlan

PlannedUpkeep: TypeAlias = (
    ExpirePlan | OrphanPlan | ManifestPlan | DeletesPlan | TtlPlan | TagPlan | StatisticsPlan | TableMaintenance
)
