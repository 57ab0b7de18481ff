"""Orphan operations from named options, as the library takes them. Unknown names and impossible values are told in one
sentence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from pydantic import ValidationError

from iceberg_compaction import errors
from iceberg_compaction.model import durations, orphan_plan, validation_words
from iceberg_compaction.operations.orphans.quarantine_end import EndQuarantine
from iceberg_compaction.operations.orphans.remove_orphans import RemoveOrphans

if TYPE_CHECKING:
    from collections.abc import Mapping


def removal(table: str, options: Mapping[str, Any]) -> RemoveOrphans:
    """The removal of a table's orphans."""
    given = dict(options)
    own = {name: given.pop(name) for name in ("quarantine", "to_quarantine") if name in given}
    if (age := given.pop("older_than", None)) is not None:
        given["older_than_ms"] = milliseconds(age)
    try:
        goal = orphan_plan.OrphanGoal.model_validate(given)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "options"
        raise errors.ConfigError(f"Wrong value for {where}: {validation_words.text(first['msg'])}.") from error
    return RemoveOrphans(table=table, goal=goal, **own)


def end(table: str, way: Literal["restore", "purge"], options: Mapping[str, Any]) -> EndQuarantine:
    """The end of a table's quarantine."""
    given = dict(options)
    if (age := given.pop("older_than", None)) is not None:
        given["older_than_ms"] = milliseconds(age)
    return EndQuarantine(table=table, way=way, **given)


def milliseconds(duration: float | str) -> int:
    """The milliseconds of a duration such as 3d."""
    return round(durations.parse_seconds(duration) * 1000)
