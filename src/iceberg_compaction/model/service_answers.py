"""What a service answers, where that is more than one value of another module: pages, runs with their work, and sums
over all tables that somebody may see."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field

from iceberg_compaction.model.events import LatestProgress
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.run_figures import HealthEntry
from iceberg_compaction.model.run_listing import UnfinishedListing
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.table_due import TableDue
from iceberg_compaction.model.value import Count, Value
from iceberg_compaction.model.work import Work

ItemT = TypeVar("ItemT")


class ListPage(Value, Generic[ItemT]):
    """One page of a list."""

    items: tuple[ItemT, ...]
    next: Annotated[str | None, Field(description="`after` of the next page; null: this is the last one")] = None


class AcceptedWork(Value):
    """Work that is in the queue, or done by now, and where to watch it."""

    work: Work
    run_id: str  # the run to look at
    run: str  # paths of the service
    events: str
    cancel: str


class ServedRun(Value):
    """All that is there of one run: its place in the queue, what it does, and how it ended."""

    run_id: str
    table: str
    tenant: str | None = None
    work: Work | None = None  # None: the run was not started by a service
    unfinished: UnfinishedListing | None = None  # None: it has not begun, or has ended
    progress: LatestProgress | None = None
    record: RunRecord | None = None  # None: it has not ended


class ServedTable(Value):
    """One table as the store has it. No catalog is asked."""

    table: str
    tenant: str | None = None
    health: HealthEntry | None = None  # the last look; None: nobody has looked so far
    due: TableDue | None = None
    last_run: RunRecord | None = None
    work: tuple[Work, ...] = ()  # that is open


class FleetFigures(Value):
    """Sums over tables."""

    tables: Count = 0
    sick: Count = 0
    unscored: Count = 0
    score: float | None = None  # the mean, by bytes; None: no table has a score
    bytes: Count = 0
    data_files: Count = 0
    small_files: Count = 0
    delete_files: Count = 0


class TenantSpending(Value):
    """What the runs of a tenant that ended in the last hour have cost, in dollars."""

    tenant: str | None
    hour_cost: float = 0.0
    hourly_limit: float | None = None  # None: there is none
    runs: Count = 0


class FleetSummary(Value):
    """All tables that somebody may see, as the store has them."""

    at_ms: Count
    figures: FleetFigures
    by_tenant: dict[str, FleetFigures] = {}
    queue: dict[str, int] = {}  # work by state


class RankedLook(Value):
    """A table's place among all, the sickest first."""

    rank: Count
    table: str
    catalog: str
    tenant: str | None = None
    score: int | None = None
    sick: bool | None = None
    data_files: Count
    small_files: Count
    delete_files: Count
    bytes: Count
    seen_ms: Count


class StoredPolicy(Value):
    """A policy document that was put over REST."""

    name: str
    document: dict[str, Any]


class NoticeAnswer(Value):
    """What became of notices of changes. Tables that nobody may see, or that are unknown, are ignored."""

    accepted: Count
    ignored: Count


class Liveness(Value):
    """Whether the process answers, and whether it can work."""

    ok: bool
    sentence: str
    version: str
    role: str


class ProcessEnd(Value):
    """How a run ended, as the last message of a stream of its events."""

    run_id: str
    kind: Kind | None = None  # None: it has no outcome
    sentence: str
