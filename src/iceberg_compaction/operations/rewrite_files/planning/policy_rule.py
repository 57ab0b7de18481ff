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
    def budget(self) -> float | None:
        """What a command may cost with all of its tables, in dollars."""
        ...

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        """The options for a table with these properties. DeclinedError: nothing is done to it, or not now."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWithoutBudgets:
    """A policy, or the rule that makes it, whatever a run may cost."""

    given: Policy | PolicyRule

    @property
    def budget(self) -> None:
        return None

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        return policies.without_budgets(made_of(self.given, table, properties, now_ms))


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyWithin:
    """The same for a run that may cost at most so much, or less if the policy of its table says less."""

    given: Policy | PolicyRule
    max_cost: float

    @property
    def budget(self) -> float:
        return self.max_cost

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        made = made_of(self.given, table, properties, now_ms)
        limit = self.max_cost if made.max_cost is None else min(made.max_cost, self.max_cost)
        return made.model_copy(update={"max_cost": limit})


def made_of(given: Policy | PolicyRule, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
    """The policy of a table."""
    return given if isinstance(given, policies.Policy) else given.policy_of(table, properties, now_ms)


def budget_of(policy: Policy | PolicyRule) -> float | None:
    """What a command may cost with all of its tables, in dollars."""
    return policy.max_cost if isinstance(policy, policies.Policy) else policy.budget
