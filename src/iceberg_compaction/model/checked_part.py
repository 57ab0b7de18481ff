"""One part of a service's settings, and whether it can be used."""

from __future__ import annotations

from iceberg_compaction.model.value import Value


class CheckedPart(Value):
    """What was tried, and what came of it."""

    part: str  # such as `catalog lake`
    ok: bool
    sentence: str
