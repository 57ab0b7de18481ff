"""Where the values of a policy come from, and the policy that all of them make for one table."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from iceberg_compaction.model.table_policy import TablePolicy
from iceberg_compaction.model.value import Value


class OriginKind(str, Enum):
    """The source of a value, from the weakest to the strongest."""

    DEFAULT = "default"
    PROFILE = "profile"
    FILE = "file"
    PROPERTY = "property"
    ARGUMENT = "argument"
    FLAG = "flag"


class PolicyOrigin(Value):
    """One source of a value: a file with its line, a table property, a flag, a profile, or the built-in default."""

    kind: OriginKind
    source: str = ""  # the file as it was named, the property, the flag, the profile
    line: int | None = None  # from 1
    section: str = ""  # the entry of the file: namespace shop, table shop.*, environment production

    @property
    def words(self) -> str:
        match self.kind:
            case OriginKind.DEFAULT:
                return "default"
            case OriginKind.PROFILE:
                return f"profile {self.source}"
            case OriginKind.PROPERTY:
                return f"table property {self.source}"
            case OriginKind.FILE:
                at = self.source if self.line is None else f"{self.source}:{self.line}"
                return f"{at}, {self.section}" if self.section else at
            case _:
                return self.source


DEFAULT_ORIGIN = PolicyOrigin(kind=OriginKind.DEFAULT)


class EffectiveSetting(Value):
    """One value of a table's policy, under the one name that is printed, and where it comes from."""

    name: str
    value: Any
    origin: PolicyOrigin
    spelling: Annotated[str, Field(description="the name as its source spells it")] = ""
    overrides: Annotated[tuple[PolicyOrigin, ...], Field(description="weaker sources that say something else")] = ()


class IgnoredSetting(Value):
    """Something that a source says and that has no effect here, with the reason."""

    name: str
    value: Any = None
    origin: PolicyOrigin
    reason: str


class EffectivePolicy(Value):
    """The policy of one table, and the origin of each of its values."""

    table: str
    policy: TablePolicy
    profile: str | None = None
    settings: tuple[EffectiveSetting, ...]
    ignored: tuple[IgnoredSetting, ...] = ()

    def setting(self, name: str) -> EffectiveSetting | None:
        return next((each for each in self.settings if each.name == name), None)

    def origin(self, name: str) -> PolicyOrigin:
        setting = self.setting(name)
        return DEFAULT_ORIGIN if setting is None else setting.origin
