"""What lies in a folder, through a table's FileIO. A folder comes in; paths go out in the form in which the folder was
given, so that they can be compared with the table's own and deleted by the same FileIO."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from iceberg_compaction import errors
from iceberg_compaction.storage import (
    exact_paths,
    file_names,
    passing_faults,
    redact,
    request_counts,
    store_trouble,
    translate,
    vended_credentials,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.io import FileIO


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A file in storage."""

    path: str
    modified: float | None  # in seconds, by the clock of the store; None: it does not say

    @property
    def name(self) -> str:
        return file_names.base_name(self.path)


def list_files(io: FileIO, folder: str, is_wanted: Callable[[str], bool]) -> list[Listed]:
    """The files anywhere below the folder whose names are wanted. A folder that is not there is empty;
    UnsupportedError: the table's FileIO cannot list, or not exactly there."""
    folder = folder.rstrip("/")
    try:
        files = passing_faults.patiently(lambda: _find(io, folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        trouble = store_trouble.explain_io(error, folder, io)
        raise trouble or translate.storage_error(error, folder, redact.secrets_of(io.properties)) from error
    wanted = sorted((path, modified) for path, modified in files if is_wanted(file_names.base_name(path)))
    return [Listed(path=folder + path, modified=modified) for path, modified in wanted]


def _find(io: FileIO, folder: str) -> list[tuple[str, float | None]]:
    """Paths below the folder, each beginning with a slash, and when they were written. Stores with prefixes list all of
    them at once, whatever lies between."""
    if isinstance(io, vended_credentials.LastingIO):
        return io.using(lambda current: _find(current, folder))
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(io).__mro__}
    if "pyiceberg.io.pyarrow.PyArrowFileIO" in kinds:
        return _find_with_arrow(io, folder)
    if "pyiceberg.io.fsspec.FsspecFileIO" in kinds:
        return _find_with_fsspec(io, folder)
    raise errors.UnsupportedError(f"The table's FileIO {type(io).__name__} cannot list the files in {folder}.")


def _find_with_arrow(io: Any, folder: str) -> list[tuple[str, float | None]]:
    from pyarrow import fs

    exact_paths.exact(io)
    scheme, authority, root = io.parse_location(folder, io.properties)
    infos = io.fs_by_scheme(scheme, authority).get_file_info(fs.FileSelector(root, recursive=True))
    files = [info for info in infos if info.type == fs.FileType.File]
    if exact_paths.has_objects(scheme):
        request_counts.count_listing(io, len(infos))
    return [(_below(root, file.path), None if file.mtime_ns is None else file.mtime_ns / 1e9) for file in files]


def _find_with_fsspec(io: Any, folder: str) -> list[tuple[str, float | None]]:
    exact_paths.exact(io).new_input(folder)  # refuses what would be another folder
    store = io._get_fs_from_uri(urlparse(folder), folder)
    store.invalidate_cache()
    root = store._strip_protocol(folder).rstrip("/")
    return [(_below(root, path), _modified(info)) for path, info in store.find(root, detail=True).items()]


def _modified(info: Mapping[str, Any]) -> float | None:
    """Every store has its own word for it."""
    for key in ("mtime", "LastModified", "last_modified", "updated"):
        value = info.get(key)
        if isinstance(value, datetime):
            return value.timestamp()
        if isinstance(value, int | float):
            return float(value)
    return None


def _below(root: str, path: str) -> str:
    if not path.startswith(f"{root}/"):
        raise errors.MetadataError(f"The file store lists {path} below {root}, where it is not.")
    return path.removeprefix(root)
