"""Runs as `history` lists them where they have no outcome yet."""

from __future__ import annotations

from enum import Enum

from iceberg_compaction.model.value import Value


class RunState(str, Enum):
    """How far a run is. Closed set."""

    RUNNING = "running"
    STOPPED = "stopped"  # it died, or could not write down its end
    ENDED = "ended"  # it has an outcome


class UnfinishedListing(Value):
    """A run without an outcome. It has the fields of a RunRecord that a program may ask for."""

    run_id: str
    table: str
    started_ms: int
    finished_ms: None = None
    outcome: None = None
    state: RunState
    heartbeat_ms: int  # the last one
    machine: str
    process: int
    sentence: str  # what it does, or what became of it
    command: str | None = None  # that goes on with its work
