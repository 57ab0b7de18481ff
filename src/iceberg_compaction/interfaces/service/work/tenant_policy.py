"""The policy of a table within the limits of its tenant: the tenant's hourly limit holds, whatever policies say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.interfaces.followed_policy import FollowedPolicy
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_policy import TablePolicy


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantPolicy:
    """A rule for the rewrite of files, see `policy_rule.PolicyRule`."""

    given: FollowedPolicy
    tenant: str | None = None
    hourly_cost_limit: float | None = None

    @property
    def budget(self) -> float | None:
        return self.given.budget

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        """The options for a table; DeclinedError: its policy passes it over, or not now."""
        return self._within(self.given.policy_of(table, properties, now_ms))

    def whole(self, policy: TablePolicy) -> TablePolicy:
        """The same for a whole policy."""
        return policy.model_copy(update={"rewrite": self._within(policy.rewrite)})

    def _within(self, policy: Policy) -> Policy:
        changes: dict[str, object] = {}
        if self.tenant is not None:  # a request or a table that names another one would spend that one's budget
            changes["tenant"] = self.tenant
        if self.hourly_cost_limit is not None:
            limits = [each for each in (policy.hourly_cost_limit, self.hourly_cost_limit) if each is not None]
            changes["hourly_cost_limit"] = min(limits)
        return policy.model_copy(update=changes) if changes else policy
