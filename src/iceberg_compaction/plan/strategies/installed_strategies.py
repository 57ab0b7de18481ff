"""Strategies of other packages: an entry point of the group `iceberg_compaction.strategies` names a RewriteStrategy. A
name comes in, the strategy goes out. docs/reference/extensions.md is for their authors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import extensions
from iceberg_compaction.plan.strategies import rewrite_strategy

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.plan.strategies.rewrite_strategy import RewriteStrategy


def load(name: str, *, ours: Sequence[str]) -> RewriteStrategy:
    """The strategy of a name. ConfigError: no package has it, or what the package has is no strategy."""
    strategy = extensions.load(extensions.STRATEGIES, name, kind="a strategy", ours=ours)
    if not isinstance(strategy, rewrite_strategy.RewriteStrategy):
        raise errors.ConfigError(
            f"The strategy {name!r} is a {type(strategy).__name__}, not a RewriteStrategy; its package is broken."
        )
    return strategy
