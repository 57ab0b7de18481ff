"""What the sources of policies say, as values: settings with their origin, gathered in sections that are about a
catalog, a namespace, tables of a pattern, or one table. A section knows the tables that it is about and how specific it
is."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model import table_names

if TYPE_CHECKING:
    from iceberg_compaction.model.policy_origin import IgnoredSetting, PolicyOrigin
    from iceberg_compaction.policy.policy_keys import PolicyKey

_WILDCARDS = re.compile(r"[*?]|\[[^\]]*\]")


class Level(IntEnum):
    """How specific a source is. A higher one wins."""

    DEFAULT = 0
    PROFILE = 1
    CATALOG = 2
    NAMESPACE = 3
    PATTERN = 4
    PROPERTY = 5
    TABLE = 6
    FLAG = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One value as a source gives it, in the unit of its field."""

    key: PolicyKey
    value: Any
    origin: PolicyOrigin
    spelling: str  # the name in the source


@dataclass(frozen=True, kw_only=True)
class PolicySection:
    """Settings for some tables. `depth`: of the file, 0 for the one that was named, more for those that it extends."""

    level: Level
    pattern: str = "*"
    environment: str | None = None
    settings: tuple[Setting, ...] = ()
    profile: Setting | None = None
    ignored: tuple[IgnoredSetting, ...] = ()
    line: int | None = None
    depth: int = 0

    @cached_property
    def rank(self) -> tuple[int, int, int, bool, int, str]:
        """Sections in this order, the strongest last. It does not depend on the order in a file."""
        literals = len(_WILDCARDS.sub("", self.pattern))
        exact = not _WILDCARDS.search(self.pattern)
        return self.level, int(exact), literals, self.environment is not None, -self.depth, self.pattern

    @cached_property
    def title(self) -> str:
        words = {Level.NAMESPACE: f"namespace {self.pattern}", Level.CATALOG: ""}.get(
            self.level, f"table {self.pattern}"
        )
        return ", ".join(filter(None, (words, self.environment and f"environment {self.environment}")))

    def is_about(self, table: str) -> bool:
        """Whether the section counts for a table, given by its full name."""
        match self.level:
            case Level.NAMESPACE:
                parts = table_names.parse(table)[:-1]
                return any(
                    table_names.matches(table_names.text(parts[:end]), self.pattern) for end in range(1, len(parts) + 1)
                )
            case Level.PATTERN | Level.TABLE:
                if table_names.matches(table, self.pattern):
                    return True
                last = table_names.text(table_names.parse(table)[-1:])
                return not self._has_namespace and table_names.matches(last, self.pattern)
            case _:
                return True

    @cached_property
    def table(self) -> str | None:
        """The full name of the only table that the section is about; None: it may be about several."""
        if self.level is not Level.TABLE or not self._has_namespace:
            return None
        return table_names.text(table_names.parse(self.pattern))

    @cached_property
    def _has_namespace(self) -> bool:
        return table_names.is_pattern(self.pattern) or len(table_names.parse(self.pattern)) > 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyDocument:
    """A policy file, with the files that it extends."""

    file: str
    sections: tuple[PolicySection, ...] = ()
    environments: tuple[str, ...] = ()
    environment: str | None = None  # that the file itself chooses
    problems: tuple[str, ...] = ()  # names that are not known, as sentences

    @property
    def ignored(self) -> tuple[IgnoredSetting, ...]:
        return tuple(each for section in self.sections for each in section.ignored)
