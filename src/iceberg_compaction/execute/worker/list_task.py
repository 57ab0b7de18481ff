"""A task that writes nothing: folders are listed and compared with the hashes of what a table refers to. Files that are
among them are counted, all others come back, for the driver to judge. Nobody is told that there is nothing where a
folder cannot be seen."""

from __future__ import annotations

import io as streams
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.metadata.reach import known_paths
from iceberg_compaction.model import listing_task
from iceberg_compaction.storage import file_io
from iceberg_compaction.storage.tree import walk_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

    from iceberg_compaction.metadata.reach.known_paths import Bools, KnownPaths, Positions
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask


def list_folders(task: RewriteTask, context: RewriteContext) -> listing_task.ListedFolders:
    """List the folders of the task. ExecuteError: not all of them can be seen from here, or too many files would have
    to come back."""
    assert task.folders is not None
    assert context.known_hashes is not None
    io = file_io.open_io(context.io_properties, task.folders.root)
    listing = _Listing(known_paths.of_value(context.known_hashes), context.known_hashes.most_strangers)
    for part in task.folders.parts:
        listing.add(io, task.folders.root, part)
    return listing.result()


class _Listing:
    """Folders under way."""

    def __init__(self, referenced: KnownPaths, most_strangers: int) -> None:
        self._referenced = referenced
        self._most = most_strangers
        self._count, self._bytes = 0, 0
        self._positions: list[Positions] = []
        self._pages: list[pa.RecordBatch] = []
        self._strangers = 0
        self._now_ms: int | None = None
        self._last: tuple[pa.Array, known_paths.PathLookup] | None = None

    def add(self, io: FileIO, root: str, part: listing_task.FolderPart) -> None:
        if not walk_files.has_part(io, root, part):
            raise errors.ExecuteError(f"{root}{part.below} cannot be seen where the task runs.")
        time = walk_files.StoreTime()
        for page in walk_files.walk_part(io, root, part, time, self._has_size):
            if time.now_ms is not None:
                self._now_ms = time.now_ms if self._now_ms is None else min(self._now_ms, time.now_ms)
            if page.num_rows:
                self._take(page)
            if self._strangers > self._most:
                raise errors.ExecuteError(
                    f"{root}{part.below} has more than {self._most:,} files that the table does not refer to."
                )

    def _take(self, page: pa.RecordBatch) -> None:
        lookup = self._look_up(page.column("path"))
        sizes = pc.coalesce(page.column("size"), pa.array(lookup.sizes)).to_numpy()
        self._count += int(lookup.matches.sum())
        self._bytes += int(sizes[lookup.matches].sum())
        self._positions.append(lookup.positions)
        strangers = page.filter(pa.array(~lookup.matches))
        if strangers.num_rows:
            self._pages.append(strangers)
            self._strangers += strangers.num_rows

    def _has_size(self, paths: pa.Array) -> Bools:
        lookup = self._look_up(paths)
        return lookup.matches & (lookup.sizes > 0)

    def _look_up(self, paths: pa.Array) -> known_paths.PathLookup:
        if self._last is None or not self._last[0].equals(paths):
            self._last = (paths, self._referenced.look_up(paths))
        return self._last[1]

    def result(self) -> listing_task.ListedFolders:
        positions = np.unique(np.concatenate(self._positions)) if self._positions else np.zeros(0)
        return listing_task.ListedFolders(
            referenced=self._count,
            referenced_bytes=self._bytes,
            positions=positions.astype("<u4").tobytes(),
            strangers=_packed(self._pages),
            now_ms=self._now_ms,
        )


def _packed(pages: list[pa.RecordBatch]) -> bytes:
    if not pages:
        return b""
    sink = streams.BytesIO()
    options = pa.ipc.IpcWriteOptions(compression="zstd" if pa.Codec.is_available("zstd") else None)
    with pa.ipc.new_stream(sink, walk_files.PAGE, options=options) as writer:
        for page in pages:
            writer.write_batch(page)
    return sink.getvalue()


def strangers(listed: listing_task.ListedFolders) -> list[pa.RecordBatch]:
    """The files that came back."""
    return list(pa.ipc.open_stream(listed.strangers)) if listed.strangers else []


def positions(listed: listing_task.ListedFolders) -> Positions:
    """The hashes that were met."""
    return np.frombuffer(listed.positions, "<u4").astype(np.int64)
