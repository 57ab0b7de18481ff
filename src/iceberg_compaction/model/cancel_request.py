"""A request to cancel a run: who wants it, since when, and what became of it."""

from __future__ import annotations

from datetime import datetime, timezone
from enum import Enum

from iceberg_compaction.model.outcome import Outcome
from iceberg_compaction.model.value import Value


class CancelRequest(Value):
    """The first request counts."""

    by: str  # the user
    machine: str
    at_ms: int

    @property
    def words(self) -> str:
        """Whoever wants it, in a sentence."""
        moment = datetime.fromtimestamp(self.at_ms / 1000, timezone.utc)
        return f"{self.by} on {self.machine} at {moment:%Y-%m-%d %H:%M:%S} UTC"


class CancelState(str, Enum):
    """What became of a request to cancel a run. Closed set."""

    CANCELLED = "cancelled"  # the run has ended
    REQUESTED = "requested"  # the run has not ended yet
    ENDED = "ended"  # it had ended before
    DEAD = "dead"  # it will not hear of the request: its process is gone, or silent


class Cancellation(Value):
    """The answer to a request to cancel a run."""

    run_id: str
    table: str
    state: CancelState
    sentence: str
    outcome: Outcome | None = None  # of the run, once it has ended
