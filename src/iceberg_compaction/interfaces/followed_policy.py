"""The policy that a command or a `Compactor` follows: arguments first, then what files and the tables themselves say.
What a table needs is asked for when it is loaded. Where nothing but arguments says anything, no room of policies is
loaded at all, so that a command starts as fast as before."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from iceberg_compaction import errors
from iceberg_compaction.interfaces import policy_options
from iceberg_compaction.model import policies

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.table_policy import TablePolicy
    from iceberg_compaction.policy.policy_book import PolicyBook
    from iceberg_compaction.policy.policy_sections import PolicyDocument, Setting
    from iceberg_compaction.policy.spelling import PolicySpellings

_PROFILE = "profile"
_GIVEN = "the policy that was given"  # by a program; it has no file


@dataclass(frozen=True, kw_only=True)
class FollowedPolicy:
    """Arguments, and the file or the object beneath them. `rewrite`: the arguments about the rewrite of files; `more`:
    further arguments by name, such as enabled and quiet-hours."""

    rewrite: policies.Policy = field(default_factory=policies.Policy)
    more: Mapping[str, Any] = field(default_factory=dict)
    source: str | Path | policies.Policy | TablePolicy | PolicyDocument | Mapping[str, Any] | None = None
    environment: str | None = None
    from_flags: bool = True

    @property
    def budget(self) -> float | None:
        """What the arguments allow for all tables together, in dollars."""
        return self.rewrite.max_cost

    def policy_of(self, table: str, properties: Mapping[str, str], now_ms: int) -> policies.Policy:
        """The options for a table; DeclinedError: its policy passes it over, or not now."""
        if not self._is_stated(properties):
            return self.rewrite
        from iceberg_compaction.policy import decline

        effective = self.effective(table, properties)
        if reason := decline.reason(effective, now_ms):
            raise errors.DeclinedError(reason)
        return effective.policy.rewrite

    def effective(self, table: str, properties: Mapping[str, str]) -> EffectivePolicy:
        """The whole policy of a table, with the origin of each value."""
        return self.book.for_table(table, properties)

    @cached_property
    def book(self) -> PolicyBook:
        """All that is said about all tables; ConfigError: the file cannot be used."""
        from iceberg_compaction.policy import policy_book, profiles, spelling

        spellings = spelling.PolicySpellings()
        profile = self.more.get(_PROFILE)
        if profile is not None and profiles.name_of(profile) is None:
            raise errors.ConfigError(f"{profile!r} is no profile; choose one of {', '.join(profiles.NAMES)}.")
        book = policy_book.PolicyBook(
            document=self._document(spellings),
            flags=tuple(self._settings(spellings)),
            profile=profiles.name_of(profile),
            environment=self.environment,
            spellings=spellings,
        )
        book.check_environment()
        return book

    def _is_stated(self, properties: Mapping[str, str]) -> bool:
        """Whether anything but the arguments says how files are rewritten."""
        return (
            self.source is not None
            or bool(self.more)
            or any(name.startswith(policies.POLICY_PROPERTIES) for name in properties)
        )

    def _document(self, spellings: PolicySpellings) -> PolicyDocument | None:
        from iceberg_compaction.model.value import Value
        from iceberg_compaction.policy.policy_sections import PolicyDocument
        from iceberg_compaction.policy.sources import load_file

        if self.source is None:
            return None
        if isinstance(self.source, Value):
            text = json.dumps(self.source.model_dump(mode="json", by_alias=True, exclude_unset=True))
            return load_file.parse(text, _GIVEN, spellings)
        if isinstance(self.source, PolicyDocument):
            return self.source
        if isinstance(self.source, str | Path):
            return load_file.load(self.source, spellings)
        if not hasattr(self.source, "keys"):
            kind = type(self.source).__name__
            raise errors.ConfigError(
                f"A policy is a file, a mapping, a Policy or a TablePolicy, not a value of type {kind}."
            )
        try:
            return load_file.parse(json.dumps(self.source, default=str), _GIVEN, spellings)
        except (TypeError, ValueError) as error:
            raise errors.ConfigError(f"The policy that was given cannot be read: {error}.") from error

    def _settings(self, spellings: PolicySpellings) -> list[Setting]:
        from iceberg_compaction.model.policy_origin import OriginKind, PolicyOrigin
        from iceberg_compaction.policy import spelling
        from iceberg_compaction.policy.policy_sections import Setting

        kind = OriginKind.FLAG if self.from_flags else OriginKind.ARGUMENT
        given = dict(_stated(self.rewrite))
        settings = []
        for name, value in {**given, **self.more}.items():
            meaning = spellings.meaning(name)
            if name == _PROFILE or meaning is None:
                continue
            flag = name.partition(".")[0]  # thresholds are given in one
            shown = (f"--{flag}" if name in given else f"--option {name}") if self.from_flags else name
            origin = PolicyOrigin(kind=kind, source=shown)
            made = value if name in given else spelling.convert(meaning, value)
            settings.append(Setting(key=meaning.key, value=made, origin=origin, spelling=shown))
        return settings


def _stated(value: BaseModel) -> Iterator[tuple[str, Any]]:
    """The fields that were given, by name; those of a value inside it have its name before theirs."""
    for name in value.model_fields_set:
        shown, part = name.replace("_", "-"), getattr(value, name)
        if isinstance(part, BaseModel):
            yield from ((f"{shown}.{inner}", each) for inner, each in _stated(part))
        else:
            yield shown, part


def follow(
    given: Mapping[str, Any],
    *,
    file: str | None,
    environment: str | None,
) -> FollowedPolicy:
    """The policy of a command: its flags by option name, and its policy file. ConfigError: a name or a value cannot be
    meant, or the file cannot be used."""
    flags = dict(given)
    more = _beside_rewrite(flags)
    strategy, target = flags.pop("strategy", None), flags.pop("target-file-size", None)
    rewrite = policy_options.make_policy(strategy, target, flags, whole=not file)
    followed = FollowedPolicy(rewrite=rewrite, more=more, source=file or None, environment=environment)
    if followed.source is not None or more:
        _ = followed.book  # a file that cannot be used is told before a catalog is opened
    return followed


def _beside_rewrite(flags: dict[str, Any]) -> dict[str, Any]:
    """Takes the options that are no options of the rewrite of files, but of a policy, out of the flags."""
    fields = {name.replace("_", "-") for name in policies.Policy.model_fields} | {"target-file-size"}
    others = [name for name in flags if policy_options.option_name(name) not in fields]
    if not others:
        return {}
    from iceberg_compaction.policy import spelling

    spellings = spelling.PolicySpellings()
    meant = {name: spellings.meaning(name) for name in others}
    own = [
        name
        for name, meaning in meant.items()
        if name == _PROFILE or (meaning is not None and meaning.key.path[0] != "rewrite")
    ]
    return {name: flags.pop(name) for name in own}
