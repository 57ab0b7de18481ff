"""What the scheduler of a service knows of one table, as the run store keeps it, and what people are told of it."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Count, Value


class TableWatch(Value):
    """One table of a catalog. Times are moments; 0: never."""

    table: str
    pointer: str = ""  # where its metadata was when it was seen last
    etag: str = ""  # of the same, where the catalog has such
    updated_ms: Count = 0  # when it changed last
    seen_ms: Count = 0  # the last look
    look_ms: Count = 0  # the next one
    changed: bool = False  # it has changed since the last look
    identity: str = ""  # of its catalog, as looks in the store have it
    properties: dict[str, str] = {}  # those that policies know
    scheduled_ms: Count = 0  # its schedule was attended to until then
    upkeep_ms: Count = 0  # the last time that all of its upkeep was asked for
    trigger_ms: Count = 0  # when time alone makes it due; 0: never
    born_ms: Count = 0  # when it was first seen
    asks: Count = 0  # pieces of work that the scheduler has asked for so far
    work_id: str = ""  # the last of them, as long as it has not ended
    failures: Count = 0  # in a row
    again_ms: Count = 0  # after a failure: not before
    idle_runs: Count = 0  # in a row that found nothing to do
    sentence: str = ""  # the last failure


class SchedulePause(Value):
    """Schedules of these tables are paused."""

    pattern: Annotated[str, Field(min_length=1, max_length=500)]  # of names; a name is a pattern
    catalog: str | None = None  # None: all
    by: str = ""
    since_ms: Count = 0


class NextTimes(Value):
    """When something happens to a table next, and what keeps it from happening."""

    catalog: str
    table: str
    schedule: str | None = None  # its cron text, with its time zone
    next_run_ms: int | None = None  # by the schedule, or because time alone makes the table due
    next_look_ms: int | None = None
    quiet_until_ms: int | None = None
    paused_by: str | None = None  # the pattern
    suspended_until_ms: int | None = None
    failures: Count = 0
    work_id: str | None = None  # that waits or is at work
    sentence: str = ""
