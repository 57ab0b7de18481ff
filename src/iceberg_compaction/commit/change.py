"""The vocabulary of a commit: a change of a table, one attempt to make it, and the run that makes it. Operations
implement the first two, `record` the third; the spine knows nothing else of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeVar

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableRequirement, TableUpdate

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache
    from iceberg_compaction.model.run_record import Announcement


class StagedChange(Protocol):
    """One attempt, ready to be published: every file that it needs is written."""

    @property
    def requirements(self) -> tuple[TableRequirement, ...]: ...
    @property
    def updates(self) -> tuple[TableUpdate, ...]: ...
    @property
    def files(self) -> frozenset[str]:
        """The written files that the table needs once this attempt is published."""
        ...

    @property
    def snapshot(self) -> Snapshot | None:
        """The snapshot that the attempt adds. None: it adds none."""
        ...

    def landed(self, metadata: TableMetadata) -> bool:
        """Whether the table has this change, by this attempt or another one."""
        ...

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """Whether the table, which has this change, has it by this attempt."""
        ...

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether this attempt, which is not in the table, can never land any more. Absence alone proves nothing: a
        slow server may add it later (R14)."""
        ...


S = TypeVar("S", bound=StagedChange)
S_co = TypeVar("S_co", bound=StagedChange, covariant=True)


class Change(Protocol[S_co]):
    """One change of a table, in as many attempts as it takes."""

    @property
    def label(self) -> str:
        """The change in a few words, such as `snapshot 17`, for errors."""
        ...

    @property
    def written(self) -> Sequence[str]:
        """Every path that was written for the change, noted before it is written."""
        ...

    def stage(self, table: Table, now_ms: int) -> S_co:
        """Validate against the table as it is now, and write the files of the attempt. Raises ConflictError where no
        further attempt could succeed."""
        ...


class Committer(Protocol):
    """The run behind a commit: its identity, its time, and its memory. It is passed, never guessed."""

    @property
    def run_id(self) -> str: ...
    @property
    def cancel(self) -> CancelToken: ...
    @property
    def cache(self) -> ArrowCache:
        """The cache of parsed manifests."""
        ...

    def clock(self) -> int:
        """Milliseconds since the epoch."""
        ...

    def pause(self, seconds: float) -> None: ...
    def chance(self) -> float:
        """A random number from 0 to 1."""
        ...

    def publishing(self, announcement: Announcement) -> None:
        """Write down that a change is about to be published. Raises CommitError if it must not be (R49)."""
        ...

    def committed(self, snapshot_id: int | None) -> None:
        """Write down that the change is part of the table."""
        ...

    def left_behind(self, paths: Sequence[str]) -> None:
        """Write down files of the run that were not removed, though they should be or may have to be."""
        ...
