"""The files that only expired snapshots need: all that these refer to, less all that anything which the table keeps
refers to. Decided by reading both sides, never by what a snapshot says that it added or removed. Paths wait on local
disk, and only a number for each is in memory; two paths of one number would keep a file, and never delete one."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.formats import hash64
from iceberg_compaction.metadata.reach import known_paths, linked_folders, listed_manifests, reachable_files
from iceberg_compaction.metadata.reach.reachable_files import FileKind
from iceberg_compaction.record.pending_removals import ExpiredSnapshot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyiceberg.io import FileIO
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.storage.tree import path_forms

# What leads to other files goes last, so that after a crash the rest can be found again.
ORDER: tuple[tuple[FileKind, ...], ...] = (
    (FileKind.DATA, FileKind.DELETES),
    (FileKind.STATISTICS, FileKind.PARTITION_STATISTICS),
    (FileKind.MANIFEST,),
    (FileKind.MANIFEST_LIST,),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSides:
    """What leaves a table and what it keeps."""

    expired: Sequence[ExpiredSnapshot]
    kept: Sequence[Snapshot]
    statistics: Sequence[str] = ()  # of expired snapshots
    resumed: bool = False  # some files of expired snapshots may be gone already


def sides(metadata: TableMetadata, expired: Collection[int]) -> TableSides:
    """What leaves a table with these snapshots."""
    statistics = (*metadata.statistics, *metadata.partition_statistics)
    return TableSides(
        expired=[
            ExpiredSnapshot(snapshot_id=each.snapshot_id, manifest_list=each.manifest_list)
            for each in metadata.snapshots
            if each.snapshot_id in expired
        ],
        kept=[each for each in metadata.snapshots if each.snapshot_id not in expired],
        statistics=[each.statistics_path for each in statistics if each.snapshot_id in expired],
    )


class DoomedFiles:
    """Files that may be deleted, unless they are spared. A context manager that leaves nothing behind."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._writer: Any = pa.ipc.new_stream(self._file, reachable_files.FILES)
        self._folders = linked_folders.FolderReader()
        self._parts: list[hash64.Hashes] = []
        self._digests = np.zeros(0, np.uint64)  # of the files, in their order in the spill
        self._ordered = np.zeros(0, np.uint64)
        self._spared = np.zeros(0, np.bool_)  # by the ordered digests

    def __enter__(self) -> DoomedFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def add(self, files: pa.RecordBatch) -> None:
        """More candidates (reachable_files.FILES)."""
        if files.num_rows:
            self._parts.append(self._digests_of(files["path"]))
            self._writer.write_batch(files)

    def seal(self) -> None:
        """There are no more candidates."""
        self._writer.close()
        self._digests = np.concatenate([self._digests, *self._parts])
        self._parts.clear()
        self._ordered = hash64.ordered(self._digests)
        self._spared = np.zeros(len(self._ordered), np.bool_)

    def spare(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Files that are needed stay."""
        for files in batches:
            if len(self._ordered) and files.num_rows:
                digests = self._digests_of(files["path"])
                at = np.minimum(np.searchsorted(self._ordered, digests), len(self._ordered) - 1)
                self._spared[at[self._ordered[at] == digests]] = True

    def spare_paths(self, needed: hash64.Hashes, spellings: path_forms.Spellings) -> int:
        """Files stay that are needed under any spelling of their path; `needed`: hashes of plain paths, sorted. Returns
        how many data and other files stay for that reason."""
        before = int(self._spared.sum())
        for at, files in self._read():
            plain, _, _ = known_paths.hashes(spellings, files["path"])
            self._spared[at[known_paths.among(plain, needed)]] = True
        return int(self._spared.sum()) - before

    def file_folders(self) -> linked_folders.FileFolders:
        """Where the files lie that may be deleted."""
        file_folders, reader = linked_folders.FileFolders(), linked_folders.FolderReader()
        for files in self._remaining():
            file_folders |= reader.read(files["path"])
        return file_folders

    def figures(self) -> DoomedFigures:
        """How many files of each kind may be deleted, and their bytes as far as they are known."""
        figures = DoomedFigures()
        for files in self._remaining():
            for kind, count in zip(*(part.to_pylist() for part in files["kind"].value_counts().flatten()), strict=True):
                figures.files[kind] += count
                sizes = files.filter(pc.equal(files["kind"], kind))["bytes"]
                figures.bytes[kind] += pc.sum(sizes).as_py() or 0
        return figures

    def paths(self, kinds: Sequence[FileKind]) -> Iterator[str]:
        """The paths of these kinds that may be deleted, each once."""
        wanted = pa.array([kind.value for kind in kinds])
        for files in self._remaining():
            yield from files.filter(pc.is_in(files["kind"], wanted))["path"].to_pylist()

    def without(self, manifests: pa.Table, kept: pa.Table) -> pa.Table:
        """The manifests that are not among the kept ones."""
        own, theirs = (reachable_files.keys(each["path"].combine_chunks(), self._folders) for each in (manifests, kept))
        return manifests.filter(pc.invert(pc.is_in(own, theirs)))

    def _digests_of(self, paths: pa.Array) -> hash64.Hashes:
        return hash64.text_digests(reachable_files.keys(paths, self._folders))

    def _read(self) -> Iterator[tuple[Any, pa.RecordBatch]]:
        """All candidates, each with its place among the ordered digests."""
        first = 0
        self._file.seek(0)
        for files in pa.ipc.open_stream(self._file):
            yield np.searchsorted(self._ordered, self._digests[first : first + files.num_rows]), files
            first += files.num_rows

    def _remaining(self) -> Iterator[pa.RecordBatch]:
        """Candidates that are not spared, once each."""
        passed = self._spared.copy()
        for at, files in self._read():
            fresh = ~passed[at]
            _, once = np.unique(at, return_index=True)
            fresh[np.setdiff1d(np.arange(len(at)), once)] = False
            passed[at] = True
            yield files.filter(pa.array(fresh))


@dataclass(slots=True)
class DoomedFigures:
    """Files and bytes by kind."""

    files: Counter[str] = field(default_factory=Counter)
    bytes: Counter[str] = field(default_factory=Counter)


def collect(io: FileIO, sides: TableSides, doomed: DoomedFiles) -> None:
    """Find the files. MetadataError: something cannot be read, so that nothing may be deleted."""
    kept = listed_manifests.read(io, sides.kept)
    lists = [listed_manifests.list_at(each.manifest_list, each.snapshot_id) for each in sides.expired]
    leaving = listed_manifests.read_lists(io, lists, may_be_gone=sides.resumed)
    only_theirs = doomed.without(leaving, kept)
    doomed.add(reachable_files.batch([each.manifest_list for each in sides.expired], FileKind.MANIFEST_LIST))
    doomed.add(reachable_files.manifest_files(only_theirs))
    doomed.add(reachable_files.batch(sides.statistics, FileKind.STATISTICS))
    for files in reachable_files.content_files(io, only_theirs, may_be_gone=sides.resumed):
        doomed.add(files)
    doomed.seal()
    doomed.spare([reachable_files.manifest_lists(sides.kept), reachable_files.manifest_files(kept)])
    if only_theirs.num_rows:
        doomed.spare(reachable_files.content_files(io, kept))
