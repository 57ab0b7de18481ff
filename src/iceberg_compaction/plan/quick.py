"""Whether a plan would have anything to do, without making it: no file is sorted unless its partition is too large for
one group. Health asks this of every table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.plan import build, decide

if TYPE_CHECKING:
    from iceberg_compaction.model.policy import Policy
    from iceberg_compaction.model.table import Inventory


def needs_work(inventory: Inventory, policy: Policy) -> bool:
    """Whether `build` would make a plan that is not empty. Never for a table that must not be rewritten."""
    return needs_rewrite(inventory, policy) or (inventory.useless_deletes > 0 and not inventory.unsupported)


def needs_rewrite(inventory: Inventory, policy: Policy) -> bool:
    """Whether `build` would make a plan with groups."""
    if inventory.unsupported:
        return False
    decided = decide.decide(inventory, policy, decide.resolve_sizes(inventory, policy))
    kept = decided.verdict.kept
    if policy.max_files_to_rewrite is None and policy.max_bytes_to_rewrite is None:
        return bool(kept.any())
    # A budget smaller than the first group may leave nothing to gain.
    return bool(kept.any()) and len(build.build(inventory, policy, plan_id="", now_ms=0).groups) > 0
