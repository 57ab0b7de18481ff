"""Policies in the properties of a table: `compaction.*` of our own, Amoro's `self-optimizing.*` and its other names,
and Iceberg's `write.*` and `history.expire.*`. In: the properties. Out: one section. Ours win over Amoro's, and those
over Iceberg's, which are for everybody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.model import policies
from iceberg_compaction.model.policy_origin import IgnoredSetting, OriginKind, PolicyOrigin
from iceberg_compaction.policy import policy_keys, profiles, spelling, synonyms
from iceberg_compaction.policy.policy_sections import Level, PolicySection, Setting

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.policy.spelling import PolicySpellings

OURS = policies.POLICY_PROPERTIES[0]
_AMORO = (
    *policies.POLICY_PROPERTIES[1:],
    "snapshot.keep.",
    "snapshot.base.keep.",
    "table-expire.",
    "table.expire.",
    "clean-orphan-file.",
    "clean-dangling-delete-files.",
    "data-expire.",
    "tag.auto-create.",
    "change.data.ttl",
)
_ICEBERG = (policies.TARGET_PROPERTY, "history.expire.")
_FAMILIES = (_ICEBERG, _AMORO, (OURS,))  # the strongest last
_PRESET = "triggers.preset"


def relevant(properties: Mapping[str, str]) -> dict[str, str]:
    """The properties that policies know."""
    prefixes = tuple(prefix for family in _FAMILIES for prefix in family)
    return {name: value for name, value in properties.items() if name.startswith(prefixes)}


def read(properties: Mapping[str, str], spellings: PolicySpellings) -> PolicySection:
    """The section of a table's own properties. Names that are not known are listed as ignored: a property may be meant
    for another program, or for a later version."""
    settings: dict[str, Setting] = {}
    ignored: list[IgnoredSetting] = []
    profile = None
    for family in _FAMILIES:
        for name in sorted(each for each in properties if each.startswith(family)):
            origin = PolicyOrigin(kind=OriginKind.PROPERTY, source=name)
            short = name.removeprefix(OURS)
            if short == "profile" and profiles.name_of(properties[name]) is not None:
                key = policy_keys.PolicyKey(name="profile", path=("profile",))
                profile = Setting(key=key, value=profiles.name_of(properties[name]), origin=origin, spelling=name)
                continue
            meaning = spellings.meaning(short)
            if meaning is None:
                ignored.append(_ignored(name, properties[name], origin, spellings))
                continue
            value = spelling.convert(meaning, _typed(properties[name]))
            setting = Setting(key=meaning.key, value=value, origin=origin, spelling=name)
            settings[meaning.key.name] = setting
            if spelling.fold(name) in synonyms.AMORO_TRIGGERS and _PRESET in spellings.keys:
                preset = Setting(key=spellings.keys[_PRESET], value="amoro", origin=origin, spelling=name)
                settings.setdefault(_PRESET, preset)
    return PolicySection(
        level=Level.PROPERTY, settings=tuple(settings.values()), profile=profile, ignored=tuple(ignored)
    )


def _ignored(name: str, value: str, origin: PolicyOrigin, spellings: PolicySpellings) -> IgnoredSetting:
    reason = spellings.reason_to_ignore(name)
    if reason is None:
        near = spellings.nearest(name.removeprefix(OURS))
        reason = "it is not known" + (f"; perhaps {near} is meant" if near else "")
    return IgnoredSetting(name=name, value=value, origin=origin, reason=reason)


def _typed(text: str) -> object:
    """Properties are text. Truth values are the only ones that a field would not read from it by itself."""
    return {"true": True, "false": False}.get(text.strip().lower(), text.strip())
