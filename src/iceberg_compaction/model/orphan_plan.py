"""A plan of orphan files: files in a table's folders that nothing of the table refers to. Goals say where to look and
how careful to be; the plan names every file, in columns, and what stays and why."""

from __future__ import annotations

from typing import Literal

from iceberg_compaction.model.upkeep_plan import UpkeepPlan
from iceberg_compaction.model.value import Count, Value

DAY_MS = 24 * 3600 * 1000
LEAST_AGE_MS = 3 * DAY_MS
PURGE_MS = 7 * DAY_MS
MOST_FILES = 100_000  # of one plan; the next run finds the rest
MOST_SHARE = 0.1  # of the listed files, or of their bytes; more is odd


class OrphanGoal(Value):
    """Where orphans are looked for, and how they are told from files of the table."""

    older_than_ms: Count = LEAST_AGE_MS
    allow_recent: bool = False  # `older_than_ms` may be less than LEAST_AGE_MS
    locations: tuple[str, ...] = ()  # empty: all that the table's properties name
    equal_schemes: dict[str, str] = {}  # beside those that are always equal
    equal_authorities: dict[str, str] = {}
    keep_mismatches: bool = False  # a file whose path fits but not its scheme or authority stays; else it stops all
    force_share: bool = False  # remove them however many they are
    allow_unlisted: bool = False  # go on although other tables of the catalog cannot be looked at
    most_files: Count = MOST_FILES
    uploads: bool = False  # also uploads that nobody has finished


class OrphanFiles(Value):
    """Files, in columns of one length."""

    paths: tuple[str, ...] = ()
    sizes: tuple[Count, ...] = ()
    modified_ms: tuple[int, ...] = ()

    def select(self, numbers: list[int]) -> OrphanFiles:
        """The files of these numbers."""
        return OrphanFiles(
            paths=tuple(self.paths[number] for number in numbers),
            sizes=tuple(self.sizes[number] for number in numbers),
            modified_ms=tuple(self.modified_ms[number] for number in numbers),
        )

    @property
    def bytes(self) -> int:
        return sum(self.sizes)


class OpenUpload(Value):
    """An upload in parts that nobody has finished."""

    path: str
    upload_id: str
    begun_ms: int


class OrphanPlan(UpkeepPlan):
    """Files that nothing of a table refers to, and uploads that nobody has finished."""

    operation: Literal["orphans"] = "orphans"
    goal: OrphanGoal = OrphanGoal()
    locations: tuple[str, ...] = ()  # that were listed
    to_quarantine: bool = True  # else the files are deleted
    quarantine: str | None = None  # the folder that was given for it
    metadata_location: str = ""  # of the metadata that the plan was made on
    cutoff_ms: int = 0  # files that were written before may be orphans
    listed: Count = 0  # files
    listed_bytes: Count = 0
    files: OrphanFiles = OrphanFiles()
    left: Count = 0  # orphans beyond those in `files`
    uploads: tuple[OpenUpload, ...] = ()
    refusal: str | None = None  # why the plan must not be performed as it is


class QuarantinePlan(UpkeepPlan):
    """Files in quarantine that come back, or that are deleted for good."""

    operation: Literal["restore-orphans", "purge-orphans"]
    folder: str  # of the quarantine
    manifests: tuple[str, ...] = ()  # the manifest files that name the files
