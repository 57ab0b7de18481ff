"""Work that a service does on tables: what is asked for, by whom and why, and how far it is. A request is put into the
queue of the run store; a worker turns it into one or more runs."""

from __future__ import annotations

from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.value import Count, Value


class WorkKind(str, Enum):
    """What is done to a table: the verb of the command line. Closed set."""

    COMPACT = "compact"  # `run`
    MAINTAIN = "maintain"  # all steps that the policy asks for
    EXPIRE = "expire"
    ORPHANS = "orphans"  # into quarantine
    MANIFESTS = "manifests"
    DELETES = "deletes"
    TTL = "ttl"
    TAGS = "tags"
    STATISTICS = "statistics"
    VERIFY = "verify"
    UNDO = "undo"


class WorkOrigin(str, Enum):
    """Why there is such work. Closed set."""

    REQUEST = "request"  # somebody asked for it
    SCHEDULE = "schedule"  # its policy's time has come
    TRIGGER = "trigger"  # the table needs it
    RETRY = "retry"  # it failed before


class WorkState(str, Enum):
    """How far it is. Closed set."""

    QUEUED = "queued"
    RUNNING = "running"
    DONE = "done"  # the outcome says how it ended
    FAILED = "failed"  # as often as it may
    CANCELLED = "cancelled"

    @property
    def is_open(self) -> bool:
        return self in (WorkState.QUEUED, WorkState.RUNNING)


class WorkRequest(Value):
    """One piece of work on one table. `work_id` is also the id of its first run."""

    work_id: Annotated[str, Field(min_length=1, max_length=200)]
    kind: WorkKind = WorkKind.COMPACT
    catalog: str  # as the service's settings name it
    table: str  # its full name
    tenant: str | None = None  # that the table belongs to
    strategy: str | None = None  # None: as the policy says
    options: dict[str, Any] = {}  # by option name, as flags of the verb
    run_id: str | None = None  # the run to verify or undo
    priority: Annotated[int, Field(ge=0, le=9)] = 5
    origin: WorkOrigin = WorkOrigin.REQUEST
    reason: str = ""  # one sentence
    requested_by: str = ""  # the name of a principal; empty: the service itself
    requested_ms: Count


class Work(Value):
    """A request and how far it is."""

    request: WorkRequest
    state: WorkState = WorkState.QUEUED
    run_ids: tuple[str, ...] = ()  # of all attempts, the last one at work or ended
    worker: str = ""  # who has it
    attempts: Count = 0
    changed_ms: Count = 0
    outcome: Kind | None = None  # of the last run
    sentence: str = ""  # of the last run, or why it failed
    result: dict[str, Any] | None = None  # the outcome or the verification as JSON

    @property
    def run_id(self) -> str:
        """The run to look at."""
        return self.run_ids[-1] if self.run_ids else self.request.work_id
