"""Processes of a service, and what tables' writers ask of it, as the run store has them."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.run_record import Process
from iceberg_compaction.model.value import Count, Value


class ServiceMember(Value):
    """One process of a service that gives signs of life. Times are of its own clock."""

    member: str  # its name, which no other process ever had
    role: str
    process: Process
    version: str = ""
    since_ms: Count
    beat_ms: Count
    slots: Count = 0  # runs that it may have at work at a time
    doing: tuple[str, ...] = ()  # the ids of the work that it has
    leads: bool = False  # it looks after schedules
    ending: bool = False  # it takes no new work


class Leader(Value):
    """The member that looks after schedules."""

    member: str
    process: Process
    term: Count  # counts leaders
    beat: Count  # counts its signs of life


class TableBlocker(Value):
    """A writer asks for peace on a table: no work begins there until then."""

    blocker_id: str
    catalog: str
    table: str
    until_ms: Count
    by: str = ""
    reason: Annotated[str, Field(max_length=500)] = ""
