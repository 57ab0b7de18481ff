"""The cache of parsed manifests, in figures."""

from __future__ import annotations

from iceberg_compaction.model.value import Value


class CacheFigures(Value):
    """What is kept on local disk, and how much may be."""

    path: str | None  # None: nothing is kept
    entries: int
    bytes: int
    capacity: int
