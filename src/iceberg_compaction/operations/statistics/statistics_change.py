"""Statistics files of a snapshot as a change without a snapshot of its own. The files are written once and serve all
attempts. Commits of others do not matter, as long as the snapshot that the statistics are of is in the table."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyiceberg.table import locations, statistics
from pyiceberg.table.update import (
    AssertRefSnapshotId,
    AssertTableUUID,
    SetPartitionStatisticsUpdate,
    SetStatisticsUpdate,
)

from iceberg_compaction import errors
from iceberg_compaction.commit import new_snapshot, snapshot_pin
from iceberg_compaction.storage import counted_writes, exact_paths, file_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate


@dataclass(frozen=True, slots=True, kw_only=True)
class SketchFile:
    """A Puffin file of sketches, ready to be written."""

    content: bytes
    footer_bytes: int
    blobs: tuple[statistics.BlobMetadata, ...]
    replaced: str | None  # the statistics file of the snapshot whose blobs are in it, too; None: there was none


@dataclass(slots=True, kw_only=True)
class StatisticsChange:
    """The statistics of one snapshot."""

    snapshot_id: int
    branch: str
    run_id: str  # goes into the names of files, so that a later run knows them
    partitions: bytes | None = None  # the partition statistics file
    sketches: SketchFile | None = None
    written: list[str] = field(default_factory=list)  # every path, noted before it is written

    @property
    def label(self) -> str:
        return f"statistics of snapshot {self.snapshot_id}"

    def stage(self, table: Table, now_ms: int) -> StagedStatistics:
        """Write the files, at the first attempt. What others have made meanwhile is left out. ConflictError: the
        snapshot has expired, or others made sketches of it; NothingLeftError: nothing is left to add."""
        metadata = table.metadata
        if metadata.snapshot_by_id(self.snapshot_id) is None:
            raise errors.ConflictError(
                f"Snapshot {self.snapshot_id} has expired while its statistics were made; they are of no use now."
            )
        is_made = _path_of(metadata.partition_statistics, self.snapshot_id) is not None
        if is_made and self.sketches is None:
            raise errors.NothingLeftError(
                f"Somebody else made partition statistics of snapshot {self.snapshot_id} meanwhile."
            )
        if self.sketches is not None and _path_of(metadata.statistics, self.snapshot_id) != self.sketches.replaced:
            raise errors.ConflictError(
                f"Somebody else made statistics of snapshot {self.snapshot_id} meanwhile; run again to add to them."
            )
        return StagedStatistics(
            parent=metadata,
            branch=self.branch,
            run_id=self.run_id,
            snapshot_id=self.snapshot_id,
            partitions=None if is_made else self._partition_file(table),
            sketches=self._sketch_file(table),
        )

    def _partition_file(self, table: Table) -> statistics.PartitionStatisticsFile | None:
        if self.partitions is None:
            return None
        name = file_names.partition_statistics(self.run_id, snapshot_id=self.snapshot_id)
        return statistics.PartitionStatisticsFile(
            snapshot_id=self.snapshot_id,
            statistics_path=self._stored(table, name, self.partitions),
            file_size_in_bytes=len(self.partitions),
        )

    def _sketch_file(self, table: Table) -> statistics.StatisticsFile | None:
        if self.sketches is None:
            return None
        name = file_names.statistics(self.run_id, snapshot_id=self.snapshot_id)
        return statistics.StatisticsFile(
            snapshot_id=self.snapshot_id,
            statistics_path=self._stored(table, name, self.sketches.content),
            file_size_in_bytes=len(self.sketches.content),
            file_footer_size_in_bytes=self.sketches.footer_bytes,
            blob_metadata=list(self.sketches.blobs),
        )

    def _stored(self, table: Table, name: str, content: bytes) -> str:
        """The path of the file, which is written unless an earlier attempt has."""
        for path in self.written:
            if file_names.base_name(path) == name:
                return path
        provider = locations.load_location_provider(table.location(), table.properties)
        path = exact_paths.check_new(provider.new_metadata_location(name), table.location())
        self.written.append(path)
        _write_file(table.io, path, content)
        return path


@dataclass(frozen=True, slots=True, kw_only=True)
class StagedStatistics:
    """One attempt."""

    parent: TableMetadata
    branch: str
    run_id: str
    snapshot_id: int
    partitions: statistics.PartitionStatisticsFile | None
    sketches: statistics.StatisticsFile | None
    snapshot: None = field(default=None, init=False)

    @property
    def files(self) -> frozenset[str]:
        return frozenset(each.statistics_path for each in (self.partitions, self.sketches) if each is not None)

    @property
    def requirements(self) -> tuple[TableRequirement, ...]:
        """While the snapshot is the branch's head nobody can expire it, and the catalog makes sure that it still is."""
        table = AssertTableUUID(uuid=self.parent.table_uuid)
        if not self._is_head(self.parent):
            return (table,)
        return table, AssertRefSnapshotId(ref=self.branch, snapshot_id=self.snapshot_id)

    @property
    def updates(self) -> tuple[TableUpdate, ...]:
        """Another snapshot than the head may expire at any moment, so the catalog has to have it right then (R65)."""
        updates: list[TableUpdate] = []
        if not self._is_head(self.parent):
            updates.extend(snapshot_pin.updates(self.snapshot_id, f"statistics-{self.run_id}"))
        if self.partitions is not None:
            updates.append(SetPartitionStatisticsUpdate(partition_statistics=self.partitions))
        if self.sketches is not None:
            updates.append(SetStatisticsUpdate(statistics=self.sketches))
        return tuple(updates)

    def landed(self, metadata: TableMetadata) -> bool:
        return self.files <= {each.statistics_path for each in (*metadata.statistics, *metadata.partition_statistics)}

    def is_exactly(self, metadata: TableMetadata) -> bool:
        """The same as `landed`: attempts have the same files."""
        return self.landed(metadata)

    def beaten(self, metadata: TableMetadata) -> bool:
        """Whether the branch has gone on from the snapshot, which the attempt required to be its head."""
        head = metadata.snapshot_by_name(self.branch)
        if not self._is_head(self.parent) or head is None or head.snapshot_id == self.snapshot_id:
            return False
        return new_snapshot.descends(metadata, head, self.snapshot_id)

    def _is_head(self, metadata: TableMetadata) -> bool:
        head = metadata.snapshot_by_name(self.branch)
        return head is not None and head.snapshot_id == self.snapshot_id


def path_of(metadata: TableMetadata, snapshot_id: int) -> str | None:
    """The statistics file of a snapshot, if it has one."""
    return _path_of(metadata.statistics, snapshot_id)


def _path_of(files: Sequence[statistics.StatisticsCommonFields], snapshot_id: int) -> str | None:
    return next((each.statistics_path for each in files if each.snapshot_id == snapshot_id), None)


def _write_file(io: FileIO, path: str, content: bytes) -> None:
    try:
        with counted_writes.new_output(io, path).create() as stream:
            stream.write(content)
    except OSError as error:
        raise errors.CommitError(f"The statistics file {path} could not be written: {error}.") from error
