"""The seam between policies and the rewrite of files. Where the policy of a table depends on the table's own
properties, it is known only when the table is loaded; the operation asks for it then, so that no table is loaded
twice."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

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
class AdjustedPolicy:
    """A policy, or the rule that makes it, with other values of some options, whatever it says of them."""

    given: Policy | PolicyRule
    changes: Mapping[str, Any]

    @property
    def budget(self) -> float | None:
        return budget_of(self.given)

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        given = self.given
        made = given if isinstance(given, policies.Policy) else given.policy_of(table, properties, now_ms)
        return made.model_copy(update=dict(self.changes))


def budget_of(policy: Policy | PolicyRule) -> float | None:
    """What a command may cost with all of its tables, in dollars."""
    return policy.max_cost if isinstance(policy, policies.Policy) else policy.budget
