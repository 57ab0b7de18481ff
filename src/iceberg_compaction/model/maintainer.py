"""Another tool that rewrites a table's files, as the table's own history shows it."""

from __future__ import annotations

from datetime import datetime, timezone

from iceberg_compaction.model import plurals
from iceberg_compaction.model.value import Value

LEAST_MS = 24 * 3_600_000  # a maintainer is at work at least for so long after its last rewrite


class Maintainer(Value):
    """The rewrites of one tool, from the snapshots that are still kept."""

    name: str  # `spark`, `amoro`, `s3-tables`, ...; `unknown`: it left no name
    label: str  # for people
    whole_table: bool  # a service that takes care of all partitions; else only of those that it has rewritten
    rewrites: int
    first_ms: int
    last_ms: int
    median_interval_seconds: float | None  # between two rewrites

    @property
    def words(self) -> str:
        """The maintainer and its habits."""
        last = datetime.fromtimestamp(self.last_ms / 1000, timezone.utc)
        times = plurals.form(self.rewrites, "once", f"{self.rewrites:,} times")
        return f"{self.label} rewrote files {times}, last on {last:%Y-%m-%d %H:%M} UTC"

    def is_active(self, now_ms: int) -> bool:
        """Whether it will probably come again: its last rewrite is not older than twice its usual interval."""
        usual = 0 if self.median_interval_seconds is None else round(2000 * self.median_interval_seconds)
        return now_ms - self.last_ms < max(LEAST_MS, usual)
