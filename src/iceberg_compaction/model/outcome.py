"""What happened to one table: a kind from a closed vocabulary, one sentence for a person, and the figures; and the
events on the way there, which an outside may draw or stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from iceberg_compaction.model.policy import Strategy
from iceberg_compaction.model.proof import Proof
from iceberg_compaction.model.value import Value


class Kind(str, Enum):
    """How a run ended."""

    COMPACTED = "compacted"
    HEALTHY = "healthy"  # nothing to do
    SKIPPED = "skipped"
    UNSUPPORTED = "unsupported"
    CONFLICT = "conflict"
    FAILED = "failed"


class Outcome(Value):
    """The result of compacting one table."""

    kind: Kind
    table: str
    sentence: str
    run_id: str
    plan_id: str | None = None
    strategy: Strategy | None = None
    snapshot_id: int | None = None  # the snapshot that the run committed
    files_removed: int = 0
    files_added: int = 0
    bytes_removed: int = 0
    bytes_added: int = 0
    records: int = 0
    deleted_rows: int = 0  # that delete files had taken, and that are in no file any more
    delete_files_removed: int = 0  # that applied to nothing after the run
    groups: int = 0
    attempts: int = 0  # commit attempts
    proof: Proof | None = None
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return self.kind in (Kind.COMPACTED, Kind.HEALTHY, Kind.SKIPPED)


class Stage(str, Enum):
    """Where a run is."""

    PLANNING = "planning"
    REWRITING = "rewriting"
    COMMITTING = "committing"
    DONE = "done"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One step forward. Totals are those of the plan, so a bar can be drawn from any single event."""

    table: str
    run_id: str
    stage: Stage
    message: str = ""
    files_done: int = 0
    files_total: int = 0
    bytes_done: int = 0
    bytes_total: int = 0
