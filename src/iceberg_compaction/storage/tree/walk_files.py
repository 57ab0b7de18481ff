"""All files below a folder, page by page, through a table's FileIO: however many there are, few are in memory. Paths
go out in the form in which the folder was given. S3 is listed by plain requests, a thousand objects at a time, whose
answers also tell the store's own time; local folders by the kernel; all other stores folder by folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import fs

from iceberg_compaction import errors
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

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import numpy as np
    import numpy.typing as npt
    from pyiceberg.io import FileIO

    from iceberg_compaction.storage.s3 import plain_requests

PAGE = pa.schema(
    [
        pa.field("path", pa.string(), nullable=False),
        pa.field("size", pa.int64()),  # null: nobody asked for it
        pa.field("modified_ms", pa.int64()),  # by the clock of the store; null: it does not say, or nobody asked
        pa.field("opaque", pa.bool_(), nullable=False),  # a link, or a name that is no text: not to be judged
    ]
)
_ROWS = 8192  # of a page
_GONE = -1  # the size of a file that left
Knows: TypeAlias = "Callable[[pa.Array], npt.NDArray[np.bool_]]"


@dataclass(slots=True, kw_only=True)
class StoreTime:
    """The time by the store's own clock, as far as a listing has told it."""

    now_ms: int | None = None

    def notice(self, date: str | None) -> None:
        try:
            self.now_ms = None if not date else int(parsedate_to_datetime(date).timestamp() * 1000)
        except ValueError:
            self.now_ms = None


def walk(io: FileIO, folder: str, time: StoreTime, knows: Knows | None = None) -> Iterator[pa.RecordBatch]:
    """Pages of all files anywhere below the folder, in no order. A folder that is not there is empty. `knows`: which
    files need neither size nor time; a local disk has those in another place than the names.
    UnsupportedError: the table's FileIO cannot list, or not exactly there."""
    folder = folder.rstrip("/")
    pages = _pages(io, folder, time, knows)
    while True:
        try:
            page = next(pages, None)
        except FileNotFoundError:
            return
        except OSError as error:
            trouble = store_trouble.explain_io(error, folder, io)
            raise trouble or translate.storage_error(error, folder, redact.secrets_of(io.properties)) from error
        if page is None:
            return
        yield page


def _pages(io: FileIO, folder: str, time: StoreTime, knows: Knows | None) -> Iterator[pa.RecordBatch]:
    current = io.current if isinstance(io, vended_credentials.LastingIO) else io
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(current).__mro__}
    if "pyiceberg.io.pyarrow.PyArrowFileIO" in kinds:
        exact_paths.exact(current)
        scheme, authority, root = current.parse_location(folder, current.properties)  # type: ignore[attr-defined]
        if scheme == "file":
            return _local(folder, root, knows)
        bucket = object_files.bucket_of(current, folder)
        if bucket is not None:
            return _objects(io, folder, f"{root.partition('/')[2]}/", time)
        return _arrow(io, folder, (scheme, authority, root))
    if "pyiceberg.io.fsspec.FsspecFileIO" in kinds:
        exact_paths.exact(current).new_input(folder)  # refuses what would be another folder
        return _fsspec(io, folder)
    raise errors.UnsupportedError(f"The table's FileIO {type(current).__name__} cannot list the files in {folder}.")


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


def _local(folder: str, root: str, knows: Knows | None) -> Iterator[pa.RecordBatch]:
    """Links are not followed: they may lead out of the folder, or back into it."""
    rows = _Rows()
    waiting = [(root, folder)]
    while waiting:
        here, shown = waiting.pop()
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    path = f"{shown}/{entry.name}"
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append((entry.path, path))
                        continue
                    text = path if path.isascii() else path.encode(errors="replace").decode()
                    rows.paths.append(text)
                    rows.opaque.append(text != path or not entry.is_file(follow_symlinks=False))
        except FileNotFoundError:
            continue  # it left meanwhile, or there never was such a folder
        except NotADirectoryError:
            raise errors.UnsupportedError(f"{shown} is no folder.") from None
        if rows.full():
            yield _with_status(rows, folder, root, knows)
    yield _with_status(rows, folder, root, knows)


def _with_status(rows: _Rows, folder: str, root: str, knows: Knows | None) -> pa.RecordBatch:
    """The page, with sizes and times of the files that are not known. Files that left meanwhile are not in it."""
    spared = [False] * len(rows.paths) if knows is None else knows(pa.array(rows.paths, pa.string())).tolist()
    gone = False
    for path, opaque, is_spared in zip(rows.paths, rows.opaque, spared, strict=True):
        size, modified_ms = None, None
        if not opaque and not is_spared:
            try:
                status = os.stat(root + path[len(folder) :], follow_symlinks=False)
                size, modified_ms = status.st_size, status.st_mtime_ns // 1_000_000
            except FileNotFoundError:
                size, gone = _GONE, True
        rows.sizes.append(size)
        rows.modified.append(modified_ms)
    page = rows.take()
    return page.filter(pc.fill_null(pc.not_equal(page["size"], _GONE), True)) if gone else page


def _objects(io: FileIO, folder: str, prefix: str, time: StoreTime) -> Iterator[pa.RecordBatch]:
    token: str | None = None
    while True:
        page = _using(
            io, lambda current, token=token: bucket_requests.list_objects(_bucket(current, folder), prefix, token)
        )
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


def _using(io: FileIO, act: Any) -> Any:
    if isinstance(io, vended_credentials.LastingIO):
        return passing_faults.patiently(lambda: io.using(act))
    return passing_faults.patiently(lambda: act(io))


def _arrow(io: FileIO, folder: str, parsed: tuple[str, str, str]) -> Iterator[pa.RecordBatch]:
    scheme, authority, root = parsed

    def list_one(current: Any, path: str) -> list[fs.FileInfo]:
        infos: list[fs.FileInfo] = current.fs_by_scheme(scheme, authority).get_file_info(fs.FileSelector(path))
        if exact_paths.has_objects(scheme):
            request_counts.count_listing(current, len(infos))
        return infos

    rows, waiting = _Rows(), [root]
    while waiting:
        here = waiting.pop()
        for info in _using(io, lambda current, here=here: list_one(current, here)):
            if info.type == fs.FileType.Directory:
                waiting.append(info.path)
            else:
                modified = None if info.mtime_ns is None else info.mtime_ns // 1_000_000
                rows.add(folder + _below(root, info.path), info.size, modified, info.type != fs.FileType.File)
        if rows.full():
            yield rows.take()
    yield rows.take()


def _fsspec(io: FileIO, folder: str) -> Iterator[pa.RecordBatch]:
    def open_store(current: Any) -> Any:
        store = current._get_fs_from_uri(urlparse(folder), folder)
        store.invalidate_cache()
        return store

    root = _using(io, open_store)._strip_protocol(folder).rstrip("/")
    rows, waiting = _Rows(), [root]
    while waiting:
        here = waiting.pop()
        for info in _using(io, lambda current, here=here: open_store(current).ls(here, detail=True)):
            if info["name"].rstrip("/") == here:
                continue
            if info["type"] == "directory":
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
