"""Goals of housekeeping from the words of people. The library and the command line share it."""

from __future__ import annotations

from typing import Any

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import durations, times, ttl_plan, validation_words


def ttl_goal(
    column: str, *, older_than: float | str | None = None, before: str | None = None, **more: Any
) -> ttl_plan.TtlGoal:
    """The goal of `ttl`; what cannot be meant is told in one sentence."""
    if (older_than is None) == (before is None):
        raise errors.ConfigError("Give either --older-than, an age such as 90d, or --before, a moment.")
    age = None if older_than is None else int(durations.parse_seconds(older_than) * 1000)
    moment = None if before is None else _micros(before)
    try:
        return ttl_plan.TtlGoal(column=column, older_than_ms=age, before_micros=moment, **more)
    except ValidationError as error:
        first = error.errors()[0]
        where = str(first["loc"][0]).replace("_", "-") if first["loc"] else "the goal"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from error


def _micros(text: str) -> int:
    moment = text.strip().replace(" ", "T", 1)
    try:
        return times.to_micros(moment if "T" in moment else f"{moment}T00:00:00")
    except ValueError:
        raise errors.ConfigError(
            f"{text!r} is not a moment; write it as 2026-01-31 or 2026-01-31T12:00:00, in UTC."
        ) from None
