"""The entries of a run store. A `RunRecord` is a run in the history. A `RunStart` with its last `Attempt` is a run in
the journal: it lets another run find the files of a run that never finished."""

from __future__ import annotations

from iceberg_compaction.model.outcome import Outcome
from iceberg_compaction.model.run_figures import PlanForecast, StageTime, TableFigures
from iceberg_compaction.model.value import Value


class RunRecord(Value):
    """One run on one table, as `history` lists it."""

    run_id: str
    table: str
    version: str
    started_ms: int
    finished_ms: int
    outcome: Outcome
    # Older records lack the rest.
    catalog: str = ""  # its identity; empty: it is not known
    stages: tuple[StageTime, ...] = ()
    forecast: PlanForecast | None = None
    before: TableFigures | None = None  # the table when the run planned
    after: TableFigures | None = None  # the same with all changes of the run and nobody else's

    def __repr__(self) -> str:
        return self._line(
            f"run {self.run_id[:8]} on {self.table}", f"{self.outcome.kind.value}, {self.outcome.sentence}"
        )

    __str__ = __repr__


class Process(Value):
    """The identity of a process. Its number alone is not enough: systems use numbers again."""

    host: str  # the machine, or the container in which the number is valid
    pid: int
    started: str  # as the system reports it; empty: it does not

    @property
    def machine(self) -> str:
        """The name of the machine, for people."""
        return self.host.partition("/")[0] or "an unnamed machine"


class CatalogEntry(Value):
    """A table under one name in one catalog. One table uuid may have several entries, each with its own metadata."""

    catalog: str
    table: str
    table_uuid: str

    def __str__(self) -> str:
        return f"{self.table} of the catalog {self.catalog}"


class TableHome(Value):
    """A catalog entry, and where its files are."""

    entry: CatalogEntry
    location: str
    data_path: str  # the folders that new files go to; the table's properties may name others later
    metadata_path: str


class Announcement(Value):
    """A change that is about to be published, by the snapshot that it adds. All None: it adds none."""

    snapshot_id: int | None = None
    parent_snapshot_id: int | None = None
    sequence_number: int | None = None  # format version 1 has none
    metadata: str | None = None  # the table metadata file with it, once the run has written that


class RunStart(Value):
    """A run as it is entered into the journal, before it writes its first file."""

    run_id: str
    table: str
    table_uuid: str
    table_location: str
    data_path: str  # the folders of its files; the table's properties may name others later
    metadata_path: str
    branch: str
    process: Process
    started_ms: int
    claims: tuple[tuple[int, str], ...] = ()  # older versions named their partitions here; leases do now
    catalog: str = ""  # its identity; empty: it is not known, or an older version wrote the entry
    heartbeat_s: float = 30.0  # the seconds between its heartbeats; older versions had no choice

    @property
    def entry(self) -> CatalogEntry:
        """The catalog entry that the run works on, which its files belong to (R48)."""
        return CatalogEntry(catalog=self.catalog, table=self.table, table_uuid=self.table_uuid)

    @property
    def silent_ms(self) -> int:
        """A run on another machine that is silent for so long is over: a little less than two heartbeats, so that
        another run has its lease after two."""
        return round(1900 * self.heartbeat_s)


class Attempt(Value):
    """A change that is about to be published. Its snapshot can land as long as the branch's head is its parent."""

    snapshot_id: int | None  # None: the change adds no snapshot
    parent_snapshot_id: int | None
    sequence_number: int | None  # format version 1 has none
    at_ms: int
    landed: tuple[int, ...] = ()  # the run's snapshots that were surely committed; old rows have this name
    metadata: str | None = None  # the table metadata file of the change, if the run writes that file

    @property
    def may_have_landed(self) -> tuple[int, ...]:
        """The run's snapshots that were committed, or may have been."""
        return self.landed if self.snapshot_id is None else (*self.landed, self.snapshot_id)


class UnfinishedRun(Value):
    """A run in the journal: it is running, has crashed, or may have left files."""

    start: RunStart
    heartbeat_ms: int  # the last one
    ended: bool  # it may have left files; if not ended, it is running or has crashed
    attempt: Attempt | None  # the last one
    taken_over: bool = False  # ended because another run declared it dead; it may only be asleep
