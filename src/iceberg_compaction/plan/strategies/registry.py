"""The closed list of strategies. A policy comes in, its strategy goes out. A new strategy is a file in this folder, a
line here, and a name in `model.policies.Strategy`."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.plan.strategies import adaptive, cost_optimized, delete_files, full, rewrite_all, small_files

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy

STRATEGIES = MappingProxyType(
    {
        Strategy.SMALL_FILES: small_files.STRATEGY,
        Strategy.FULL: full.STRATEGY,
        Strategy.DELETE_FILES: delete_files.STRATEGY,
        Strategy.COST_OPTIMIZED: cost_optimized.STRATEGY,
        Strategy.ADAPTIVE: adaptive.STRATEGY,
    }
)


def choose(policy: Policy) -> RewriteStrategy:
    """The strategy that plans for a policy."""
    strategy = STRATEGIES[policy.strategy]
    return rewrite_all.of(strategy) if policy.rewrite_all else strategy
