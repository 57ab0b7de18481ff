"""The one order of precedence of retention: flag, policy, the table's `history.expire.*`, Amoro's `snapshot.keep.*`,
Iceberg's defaults. A ref's own retention comes before all of them, and is looked at where the ref is."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import snapshot_retention
from iceberg_compaction.model.snapshot_retention import Retention, RetentionGoal, Sourced

if TYPE_CHECKING:
    from collections.abc import Mapping

DEFAULT_AGE_MS = 5 * 86_400_000
DEFAULT_COUNT = 1
DEFAULT = "Iceberg's default"
LEAST_AGE_MS = 3_600_000  # younger snapshots go only with a word of their own
_AMORO = re.compile(r"(\d+)\s*([a-z]*)", re.ASCII)
_AMORO_UNITS = {
    1: ("ms", "milli", "millis", "millisecond", "milliseconds", ""),
    1000: ("s", "sec", "secs", "second", "seconds"),
    60_000: ("m", "min", "minute", "minutes"),
    3_600_000: ("h", "hour", "hours"),
    86_400_000: ("d", "day", "days"),
}
_MS_OF = {unit: ms for ms, units in _AMORO_UNITS.items() for unit in units}


def effective(goal: RetentionGoal, properties: Mapping[str, str], now_ms: int) -> Retention:
    """What holds for a table with these properties. ConfigError: one of them is no number or no duration."""
    return Retention(
        older_than_ms=_older_than(goal, properties, now_ms),
        min_snapshots=_first(
            (goal.retain_last, "--retain-last"),
            (goal.policy_count, "policy"),
            (_number(properties, snapshot_retention.MIN_COUNT), snapshot_retention.MIN_COUNT),
            (_number(properties, snapshot_retention.AMORO_COUNT), snapshot_retention.AMORO_COUNT),
            (DEFAULT_COUNT, DEFAULT),
        ),
        max_ref_age_ms=_first(
            (goal.policy_ref_age_ms, "policy"),
            (_number(properties, snapshot_retention.MAX_REF_AGE), snapshot_retention.MAX_REF_AGE),
            (snapshot_retention.FOREVER, DEFAULT),
        ),
    )


def check_age(goal: RetentionGoal, held: Retention, now_ms: int) -> None:
    """ConfigError: so young snapshots may only go if that is said: readers may be at work on them, and writers may be
    about to build on them."""
    if goal.only_ids or goal.allow_recent or now_ms - held.older_than_ms.value >= LEAST_AGE_MS:
        return
    raise errors.ConfigError(
        f"Snapshots younger than an hour would expire ({held.older_than_ms.origin}), while readers may still be at "
        "work on them; choose a larger age, or run `iceberg-compact expire` with --allow-recent."
    )


def _older_than(goal: RetentionGoal, properties: Mapping[str, str], now_ms: int) -> Sourced:
    if goal.older_than_ms is not None:
        return Sourced(value=goal.older_than_ms, origin="--older-than")
    age = _first(
        (goal.policy_age_ms, "policy"),
        (_number(properties, snapshot_retention.MAX_AGE), snapshot_retention.MAX_AGE),
        (_amoro_ms(properties), snapshot_retention.AMORO_AGE),
        (DEFAULT_AGE_MS, DEFAULT),
    )
    return Sourced(value=max(0, now_ms - age.value), origin=age.origin)


def _first(*choices: tuple[int | None, str]) -> Sourced:
    return next(Sourced(value=value, origin=origin) for value, origin in choices if value is not None)


def _number(properties: Mapping[str, str], name: str) -> int | None:
    text = properties.get(name)
    if text is None:
        return None
    try:
        number = int(text.strip())
    except ValueError:
        number = 0
    if number <= 0:
        raise errors.ConfigError(f"The table property {name} is {text!r}, which is no positive number.")
    return number


def _amoro_ms(properties: Mapping[str, str]) -> int | None:
    text = properties.get(snapshot_retention.AMORO_AGE)
    if text is None:
        return None
    match = _AMORO.fullmatch(text.strip().lower())
    if match is None or match[2] not in _MS_OF or int(match[1]) == 0:
        raise errors.ConfigError(
            f"The table property {snapshot_retention.AMORO_AGE} is {text!r}, which is no duration."
        )
    return int(match[1]) * _MS_OF[match[2]]
