"""The folders in which a table refers to files, in all its snapshots and elsewhere in its metadata. Manifests never
change, so that what was read once is not read again; folders of files that have left the table since may still be
named, which costs a closer look and no file."""

from __future__ import annotations

import itertools
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction import errors
from iceberg_compaction.formats import hash64
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import (
    known_paths,
    linked_folders,
    listed_manifests,
    outer_folders,
    reachable_files,
)
from iceberg_compaction.storage.tree import path_forms

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table

    from iceberg_compaction.formats.hash64 import Hashes

MOST_READS = 20_000  # manifests and manifest lists of other tables in one command: about a minute at an object store
_MOST_KNOWN = 100_000  # manifests of a table; many of them are gone by then


def _none() -> Hashes:
    return np.zeros(0, np.uint64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Reach:
    """What was read of a table, and the plain folders of all files in that, also where links lead."""

    folders: frozenset[str] = frozenset()
    lists: Hashes = field(default_factory=_none)  # digests of the manifest lists, sorted
    manifests: Hashes = field(default_factory=_none)


class ReadAllowance:
    """How much may still be read for other tables."""

    def __init__(self) -> None:
        self._left = MOST_READS
        self._lock = threading.Lock()

    def take(self, count: int) -> None:
        """SpentError: nothing is left. The last one may take more than there is, so that every table has its turn."""
        with self._lock:
            if count and self._left <= 0:
                raise SpentError(f"{MOST_READS:,} manifests of other tables are the most that one command reads")
            self._left -= count


class SpentError(errors.MetadataError):
    """The command has read enough of other tables."""


def read(table: Table, earlier: Reach | None, allowance: ReadAllowance) -> Reach:
    """The folders, where only what is not known yet is read. MetadataError: something cannot be read."""
    reachable_files.require_all_snapshots(table)
    earlier = earlier if earlier is not None and len(earlier.manifests) <= _MOST_KNOWN else Reach()
    snapshots = table.metadata.snapshots
    lists = hash64.text_digests(pa.array([each.manifest_list or "" for each in snapshots], pa.string()))
    fresh = [snapshots[row] for row in np.flatnonzero(~known_paths.among(lists, earlier.lists))]
    allowance.take(len(fresh))
    _, metadata_folder = table_folders.folders(table)
    beside = reachable_files.table_files(table.metadata, table.metadata_location, metadata_folder)
    listed = listed_manifests.read(table.io, fresh)
    digests = hash64.text_digests(listed["path"].combine_chunks())
    unread = listed.filter(pa.array(~known_paths.among(digests, earlier.manifests)))
    allowance.take(unread.num_rows)
    parts = [beside, reachable_files.manifest_lists(snapshots), reachable_files.manifest_files(listed)]
    folders, reader = set(earlier.folders), linked_folders.FolderReader()
    for batch in itertools.chain(parts, reachable_files.content_files(table.io, unread)):
        folders |= reader.read(batch["path"]).reached
    return Reach(
        folders=outer_folders.few(folders), lists=np.unique(lists), manifests=np.union1d(earlier.manifests, digests)
    )


def overlap(one: Iterable[str], other: Iterable[str]) -> bool:
    """Whether any two of the folders are one, or one inside the other."""
    theirs = tuple(other)
    return any(path_forms.overlap(mine, each) for mine in one for each in theirs)
