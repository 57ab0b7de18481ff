"""What is remembered of a run: when it ran, with which version, and how it ended; and, until it has ended in order, all
that another run needs to find what it left behind."""

from __future__ import annotations

from iceberg_compaction.model.outcome import Outcome
from iceberg_compaction.model.value import Value


class RunRecord(Value):
    """One run on one table, as stored and as listed by `history`."""

    run_id: str
    table: str
    version: str
    started_ms: int
    finished_ms: int
    outcome: Outcome


class Process(Value):
    """A process, so that it can be told from any other: numbers of processes are used again."""

    host: str  # the machine, or the part of it that the number means something in
    pid: int
    started: str  # as the system tells it; empty: it does not


class CatalogEntry(Value):
    """A table under one name in one catalog. One table uuid may have several of them, whose metadata go apart."""

    catalog: str
    table: str
    table_uuid: str

    def __str__(self) -> str:
        return f"{self.table} of the catalog {self.catalog}"


class RunStart(Value):
    """What is written down of a run before it writes its first file."""

    run_id: str
    table: str
    table_uuid: str
    table_location: str
    data_path: str  # the folders that its files go to; the table's properties may name others later
    metadata_path: str
    branch: str
    process: Process
    started_ms: int
    claims: tuple[tuple[int, str], ...] = ()  # partitions that it is at work on: spec id and canonical JSON of each
    catalog: str = ""  # its identity; empty: it cannot be told, or the run is of a version that did not write it down

    @property
    def entry(self) -> CatalogEntry:
        """The catalog entry that the run works on. What it wrote belongs to that (R48)."""
        return CatalogEntry(catalog=self.catalog, table=self.table, table_uuid=self.table_uuid)


class Attempt(Value):
    """A change that is about to be published. Its snapshot can land as long as the branch's head is its parent."""

    snapshot_id: int | None  # None: the change adds no snapshot
    parent_snapshot_id: int | None
    sequence_number: int | None  # format version 1 has none
    at_ms: int
    landed: tuple[int, ...] = ()  # the run's snapshots that are known to have landed
    metadata: str | None = None  # the table metadata file with it, if the run has written that

    @property
    def may_have_landed(self) -> tuple[int, ...]:
        """The run's snapshots that landed, or may have."""
        return self.landed if self.snapshot_id is None else (*self.landed, self.snapshot_id)


class UnfinishedRun(Value):
    """A run of which files may be left."""

    start: RunStart
    heartbeat_ms: int  # the last one
    ended: bool  # it has ended, and knew that something might be left; otherwise it runs or has crashed
    attempt: Attempt | None  # the last one
    taken_over: bool = False  # it counts as ended because another run took it for dead; it may be asleep
