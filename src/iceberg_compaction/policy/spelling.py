"""All spellings of one thing are read, and one is printed. In: a name as a source spells it, in snake, kebab, camel or
dotted form, with a unit or without. Out: the key that it means and the unit, the reason why it has no effect here, or
nothing."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.model import byte_size, durations
from iceberg_compaction.policy import policy_keys, synonyms

if TYPE_CHECKING:
    from iceberg_compaction.policy.policy_keys import PolicyKey

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_SEPARATORS = re.compile(r"[\s._-]+")
_KIB = 2**10
# In names of settings MB has always been 2^20 bytes.
_SIZE_UNITS = {
    "bytes": 1,
    "b": 1,
    **{unit: _KIB ** (power + 1) for power, letter in enumerate("kmgt") for unit in (f"{letter}b", f"{letter}ib")},
}
_TIME_UNITS = {
    **dict.fromkeys(("ms", "millis", "milliseconds"), 0.001),
    **dict.fromkeys(("s", "sec", "secs", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "mins", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days", "in-days"), 86_400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604_800.0),
}
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([a-z]+)")
_PREFIXES = ("iceberg-compaction-", "iceberg-write-", "iceberg-", "compaction-", "rewrite-", "options-", "config-")
_TRIGGER_PREFIXES = ("triggers-", "trigger-", "triggers-thresholds-")
_LONGEST_NAME = 200


def fold(name: str) -> str:
    """One form for all: small letters, and dashes for everything that separates words."""
    return _SEPARATORS.sub("-", _CAMEL.sub("-", name.strip())).lower().strip("-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Meaning:
    """The key that a name means, and the factor of the unit that the name has; None: the value says."""

    key: PolicyKey
    factor: float | None = None
    negated: bool = False  # the name says the opposite


class PolicySpellings:
    """Every name that is read, made from the classes and the table of synonyms."""

    def __init__(self) -> None:
        self.keys = policy_keys.all_keys()
        self._meanings: dict[str, Meaning] = {}
        self._stems: dict[str, PolicyKey] = {}  # names without units
        for key in self.keys.values():
            self._add(fold(key.name), key)
        for name, wanted in synonyms.SYNONYMS.items():
            first = next((self.keys[each] for each in wanted if each in self.keys), None)
            if first is not None:
                self._add(fold(name), first)

    def _add(self, name: str, key: PolicyKey) -> None:
        self._stems.setdefault(name, key)
        self._meanings.setdefault(name, Meaning(key=key, negated=name in synonyms.NEGATED))
        if key.kind is policy_keys.KeyKind.PLAIN:
            return
        units = _SIZE_UNITS if key.kind is policy_keys.KeyKind.SIZE else _TIME_UNITS
        base = next((name[: -len(unit) - 1] for unit in ("bytes", "seconds") if name.endswith(f"-{unit}")), name)
        self._meanings.setdefault(base, Meaning(key=key))
        for unit, factor in units.items():
            self._meanings.setdefault(f"{base}-{unit}", Meaning(key=key, factor=factor))

    def meaning(self, name: str) -> Meaning | None:
        """The key of a name; None: there is none of this name."""
        folded = fold(name[:_LONGEST_NAME])
        for form in (folded, *(folded.removeprefix(prefix) for prefix in _PREFIXES if folded.startswith(prefix))):
            if form in self._meanings:
                return self._meanings[form]
            if threshold := self._threshold(form):
                return threshold
        return None

    def _threshold(self, form: str) -> Meaning | None:
        """The threshold of a name, with or without the word triggers before it."""
        prefix = next((each for each in reversed(_TRIGGER_PREFIXES) if form.startswith(each)), "")
        rest = form.removeprefix(prefix)
        key = self.keys.get(policy_keys.TRIGGERS + synonyms.THRESHOLDS.get(rest, rest))
        if key is None or not (prefix or rest in synonyms.THRESHOLDS):
            return None
        is_amoros = rest in synonyms.AMORO_TRIGGERS and key.kind is policy_keys.KeyKind.DURATION
        return Meaning(key=key, factor=synonyms.MILLISECOND if is_amoros else None)

    def reason_to_ignore(self, name: str) -> str | None:
        """Why a name that is well known has no effect here; None: it is not one of those."""
        folded = fold(name[:_LONGEST_NAME])
        forms = [folded, *(folded.removeprefix(prefix) for prefix in _PREFIXES if folded.startswith(prefix))]
        return next((synonyms.IGNORED[form] for form in forms if form in synonyms.IGNORED), None)

    def nearest(self, name: str) -> str | None:
        """The printed name of what was probably meant."""
        shown = name[:_LONGEST_NAME]
        for form in (fold(shown), fold(shown.rpartition(".")[2])):
            near = difflib.get_close_matches(form, self._stems, n=1, cutoff=0.7)
            if near:
                return self._stems[near[0]].name
        return None


def convert(meaning: Meaning, value: Any) -> Any:
    """The value in the unit of the field. What cannot be meant stays, so that the field's own check says so."""
    key, factor = meaning.key, meaning.factor
    if isinstance(value, bool) or value is None:
        return not value if meaning.negated and value is not None else value
    if key.name.startswith(policy_keys.TRIGGERS) and str(value).strip() == "-1":
        return "off"  # Amoro's word for it
    if key.kind is policy_keys.KeyKind.SIZE:
        return _size(value, factor)
    if key.kind is policy_keys.KeyKind.DURATION:
        return _seconds(value, factor)
    if key.choices:
        return _choice(key, value)
    if key.is_text:
        return str(value) if isinstance(value, int | float) else value
    number = _number(value)
    return value if number is None else number  # properties and flags are text


def _choice(key: PolicyKey, value: Any) -> Any:
    if isinstance(value, str):
        folded = fold(value)
        wanted = synonyms.VALUES.get(key.name, {}).get(folded, folded)
        return next((choice for choice in key.choices if fold(choice) == wanted), value)
    return value


def _size(value: Any, factor: float | None) -> Any:
    number = _number(value)
    if number is not None and factor is not None and number * factor < byte_size.LARGEST:
        return round(number * factor)
    if number is not None and number == int(number) and not isinstance(value, str):
        return int(number)
    try:
        return byte_size.parse_size(value)
    except errors.ConfigError:
        return value


def _seconds(value: Any, factor: float | None) -> Any:
    number = _number(value)
    if number is not None:
        return number * (factor or 1.0)
    match = _TIME.fullmatch(value.strip().lower()) if isinstance(value, str) else None
    if match is not None and match[2] in _TIME_UNITS:
        return float(match[1]) * _TIME_UNITS[match[2]]
    try:
        return durations.parse_seconds(value) if isinstance(value, str) else value
    except errors.ConfigError:
        return value


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return value
    if isinstance(value, str) and len(value) < _LONGEST_NAME and _NUMBER.fullmatch(value.strip()):
        return float(value) if "." in value else int(value)
    return None
