"""The report of one run, from the run store alone: what it found, expected, did, and left. A report says what the store
cannot know."""

from __future__ import annotations

from iceberg_compaction.model.events import LoggedEvent
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.run_figures import HealthEntry, PlanForecast, StageTime, TableFigures
from iceberg_compaction.model.run_listing import RunState
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.value import Value


class ReportedCommit(Value):
    """A snapshot of the run."""

    snapshot_id: int
    at_ms: int | None = None  # None: the event is not kept
    groups: int | None = None
    attempts: int | None = None


class ReportedTasks(Value):
    """The tasks of the run whose end is kept."""

    tasks: int
    failed: int
    seconds: float  # of all tasks together
    longest_seconds: float
    files: int  # that they wrote
    bytes_read: int
    bytes_written: int


class FollowingRun(Value):
    """A later run on the same table."""

    run_id: str
    started_ms: int
    kind: Kind
    sentence: str
    snapshot_ids: tuple[int, ...] = ()


class RunReport(Value):
    """All that a store has about one run. `record` and `finished_ms` are None for a run without an outcome."""

    run_id: str
    table: str
    state: RunState
    sentence: str
    command: str | None = None  # that goes on with its work, if it died
    started_ms: int
    finished_ms: int | None
    record: RunRecord | None
    stages: tuple[StageTime, ...] = ()
    forecast: PlanForecast | None = None
    actual: PlanForecast | None = None  # the same figures as they became
    before: TableFigures | None = None
    after: TableFigures | None = None
    commits: tuple[ReportedCommit, ...] = ()
    tasks: ReportedTasks | None = None
    events: tuple[LoggedEvent, ...] = ()  # without ends of tasks
    health: tuple[HealthEntry, ...] = ()  # of the table over time, the oldest first
    followed_by: tuple[FollowingRun, ...] = ()  # the oldest first
    unknown: tuple[str, ...] = ()  # what the store cannot tell, in words

    def __repr__(self) -> str:
        return self._line(f"run {self.run_id[:8]} on {self.table}", self.sentence)

    __str__ = __repr__
