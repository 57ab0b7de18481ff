"""The seam between policies and the rewrite of files. Where the policy of a table depends on the table's own
properties, it is known only when the table is loaded; the operation asks for it then, so that no table is loaded
twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction.model import policies

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.policies import Policy


class PolicyRule(Protocol):
    """Says how the files of a table are rewritten."""

    @property
    def max_cost(self) -> float | None:
        """What all tables of a command may cost together."""
        ...

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        """The options for a table with these properties. DeclinedError: nothing is done to it, or not now."""
        ...


def without_budgets(wanted: Policy | PolicyRule) -> Policy | PolicyRule:
    """The same wishes, whatever a single run may cost."""
    return policies.without_budgets(wanted) if isinstance(wanted, policies.Policy) else _Unlimited(wanted)


def within(wanted: Policy | PolicyRule, max_cost: float) -> Policy | PolicyRule:
    """The same wishes for a run that may cost so much."""
    if isinstance(wanted, policies.Policy):
        return wanted.model_copy(update={"max_cost": max_cost})
    return _Limited(wanted, max_cost)


@dataclass(frozen=True, slots=True)
class _Unlimited:
    rule: PolicyRule

    @property
    def max_cost(self) -> float | None:
        return None

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        return policies.without_budgets(self.rule.policy_of(table, properties, now_ms))


@dataclass(frozen=True, slots=True)
class _Limited:
    """What the policy of a table itself allows for a run stays the limit if it is less."""

    rule: PolicyRule
    max_cost: float | None

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        policy = self.rule.policy_of(table, properties, now_ms)
        limits = [limit for limit in (policy.max_cost, self.max_cost) if limit is not None]
        return policy.model_copy(update={"max_cost": min(limits, default=None)})
