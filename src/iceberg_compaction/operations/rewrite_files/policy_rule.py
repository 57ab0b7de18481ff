"""The seam between policies and the rewrite of files. Where the policy of a table depends on the table's own
properties, it is known only when the table is loaded; the operation asks for it then, so that no table is loaded
twice."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.model.policies import Policy


class PolicyRule(Protocol):
    """Says how the files of a table are rewritten."""

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> Policy:
        """The options for a table with these properties. DeclinedError: nothing is done to it, or not now."""
        ...
