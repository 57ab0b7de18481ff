"""What `policy check` and `policy diff` find: problems of a policy file, and differences between two."""

from __future__ import annotations

from typing import Any

from iceberg_compaction.model.policy_origin import IgnoredSetting, PolicyOrigin
from iceberg_compaction.model.value import Count, Value


class PolicyReview(Value):
    """A policy file, checked without any catalog."""

    file: str
    ok: bool
    problems: tuple[str, ...] = ()  # sentences with their lines
    ignored: tuple[IgnoredSetting, ...] = ()
    values: Count = 0
    namespaces: Count = 0
    tables: Count = 0  # entries, by name or by pattern
    environments: tuple[str, ...] = ()


class PolicyDifference(Value):
    """One value that two policy files do not have in common. An origin of None: that file does not say it."""

    section: str  # empty: the whole catalog
    name: str
    old: Any = None
    new: Any = None
    old_origin: PolicyOrigin | None = None
    new_origin: PolicyOrigin | None = None


class PolicyComparison(Value):
    """The differences of two policy files, in the order of the first."""

    old: str
    new: str
    differences: tuple[PolicyDifference, ...] = ()
