"""Tags for periods of time: what is asked for, and the plan that makes them. The tag of a day holds the table as it was
at the end of that day."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Literal

from pydantic import Field

from iceberg_compaction.model import lease
from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.value import Count, Value

TAGS: Literal["tags"] = "tags"


class Every(str, Enum):
    """How often a tag is made."""

    HOUR = "hour"
    DAY = "day"
    MONTH = "month"


class TagGoal(Value):
    """Which tags a table should have."""

    every: Every = Every.DAY
    at_minutes: Annotated[int, Field(ge=0, lt=1440)] = 0  # a period ends so long after midnight, or the full hour
    zone: str = "UTC"  # of the calendar, as the IANA names it
    keep_ms: Count | None = None  # after the end of the period; None: for ever
    pattern: str | None = None  # of the name, as strftime takes it; None: one for each kind of period
    max_delay_ms: Count | None = None  # periods that ended longer ago are not tagged any more; None: see `plan.tagging`
    only_changed: bool = False  # no tag for a period in which nothing was committed


class NewTag(Value):
    """A tag to make."""

    name: str
    snapshot_id: int
    max_ref_age_ms: Count | None = None  # counted from the snapshot, as Iceberg does


class TagPlan(UpkeepPlan):
    """Tags to make. Performing it makes no others, and moves none."""

    operation: Literal["tags"] = TAGS
    goal: TagGoal
    tags: tuple[NewTag, ...] = ()

    @property
    def resources(self) -> tuple[str, ...]:
        return (lease.SNAPSHOTS,)
