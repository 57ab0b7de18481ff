"""What a health check is told beside the inventory: what was asked for, and what others found out. Every part of the
check reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.inspect.delete_cost import Applied
    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.snapshot_history import History

WORST = 10
MANY_DELETES = 5  # delete files that apply to one data file; each is opened whenever it is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """One table's check. What is None is not known, and left out of the answer."""

    policy: Policy
    sizes: Sizes  # resolved for the table
    sick: bool  # a run by the policy would find something to do
    worn: bool = False  # so would `delete-files`, with MANY_DELETES as its threshold
    applied: Applied | None = None
    history: History | None = None
    worst: int = WORST  # how many partitions to name
