"""Which tenant a table belongs to: tenants are patterns of table names. The most specific pattern wins."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.model import table_names

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_KEPT = 100_000  # names of tables with their tenant


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantMap:
    """Patterns by tenant, such as `{"shop": ["shop.*", "shop_archive.*"]}`. A namespace is a pattern as well: `shop`
    means all tables of it and of the namespaces within."""

    patterns: Mapping[str, tuple[str, ...]]
    _tenants: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)

    def tenant_of(self, table: str) -> str | None:
        """The tenant of a table, given by its full name; None: no pattern fits."""
        if table not in self._tenants:
            if len(self._tenants) >= _MOST_KEPT:
                self._tenants.clear()
            self._tenants[table] = self._find(table)
        return self._tenants[table]

    def _find(self, table: str) -> str | None:
        fitting = [
            (_weight(pattern), tenant)
            for tenant, patterns in self.patterns.items()
            for pattern in patterns
            if _fits(table, pattern)
        ]
        return max(fitting)[1] if fitting else None


def _fits(table: str, pattern: str) -> bool:
    return table_names.matches(table, pattern) or table_names.matches(table, f"{pattern}.*")


def _weight(pattern: str) -> tuple[bool, int]:
    """Exact names come before patterns, and long patterns before short ones."""
    return not table_names.is_pattern(pattern), len(pattern.replace("*", ""))
