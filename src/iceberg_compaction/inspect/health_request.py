"""The input of a health check beside the view of the table: the policy, and facts from other rooms. Every part of the
check reads it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.inspect.delete_cost import AppliedCounts
    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.snapshot_history import History

WORST = 10
MANY_DELETES = 5  # delete files that apply to one data file; each scan of the data file opens them all


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """One table's check. A fact that is None is unknown, and health leaves it out."""

    policy: Policy
    sizes: Sizes  # resolved for the table
    sick: bool  # a run with the policy has something to do
    delete_heavy: bool = False  # so has a run of `delete-files` with MANY_DELETES as its threshold
    applied: AppliedCounts | None = None
    history: History | None = None
    worst: int = WORST  # number of partitions to list
