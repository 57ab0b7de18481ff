"""Cuts folders into parts that can be listed side by side. A folder comes in; parts of it go out that have every file
below it once: folders with all that is below them, and the few files between. Only folders are listed for that."""

from __future__ import annotations

import os
from concurrent import futures
from typing import TYPE_CHECKING
from urllib.parse import urlparse

from pyarrow import fs

from iceberg_compaction.model.listing_task import FolderPart
from iceberg_compaction.storage.s3 import bucket_requests
from iceberg_compaction.storage.tree import walk_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_AT_ONCE = 16
_DEEPEST = 12  # folders within one another
_MOST_FILES = 5000  # of a folder that is cut; one with more is listed as it is
_MOST_FOLDERS = 100_000


def cut(io: FileIO, folder: str, wanted: int) -> list[FolderPart]:
    """At least so many parts, if there are as many folders."""
    folder = folder.rstrip("/")
    parts: list[FolderPart] = []
    frontier = [""]
    with futures.ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="cut") as pool:
        for _ in range(_DEEPEST):
            if not frontier or len(parts) + len(frontier) >= wanted:
                break
            inner = list(pool.map(lambda below: _folders(io, folder, below), frontier))
            for below, names in zip(frontier, inner, strict=True):
                parts.append(FolderPart(below=below, deep=not names))
            frontier = [name for names in inner for name in names]
    return [*parts, *(FolderPart(below=below) for below in frontier)]


def _folders(io: FileIO, folder: str, below: str) -> list[str]:
    """The folders in one, as they stand below the root. Empty: there are none, or it is better not to cut there."""
    way = walk_files.way_to(io, folder)
    try:
        match way.kind:
            case "local":
                names = _local_names(way.root + below)
            case "objects":
                names = _object_names(io, folder, f"{way.root}{below}/")
            case "arrow":
                infos = walk_files.arrow_entries(io, way.scheme, way.authority, way.root + below)
                names = [info.base_name for info in infos if info.type == fs.FileType.Directory]
            case "fsspec":
                names = _fsspec_names(io, folder, below)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise walk_files.explain(error, folder, io) from error
    # Names that are no text cannot travel.
    fit = all(name.isprintable() or name.encode(errors="replace").decode() == name for name in names)
    return [f"{below}/{name}" for name in names] if fit and len(names) <= _MOST_FOLDERS else []


def _local_names(path: str) -> list[str]:
    with os.scandir(path) as entries:
        return [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]


def _object_names(io: FileIO, folder: str, prefix: str) -> list[str]:
    names: list[str] = []
    files, token = 0, None
    while True:
        wanted = bucket_requests.ObjectsToList(prefix=prefix, deep=False, token=token)
        page = walk_files.object_page(io, folder, wanted)
        names += [each.removeprefix(prefix).removesuffix("/") for each in page.folders]
        files += len(page.objects)
        token = page.next_token
        if token is None:
            return names
        if files > _MOST_FILES or len(names) > _MOST_FOLDERS:
            return []


def _fsspec_names(io: FileIO, folder: str, below: str) -> list[str]:
    def names(current: object) -> list[str]:
        store = current._get_fs_from_uri(urlparse(folder), folder)  # type: ignore[attr-defined]
        store.invalidate_cache()
        here = store._strip_protocol(folder).rstrip("/") + below
        entries = store.ls(here, detail=True)
        folders = [each["name"].rstrip("/") for each in entries if each["type"] == "directory"]
        return [each.rpartition("/")[2] for each in folders if each != here]

    result: list[str] = walk_files.using(io, names)
    return result
