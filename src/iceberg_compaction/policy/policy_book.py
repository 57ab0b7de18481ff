"""The one place where the policy of a table is made of all that is said about it. The strongest source wins, value by
value: a flag, the table's entry in a file, the table's own properties, entries by pattern, its namespace, the catalog,
the profile, our default. Pure: files were read before, and a table is its name and properties."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import policies, validation_words
from iceberg_compaction.model.policy_origin import (
    DEFAULT_ORIGIN,
    EffectivePolicy,
    EffectiveSetting,
    IgnoredSetting,
    OriginKind,
)
from iceberg_compaction.model.table_policy import TablePolicy
from iceberg_compaction.policy import policy_keys, profiles, spelling
from iceberg_compaction.policy.policy_sections import Level, PolicyDocument, PolicySection, Setting
from iceberg_compaction.policy.sources import table_properties

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from iceberg_compaction.model.policy_origin import PolicyOrigin

_SIZES = ("target-file-size-bytes", "min-file-size-bytes", "max-file-size-bytes")
_TARGET = _SIZES[0]


@dataclass(frozen=True, kw_only=True)
class PolicyBook:
    """All that is said, about all tables. `environment`: the one that counts; None: as the file says, else none."""

    document: PolicyDocument | None = None
    flags: tuple[Setting, ...] = ()
    profile: str | None = None  # of a flag or an argument
    environment: str | None = None
    spellings: spelling.PolicySpellings = field(default_factory=spelling.PolicySpellings)
    # What was made before: thousands of tables share a few policies.
    _made: dict[Any, EffectivePolicy] = field(default_factory=dict, repr=False, compare=False)
    _wide: dict[str, list[PolicySection]] = field(default_factory=dict, repr=False, compare=False)
    _profiles: dict[str, PolicySection] = field(default_factory=dict, repr=False, compare=False)
    _policies: dict[str, TablePolicy] = field(default_factory=dict, repr=False, compare=False)

    def for_table(self, table: str, properties: Mapping[str, str]) -> EffectivePolicy:
        """The policy of one table. ConfigError: values contradict each other or cannot be meant; MetadataError: a
        property of the table is to blame."""
        exact, others = self._index
        patterns = (each for each in others if each.level > Level.NAMESPACE and each.is_about(table))
        sections = [*exact.get(table, ()), *self._wide_sections(table), *patterns]
        own = table_properties.relevant(properties)
        identity = (tuple(id(each) for each in sections), tuple(sorted(own.items())))
        if identity not in self._made:
            own_section = [table_properties.read(own, self.spellings)] if own else []
            self._made[identity] = self._make(table, [*sections, *own_section])
        return self._made[identity].model_copy(update={"table": table})

    @property
    def chosen_environment(self) -> str | None:
        stated = None if self.document is None else self.document.environment
        return self.environment or stated

    @cached_property
    def _index(self) -> tuple[dict[str, list[PolicySection]], list[PolicySection]]:
        """The sections of tables by full name, because there may be thousands, and the other ones."""
        chosen = self.chosen_environment
        exact: dict[str, list[PolicySection]] = {}
        others: list[PolicySection] = []
        for section in () if self.document is None else self.document.sections:
            if section.environment is not None and section.environment != chosen:
                continue
            name = section.table
            (others if name is None else exact.setdefault(name, [])).append(section)
        return exact, others

    def _wide_sections(self, table: str) -> list[PolicySection]:
        """The sections of the catalog and of the table's namespace, which its neighbours share."""
        namespace = table if '"' in table else table.rpartition(".")[0]
        if namespace not in self._wide:
            _, others = self._index
            self._wide[namespace] = [each for each in others if each.level <= Level.NAMESPACE and each.is_about(table)]
        return self._wide[namespace]

    def check_environment(self) -> None:
        """ConfigError: the chosen environment is none of the file's."""
        chosen, names = self.chosen_environment, () if self.document is None else self.document.environments
        if chosen and names and chosen not in names:
            assert self.document is not None
            raise errors.ConfigError(f"{self.document.file} has no environment {chosen!r}; it has {', '.join(names)}.")

    def _make(self, table: str, sections: Sequence[PolicySection]) -> EffectivePolicy:
        layers = sorted(sections, key=lambda section: section.rank)
        profile, profile_origin = self._profile(layers)
        ignored = [each for layer in layers for each in layer.ignored]
        if profile is not None:
            layers.insert(0, self._profile_section(profile))
            ignored += _unused(profile, profile_origin)
        layers.append(PolicySection(level=Level.FLAG, settings=self.flags))
        chosen = _merge(layers)
        ignored += _drop_contradictions(chosen)
        environment = self.chosen_environment
        if environment is not None and "environment" not in chosen:
            chosen["environment"] = EffectiveSetting(name="environment", value=environment, origin=self._chosen_by)
        values = repr([(name, setting.value, setting.spelling) for name, setting in chosen.items()])
        policy = self._policies.get(values)
        if policy is None:
            policy = self._policies[values] = _validate(table, chosen, self.spellings)
        return EffectivePolicy(
            table=table,
            policy=policy,
            profile=profile,
            settings=tuple(chosen[name] for name in _in_order(chosen, self.spellings)),
            ignored=tuple(ignored),
        )

    @property
    def _chosen_by(self) -> PolicyOrigin:
        from_file = self.environment is None and self.document is not None
        source = self.document.file if from_file and self.document is not None else "--environment"
        kind = OriginKind.FILE if from_file else OriginKind.FLAG
        return DEFAULT_ORIGIN.model_copy(update={"kind": kind, "source": source})

    def _profile(self, layers: Sequence[PolicySection]) -> tuple[str | None, PolicyOrigin]:
        if self.profile is not None:
            return self.profile, DEFAULT_ORIGIN.model_copy(update={"kind": OriginKind.FLAG, "source": "profile"})
        for layer in reversed(layers):
            if layer.profile is not None:
                return layer.profile.value, layer.profile.origin
        return None, DEFAULT_ORIGIN

    def _profile_section(self, profile: str) -> PolicySection:
        if profile not in self._profiles:
            self._profiles[profile] = self._read_profile(profile)
        return self._profiles[profile]

    def _read_profile(self, profile: str) -> PolicySection:
        origin = profiles.origin(profile)
        values = profiles.values(profile, self.chosen_environment)
        settings = [
            Setting(key=meaning.key, value=value, origin=origin, spelling=name)
            for name, value in values.items()
            if (meaning := self.spellings.meaning(name)) is not None
        ]
        return PolicySection(level=Level.PROFILE, settings=tuple(settings))


def _merge(layers: Sequence[PolicySection]) -> dict[str, EffectiveSetting]:
    """The strongest value of each name; the layers come from the weakest to the strongest."""
    stated: dict[str, list[Setting]] = {}
    for layer in layers:
        for setting in layer.settings:
            stated.setdefault(setting.key.name, []).append(setting)
    return {name: _strongest(name, settings) for name, settings in stated.items()}


def _strongest(name: str, settings: Sequence[Setting]) -> EffectiveSetting:
    *weaker, last = settings
    others = tuple(each.origin for each in reversed(weaker) if each.value != last.value)
    return EffectiveSetting.model_construct(
        name=name, value=last.value, origin=last.origin, spelling=last.spelling, overrides=others
    )


def _unused(profile: str, origin: PolicyOrigin) -> list[IgnoredSetting]:
    reasons = profiles.UNUSED.get(profile, {})
    return [IgnoredSetting(name=name, origin=origin, reason=reason) for name, reason in reasons.items()]


def _drop_contradictions(chosen: dict[str, EffectiveSetting]) -> list[IgnoredSetting]:
    """Sizes of a profile belong to its own target. Where another target is stated, those that contradict it are left
    out, and planning derives them from the target."""
    target = chosen.get(_TARGET)
    if target is None or target.origin.kind is OriginKind.PROFILE:
        return []
    size = target.value if isinstance(target.value, int) else None
    dropped = []
    for name, contradicts in ((_SIZES[1], int.__ge__), (_SIZES[2], int.__le__)):
        limit = chosen.get(name)
        if limit is None or limit.origin.kind is not OriginKind.PROFILE or size is None:
            continue
        if contradicts(limit.value, size):
            del chosen[name]
            reason = f"the target size is another, from {target.origin.words}"
            dropped.append(IgnoredSetting(name=name, value=limit.value, origin=limit.origin, reason=reason))
    return dropped


def _validate(table: str, chosen: Mapping[str, EffectiveSetting], spellings: spelling.PolicySpellings) -> TablePolicy:
    values = {_path(name, spellings): setting.value for name, setting in chosen.items() if not _is_read_later(setting)}
    try:
        return TablePolicy.model_validate(policy_keys.nested(values))
    except ValidationError as error:
        first = error.errors()[0]
        raise _refusal(table, first["loc"], validation_words.text(first["msg"]), chosen, spellings) from None


def _is_read_later(setting: EffectiveSetting) -> bool:
    """Planning reads Iceberg's own property for the target size by itself, and has its own words for a bad one."""
    return setting.origin.kind is OriginKind.PROPERTY and setting.spelling == policies.TARGET_PROPERTY


def _refusal(
    table: str,
    loc: tuple[int | str, ...],
    words: str,
    chosen: Mapping[str, EffectiveSetting],
    spellings: spelling.PolicySpellings,
) -> errors.CompactionError:
    way = tuple(str(part).replace("-", "_") for part in loc)
    blamed = [
        setting for name, setting in chosen.items() if way[: len(_path(name, spellings))] == _path(name, spellings)
    ] or [chosen[name] for name in _SIZES if name in chosen]
    kind = (
        errors.MetadataError if any(each.origin.kind is OriginKind.PROPERTY for each in blamed) else errors.ConfigError
    )
    if len(blamed) == 1:
        setting = blamed[0]
        return kind(
            f"{at(setting.origin)}: {setting.spelling or setting.name} cannot be {_shown(setting.value)}: {words}."
        )
    origins = "; ".join(f"{each.name} from {each.origin.words}" for each in blamed) or ".".join(way)
    return kind(f"The policy of {table} cannot be used: {words} ({origins}).")


def at(origin: PolicyOrigin) -> str:
    """The beginning of a sentence about a value."""
    if origin.kind is OriginKind.FILE and origin.line is not None:
        return f"{origin.source}, line {origin.line}"
    words = origin.words
    return words[:1].upper() + words[1:]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _path(name: str, spellings: spelling.PolicySpellings) -> tuple[str, ...]:
    return spellings.keys[name].path


def _in_order(chosen: Mapping[str, EffectiveSetting], spellings: spelling.PolicySpellings) -> list[str]:
    order = {name: number for number, name in enumerate(spellings.keys)}
    return sorted(chosen, key=lambda name: (order.get(name, len(order)), name))
