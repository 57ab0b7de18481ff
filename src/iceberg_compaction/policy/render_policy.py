"""A policy as text, in the one spelling that is printed. What is printed is read again as the same policy."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from iceberg_compaction.policy import all_settings, policy_keys
from iceberg_compaction.policy.sources import yaml_nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.policy_origin import EffectivePolicy, EffectiveSetting

_PLAIN = re.compile(r"[A-Za-z][A-Za-z-]*")
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "null"})  # that YAML takes for something else
_SIZES = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10))
_COMMENT_AT = 44


def text(effective: EffectivePolicy) -> str:
    """The stated values of a table's policy as YAML, each with its origin as a comment."""
    lines = [f"# The policy of {effective.table}, digest {effective.policy.digest}."]
    if effective.profile is not None:
        lines.append(f"# The values of the profile {effective.profile} are written out.")
    quiet = [window.words for window in effective.policy.quiet_hours]  # which may be written in several ways
    before: tuple[str, ...] = ()
    for setting in _nested_together(effective.settings):
        *parents, name = setting.name.split(".")
        common = 0
        while common < min(len(before), len(parents)) and before[common] == parents[common]:
            common += 1
        lines += [f"{'  ' * depth}{parents[depth]}:" for depth in range(common, len(parents))]
        stated = setting.value
        if setting.name == "quiet-hours":
            stated = quiet[0] if len(quiet) == 1 else quiet
        line = f"{'  ' * len(parents)}{name}: {value(setting.name, stated)}"
        lines.append(f"{line:<{_COMMENT_AT}}  # {setting.origin.words}")
        before = tuple(parents)
    if not effective.settings:
        lines.append("{}  # nothing is stated: every value is a default")
    return "\n".join(lines) + "\n"


def _nested_together(settings: Sequence[EffectiveSetting]) -> list[EffectiveSetting]:
    """In their order, but all of one parent follow each other."""
    parents: dict[str, int] = {}
    for number, setting in enumerate(settings):
        parents.setdefault(setting.name.partition(".")[0], number)
    return sorted(settings, key=lambda setting: parents[setting.name.partition(".")[0]])


def value(name: str, given: Any) -> str:
    """One value as it stands in a file."""
    key = policy_keys.all_keys().get(name)
    kind = policy_keys.KeyKind.PLAIN if key is None else key.kind
    if isinstance(given, bool) or given is None:
        return json.dumps(given)
    if kind is policy_keys.KeyKind.SIZE and isinstance(given, int):
        return next(
            (f"{given // size}{unit}" for unit, size in _SIZES if given >= size and not given % size), str(given)
        )
    if kind is policy_keys.KeyKind.DURATION and isinstance(given, int | float):
        return all_settings.duration(given)
    if isinstance(given, str):
        plain = _PLAIN.fullmatch(given) and given.lower() not in _WORDS
        return given if plain else _quoted(given)
    return _quoted(given)


def _quoted(given: Any) -> str:
    """JSON, as YAML reads it."""
    return yaml_nodes.escape(json.dumps(given, ensure_ascii=False, default=str))
