"""All files below a folder, page by page, through a table's FileIO: however many there are, few are in memory. Paths
go out in the form in which the folder was given. S3 is listed by plain requests, a thousand objects at a time, whose
answers also tell the store's own time; local folders by the kernel; all other stores folder by folder."""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlparse

import pyarrow as pa
from pyarrow import fs

from iceberg_compaction import errors
from iceberg_compaction.model.listing_task import FolderPart
from iceberg_compaction.storage import (
    exact_paths,
    passing_faults,
    redact,
    request_counts,
    store_trouble,
    translate,
    vended_credentials,
)
from iceberg_compaction.storage.s3 import bucket_requests, object_files
from iceberg_compaction.storage.tree import local_files

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO

    from iceberg_compaction.storage.s3 import plain_requests
    from iceberg_compaction.storage.tree.local_files import Knows

PAGE = local_files.PAGE
_ROWS = 8192  # of a page
WHOLE = FolderPart()


@dataclass(slots=True, kw_only=True)
class StoreTime:
    """The time by the store's own clock, as far as a listing has told it."""

    now_ms: int | None = None

    def notice(self, date: str | None) -> None:
        try:
            self.now_ms = None if not date else int(parsedate_to_datetime(date).timestamp() * 1000)
        except ValueError:
            self.now_ms = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ListingWay:
    """How a folder is listed."""

    kind: Literal["local", "objects", "arrow", "fsspec"]
    scheme: str = ""
    authority: str = ""
    root: str = ""  # the folder as the file system has it


def way_to(io: FileIO, folder: str) -> ListingWay:
    """UnsupportedError: the table's FileIO cannot list, or not exactly there."""
    current = io.current if isinstance(io, vended_credentials.LastingIO) else io
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(current).__mro__}
    if "pyiceberg.io.pyarrow.PyArrowFileIO" in kinds:
        exact_paths.exact(current)
        scheme, authority, root = current.parse_location(folder, current.properties)  # type: ignore[attr-defined]
        if scheme == "file":
            return ListingWay(kind="local", root=root)
        if object_files.bucket_of(current, folder) is not None:
            return ListingWay(kind="objects", root=root.partition("/")[2])
        return ListingWay(kind="arrow", scheme=scheme, authority=authority, root=root)
    if "pyiceberg.io.fsspec.FsspecFileIO" in kinds:
        exact_paths.exact(current).new_input(folder)  # refuses what would be another folder
        return ListingWay(kind="fsspec")
    raise errors.UnsupportedError(f"The table's FileIO {type(current).__name__} cannot list the files in {folder}.")


def walk(io: FileIO, folder: str, time: StoreTime, knows: Knows | None = None) -> Iterator[pa.RecordBatch]:
    """Pages of all files anywhere below the folder, in no order. A folder that is not there is empty. `knows`: which
    files need neither size nor time; a local disk has those in another place than the names.
    UnsupportedError: the table's FileIO cannot list, or not exactly there."""
    return walk_part(io, folder, WHOLE, time, knows)


def walk_part(
    io: FileIO, folder: str, part: FolderPart, time: StoreTime, knows: Knows | None = None
) -> Iterator[pa.RecordBatch]:
    """The same for a part of the folder. Paths go out as if all of the folder had been listed."""
    folder = folder.rstrip("/")
    pages = _pages(io, folder, part, time, knows)
    while True:
        try:
            page = next(pages, None)
        except FileNotFoundError:
            return
        except OSError as error:
            raise explain(error, folder, io) from error
        if page is None:
            return
        yield page


def explain(error: OSError, folder: str, io: FileIO) -> errors.CompactionError:
    """Our error for one of the store of a folder."""
    trouble = store_trouble.explain_io(error, folder, io)
    return trouble or translate.storage_error(error, folder, redact.secrets_of(io.properties))


def _pages(io: FileIO, folder: str, part: FolderPart, time: StoreTime, knows: Knows | None) -> Iterator[pa.RecordBatch]:
    way = way_to(io, folder)
    match way.kind:
        case "local":
            return local_files.walk(folder, way.root, part, knows)
        case "objects":
            return _objects(io, folder, way.root, part, time)
        case "arrow":
            return _arrow(io, folder, (way.scheme, way.authority, way.root), part)
        case "fsspec":
            return _fsspec(io, folder, part)


def has_part(io: FileIO, folder: str, part: FolderPart) -> bool:
    """Whether a part of the folder can be seen from here. Object stores are the same from everywhere."""
    way = way_to(io, folder.rstrip("/"))
    return way.kind != "local" or os.path.isdir(way.root + part.below)


def confirmed(io: FileIO, folder: str, page: pa.RecordBatch) -> pa.RecordBatch:
    """Files that another machine has listed, as they are from here: a path on a local disk may be another file there.
    Those that are not here are left out."""
    folder = folder.rstrip("/")
    way = way_to(io, folder)
    if way.kind != "local":
        return page
    rows = _Rows()
    for path, opaque in zip(page["path"].to_pylist(), page["opaque"].to_pylist(), strict=True):
        try:
            status = os.stat(way.root + path[len(folder) :], follow_symlinks=False)
        except (OSError, ValueError):  # not here; or an odd name, which could not be removed, either
            continue
        is_odd = opaque or not stat.S_ISREG(status.st_mode)
        size, modified_ms = (None, None) if is_odd else (status.st_size, status.st_mtime_ns // 1_000_000)
        rows.paths.append(path)
        rows.sizes.append(size)
        rows.modified.append(modified_ms)
        rows.opaque.append(is_odd)
    return rows.take()


class _Rows:
    """Rows that become pages."""

    def __init__(self) -> None:
        self.paths: list[str] = []
        self.sizes: list[int | None] = []
        self.modified: list[int | None] = []
        self.opaque: list[bool] = []

    def full(self) -> bool:
        return len(self.paths) >= _ROWS

    def take(self) -> pa.RecordBatch:
        columns = (self.paths, self.sizes, self.modified, self.opaque)
        page = pa.record_batch([pa.array(c, f.type) for c, f in zip(columns, PAGE, strict=True)], schema=PAGE)
        self.__init__()  # type: ignore[misc]
        return page

    def add(self, path: str, size: int | None, modified_ms: int | None, opaque: bool = False) -> None:
        self.paths.append(path)
        self.sizes.append(size or 0)
        self.modified.append(modified_ms)
        self.opaque.append(opaque)


def object_page(io: FileIO, folder: str, wanted: bucket_requests.ObjectsToList) -> bucket_requests.ObjectPage:
    """One page of objects in the bucket of the folder."""
    page: bucket_requests.ObjectPage = using(
        io, lambda current: bucket_requests.list_objects(_bucket(current, folder), wanted)
    )
    return page


def _objects(io: FileIO, folder: str, root: str, part: FolderPart, time: StoreTime) -> Iterator[pa.RecordBatch]:
    token: str | None = None
    prefix = f"{root}/"
    while True:
        wanted = bucket_requests.ObjectsToList(prefix=f"{root}{part.below}/", deep=part.deep, token=token)
        page = object_page(io, folder, wanted)
        time.notice(page.date)
        rows = _Rows()
        for each in page.objects:
            if not each.key.endswith("/"):  # a folder, as consoles make them
                rows.add(f"{folder}/{each.key.removeprefix(prefix)}", each.size, each.modified_ms)
        yield rows.take()
        token = page.next_token
        if token is None:
            return


def _bucket(io: FileIO, folder: str) -> plain_requests.Bucket:
    bucket = object_files.bucket_of(io, folder)
    if bucket is None:
        raise errors.UnreachableError(f"The store of {folder} can no longer be listed; try again.")
    return bucket


def using(io: FileIO, act: Any) -> Any:
    if isinstance(io, vended_credentials.LastingIO):
        return passing_faults.patiently(lambda: io.using(act))
    return passing_faults.patiently(lambda: act(io))


def arrow_entries(io: FileIO, scheme: str, authority: str, path: str) -> list[fs.FileInfo]:
    """What lies in one folder."""

    def list_one(current: Any) -> list[fs.FileInfo]:
        infos: list[fs.FileInfo] = current.fs_by_scheme(scheme, authority).get_file_info(fs.FileSelector(path))
        if exact_paths.has_objects(scheme):
            request_counts.count_listing(current, len(infos))
        return infos

    entries: list[fs.FileInfo] = using(io, list_one)
    return entries


def _arrow(io: FileIO, folder: str, parsed: tuple[str, str, str], part: FolderPart = WHOLE) -> Iterator[pa.RecordBatch]:
    scheme, authority, root = parsed
    rows, waiting = _Rows(), [root + part.below]
    while waiting:
        for info in arrow_entries(io, scheme, authority, waiting.pop()):
            if info.type == fs.FileType.Directory:
                if part.deep:
                    waiting.append(info.path)
            else:
                modified = None if info.mtime_ns is None else info.mtime_ns // 1_000_000
                rows.add(folder + _below(root, info.path), info.size, modified, info.type != fs.FileType.File)
        if rows.full():
            yield rows.take()
    yield rows.take()


def _fsspec(io: FileIO, folder: str, part: FolderPart) -> Iterator[pa.RecordBatch]:
    def open_store(current: Any) -> Any:
        store = current._get_fs_from_uri(urlparse(folder), folder)
        store.invalidate_cache()
        return store

    root = using(io, open_store)._strip_protocol(folder).rstrip("/")
    rows, waiting = _Rows(), [root + part.below]
    while waiting:
        here = waiting.pop()
        for info in using(io, lambda current, here=here: open_store(current).ls(here, detail=True)):
            if info["name"].rstrip("/") == here:
                continue
            if info["type"] == "directory":
                if part.deep:
                    waiting.append(info["name"].rstrip("/"))
            else:
                rows.add(folder + _below(root, info["name"]), info.get("size"), _modified(info), info["type"] != "file")
        if rows.full():
            yield rows.take()
    yield rows.take()


def _modified(info: Any) -> int | None:
    """Every store has its own word for it."""
    for key in ("mtime", "LastModified", "last_modified", "updated"):
        value = info.get(key)
        if isinstance(value, datetime):
            return int(value.timestamp() * 1000)
        if isinstance(value, int | float):
            return int(value * 1000)
    return None


def _below(root: str, path: str) -> str:
    if not path.startswith(f"{root}/"):
        raise errors.MetadataError(f"The file store lists {path} below {root}, where it is not.")
    return path.removeprefix(root)
