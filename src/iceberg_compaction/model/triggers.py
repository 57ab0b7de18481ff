"""Triggers: the thresholds from which on a partition is worth planning at all. A preset, or thresholds one by one, come
from flags, files or code; they are part of a policy. What each threshold is compared with is in
`plan.triggers.decision_table`; docs/reference/triggers.md prints it."""

from __future__ import annotations

import difflib
import math
import re
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, ConfigDict, Field, model_validator

from iceberg_compaction import errors
from iceberg_compaction.model import byte_size, durations
from iceberg_compaction.model.value import Value

if TYPE_CHECKING:
    from collections.abc import Callable


class TriggerPreset(str, Enum):
    """A set of triggers with their defaults."""

    STRATEGY = "strategy"  # none: the rules of the strategy alone decide
    GUIDE = "guide"  # file count, mean size, delete ratio, small files
    AMORO = "amoro"  # Amoro's minor, major and full


OFF = "off"
DUPLICATE_RATIO = 0.1  # Amoro's default of self-optimizing.major.trigger.duplicate-ratio
_OFF_WORDS = ("off", "none", "-1")
_AMORO = re.compile(r"self[-._]optimizing[-._]")
_NUMBER = re.compile(r"\d{1,18}(\.\d+)?")  # of seconds
_MILLISECONDS = re.compile(r"(\d{1,18})\s*ms")
_DIGITS = 18
# The guide's ratio divides numbers of files, Amoro's property of nearly the same name divides a size.
_SPELLINGS = {
    "small_file_threshold_bytes": "small_file_threshold",
    "max_files_per_partition": "max_file_count_per_partition",
    "max_fragment_ratio": "max_delete_ratio",
    "duplicate_ratio": "major_trigger_duplicate_ratio",
}


def _optional(parse: Callable[[Any], float]) -> BeforeValidator:
    """None and `off` as they are, in any word for it; else the number that `parse` makes of a value."""

    def validate(value: Any) -> Any:
        if value is None:
            return None
        return OFF if str(value).strip().lower() in _OFF_WORDS else parse(value)

    return BeforeValidator(validate)


def _count(value: Any) -> int:
    text = str(value).strip()
    if isinstance(value, bool) or not (text.isascii() and text.isdigit()) or len(text) > _DIGITS:
        raise ValueError("it must be a whole number, or off")
    return int(text)


def _ratio(value: Any) -> float:
    try:
        number = float("nan" if isinstance(value, bool) else value)
    except (TypeError, ValueError):
        number = math.nan
    if not 0 <= number < math.inf:
        raise ValueError("it must be a number that is not negative, or off")
    return number


def _size(value: Any) -> int:
    try:
        return byte_size.parse_size(value)
    except errors.ConfigError as error:
        raise ValueError(str(error)) from None


def _seconds(value: Any) -> float:
    text = str(value).strip().lower()
    if _NUMBER.fullmatch(text):
        return float(text)
    match = _MILLISECONDS.fullmatch(text)
    try:
        return int(match[1]) / 1000 if match else durations.parse_seconds(text)
    except errors.ConfigError as error:
        raise ValueError(str(error)) from None


FileCount = Annotated[int | Literal["off"] | None, _optional(_count)]
FileSize = Annotated[int | Literal["off"] | None, _optional(_size)]
Ratio = Annotated[float | Literal["off"] | None, _optional(_ratio)]
Interval = Annotated[float | Literal["off"] | None, _optional(_seconds)]


def _kebab(name: str) -> str:
    return name.replace("_", "-")


class Triggers(Value):
    """A preset, and thresholds of one's own. A threshold that is not given has the preset's value; `off` switches a
    trigger of the preset off."""

    model_config = ConfigDict(alias_generator=_kebab)

    preset: Annotated[TriggerPreset, Field(description="strategy, guide or amoro")] = TriggerPreset.STRATEGY
    max_file_count_per_partition: Annotated[FileCount, Field(description="data files")] = None
    small_file_threshold: Annotated[
        FileSize, Field(description="mean size of data files; smaller files count as small")
    ] = None
    max_delete_ratio: Annotated[Ratio, Field(description="delete files for each data file")] = None
    max_small_file_count: Annotated[FileCount, Field(description="small files")] = None
    min_files_to_compact: Annotated[FileCount, Field(description="small files")] = None
    rewrite_interval: Annotated[Interval, Field(description="time since the last rewrite")] = None
    commits_since_rewrite: Annotated[FileCount, Field(description="commits to the table since its last rewrite")] = None
    minor_trigger_file_count: Annotated[FileCount, Field(description="fragments and equality delete files")] = None
    minor_trigger_interval: Annotated[Interval, Field(description="time since the last rewrite")] = None
    minor_trigger_position_delete_files: Annotated[
        FileCount, Field(description="position delete files on a data file near the target")
    ] = None
    major_trigger_duplicate_ratio: Annotated[Ratio, Field(description="share of rows deleted from a data file")] = None
    major_trigger_undersized_targets: Annotated[Ratio, Field(description="targets of bytes in undersized files")] = None
    full_trigger_interval: Annotated[Interval, Field(description="time since the last rewrite")] = None
    fragment_size_divisor: Annotated[
        int,
        Field(
            ge=1,
            lt=2**31,
            description="Amoro's fragment-ratio: files up to the target divided by this are fragments",
        ),
    ] = 8
    min_target_size_ratio: Annotated[
        float, Field(gt=0, le=1, description="files up to this share of the target are undersized")
    ] = 0.75

    @model_validator(mode="before")
    @classmethod
    def _spellings(cls, given: Any) -> Any:
        """A preset as a word, or names in any spelling. Numbers of Amoro's intervals are milliseconds."""
        if isinstance(given, str):
            return {"preset": given.strip().lower()}
        if not isinstance(given, dict):
            return given
        plain: dict[str, Any] = {}
        for name, value in given.items():
            own, amoros = canonical_name(str(name))
            if amoros and own.endswith("interval") and re.fullmatch(r"\d+", str(value).strip()):
                value = f"{str(value).strip()}ms"
            plain[own] = value
        return plain

    @property
    def active(self) -> bool:
        """Whether triggers decide at all."""
        if self.preset is not TriggerPreset.STRATEGY:
            return True
        return any(getattr(self, name) not in (None, OFF) for name in THRESHOLDS)

    def threshold(self, name: str, default: float | None) -> float | None:
        """A threshold with this default; None: the trigger is off."""
        given = getattr(self, name)
        value = default if given is None else given
        return None if value is None or value == OFF or not math.isfinite(float(value)) else float(value)


_DEFINITIONS = ("preset", "fragment_size_divisor", "min_target_size_ratio")  # fields that no measure is compared with
THRESHOLDS = tuple(name for name in Triggers.model_fields if name not in _DEFINITIONS)


def canonical_name(given: str) -> tuple[str, bool]:
    """The name of a threshold in any spelling, and whether it was given as a property of Amoro. ValueError: there is
    none of this name."""
    text = given.strip().lower()
    amoros = _AMORO.match(text) is not None
    name = re.sub(r"[-.]", "_", _AMORO.sub("", text))
    if name == "fragment_ratio" and amoros:
        return "fragment_size_divisor", True
    if name == "fragment_ratio":
        raise ValueError(
            "fragment-ratio has two meanings: max-delete-ratio divides delete files by data files, and "
            "self-optimizing.fragment-ratio divides the target size; give one of these"
        )
    name = _SPELLINGS.get(name, name)
    if name not in Triggers.model_fields:
        near = difflib.get_close_matches(name, Triggers.model_fields, n=1)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"there is no trigger {given}{hint}; the triggers are {', '.join(THRESHOLDS)}")
    return name, amoros
