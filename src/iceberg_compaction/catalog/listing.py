"""What lies in a folder, through a table's FileIO. A folder and runs come in; paths go out in the form in
which the folder was given, so that they can be compared with the table's own and deleted by the same FileIO."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

from iceberg_compaction import errors
from iceberg_compaction.catalog import exact, patience, redact, run_names, translate, vended

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO


def list_files(io: FileIO, folder: str, run_ids: Sequence[str]) -> list[str]:
    """The files anywhere below the folder that one of the runs wrote, as their names say. A folder that is not there is
    empty; UnsupportedError: the table's FileIO cannot list, or not exactly there."""
    folder = folder.rstrip("/")
    try:
        found = patience.patiently(lambda: _find(io, folder))
    except FileNotFoundError:
        return []
    except OSError as error:
        raise translate.storage_error(error, folder, redact.secrets_of(io.properties)) from error
    marks = [mark for run_id in run_ids for mark in run_names.marks(run_id)]
    ours = [path for path in found if any(mark in path.rpartition("/")[2] for mark in marks)]
    return sorted(folder + path for path in ours)


def _find(io: FileIO, folder: str) -> list[str]:
    """Paths below the folder, each beginning with a slash. Stores with prefixes list all of them at once, whatever
    lies between."""
    if isinstance(io, vended.LastingIO):
        return io.using(lambda current: _find(current, folder))
    kinds = {f"{kind.__module__}.{kind.__name__}" for kind in type(io).__mro__}
    if "pyiceberg.io.pyarrow.PyArrowFileIO" in kinds:
        return _find_with_arrow(io, folder)
    if "pyiceberg.io.fsspec.FsspecFileIO" in kinds:
        return _find_with_fsspec(io, folder)
    raise errors.UnsupportedError(f"The table's FileIO {type(io).__name__} cannot list the files in {folder}.")


def _find_with_arrow(io: Any, folder: str) -> list[str]:
    from pyarrow import fs

    exact.exact(io)
    scheme, authority, root = io.parse_location(folder, io.properties)
    infos = io.fs_by_scheme(scheme, authority).get_file_info(fs.FileSelector(root, recursive=True))
    return [_below(root, info.path) for info in infos if info.type == fs.FileType.File]


def _find_with_fsspec(io: Any, folder: str) -> list[str]:
    exact.exact(io).new_input(folder)  # refuses what would be another folder
    store = io._get_fs_from_uri(urlparse(folder), folder)
    store.invalidate_cache()
    root = store._strip_protocol(folder).rstrip("/")
    return [_below(root, path) for path in store.find(root)]


def _below(root: str, path: str) -> str:
    if not path.startswith(f"{root}/"):
        raise errors.MetadataError(f"The file store lists {path} below {root}, where it is not.")
    return path.removeprefix(root)
