"""A request to cancel a run: who wants it, and since when."""

from __future__ import annotations

from datetime import datetime, timezone

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
