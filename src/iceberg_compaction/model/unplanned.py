"""A table that has no plan, in a list of plans: it must not be rewritten, its policy says so, or it could
not be looked at."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.value import Value


class UnplannedKind(str, Enum):
    """The reason in a word, as outcomes of runs have it. Closed set."""

    UNSUPPORTED = "unsupported"
    SKIPPED = "skipped"  # its policy says that nothing is done, or not now
    FAILED = "failed"


class Unplanned(Value):
    """One table without a plan."""

    kind: UnplannedKind
    table: str
    sentence: str


def is_failed(plan: object) -> bool:
    """Whether a table could not be looked at."""
    return isinstance(plan, Unplanned) and plan.kind is UnplannedKind.FAILED
