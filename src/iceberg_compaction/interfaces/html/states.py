"""The states that a table of the report can be in, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.workflow.fleet import Diagnosis

BROKEN, UNREACHABLE, UNSUPPORTED, SICK, HEALTHY = "broken", "unreachable", "unsupported", "sick", "healthy"
STATES = (BROKEN, UNREACHABLE, UNSUPPORTED, SICK, HEALTHY)


def state_of(diagnosis: Diagnosis) -> str:
    """The state of a table now."""
    return state_of_entry(diagnosis.model_dump(include={"error", "sick", "state", "unsupported"}))


def state_of_entry(entry: Mapping[str, Any]) -> str:
    """The state of a table in the JSON of `doctor`."""
    if "error" in entry:
        return UNREACHABLE if entry.get("state") == UNREACHABLE else BROKEN
    if entry.get("unsupported"):
        return UNSUPPORTED
    return SICK if entry.get("sick") else HEALTHY
