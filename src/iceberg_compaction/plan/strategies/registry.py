"""The list of strategies. A policy comes in, its strategy goes out. A new strategy of ours is a file in this folder, a
line here, and a name in `model.policies.Strategy`; those of other packages are found by their entry points."""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING

from iceberg_compaction.model.policies import Strategy
from iceberg_compaction.plan.strategies import (
    adaptive,
    cost_optimized,
    delete_files,
    dimensional,
    full,
    installed_strategies,
    rewrite_all,
    small_files,
    sort,
    time_series,
)

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
        Strategy.SORT: sort.STRATEGY,
        Strategy.TIME_SERIES: time_series.STRATEGY,
        Strategy.DIMENSIONAL: dimensional.STRATEGY,
    }
)


def choose(policy: Policy) -> RewriteStrategy:
    """The strategy that plans for a policy. ConfigError: there is none of that name, or its package is broken."""
    strategy = named(policy.strategy)
    return rewrite_all.of(strategy) if policy.rewrite_all else strategy


def named(name: Strategy | str) -> RewriteStrategy:
    """The strategy of a name. ConfigError: as in `choose`."""
    if isinstance(name, Strategy):
        return STRATEGIES[name]
    return installed_strategies.load(name, ours=[each.value for each in Strategy])
