"""Whether a plan would have anything to do, without making it. Health asks this of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from iceberg_compaction.model.policy import Policy
    from iceberg_compaction.model.table import Inventory


def needs_work(inventory: Inventory, policy: Policy) -> bool:
    """Whether `build` would make a plan that is not empty. Never for a table that must not be rewritten."""
    if inventory.unsupported:
        return False
    return not build.build(inventory, policy, plan_id="", now_ms=0).empty
