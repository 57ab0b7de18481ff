"""What is remembered of a run: when it ran, with which version, and how it ended."""

from __future__ import annotations

from iceberg_compaction.model.outcome import Outcome
from iceberg_compaction.model.value import Value


class RunRecord(Value):
    """One run on one table, as stored and as listed by `history`."""

    run_id: str
    table: str
    version: str
    started_ms: int
    finished_ms: int
    outcome: Outcome
