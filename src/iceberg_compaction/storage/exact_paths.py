"""A path is opened, written, listed and removed exactly as it stands in metadata (R52). PyIceberg's FileIO takes paths
for URIs, which end at `#` and `?`; HTTP clients resolve `..`: what remains may be the path of another file. So paths
are split here, and those that a file store would change on the way are refused."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.storage.clouds import gcs_client

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.io import FileIO

_URI = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(?://([^/]*))?(.*)", re.DOTALL)
_CUT = re.compile(r"[#?\x00-\x1f\x7f]")  # where URI parsers end a path, or what they leave out
_OPENS = ("new_input", "new_output", "delete")
_HADOOP = ("hdfs", "viewfs")
S3_SCHEMES = ("s3", "s3a", "s3n")
_OBJECT_STORES = (*S3_SCHEMES, "oss", "gs", "gcs", "abfs", "abfss", "wasb", "wasbs", "hf")


def split(location: str) -> tuple[str, str, str]:
    """Scheme, authority and path, nothing left out; scheme and authority may be empty."""
    if match := _URI.fullmatch(location):
        return match[1].lower(), match[2] or "", match[3]
    return "", "", location


def has_objects(scheme: str) -> bool:
    """Whether files of this scheme are objects, which cost requests."""
    return scheme in _OBJECT_STORES


def is_remote(location: str) -> bool:
    """Whether a request goes out for the file, which takes its time, whatever the store is."""
    return split(location)[0] not in ("", "file")


def exact(io: FileIO) -> FileIO:
    """The same FileIO, except that it takes paths as they are. UnsupportedError comes from it for those that would be
    changed by it or below it."""
    from iceberg_compaction.storage.s3 import object_files

    if hasattr(io, "parse_location"):  # PyArrow's: everything goes through there, and file systems get the rest
        vars(io)["parse_location"] = _parse_location
        gcs_client.limit_waits(io)
        object_files.install(io)
        return io
    for name in _OPENS:  # others have ways of their own with odd characters
        vars(io)[name] = _guarded(getattr(type(io), name).__get__(io), type(io).__name__)
    return io


def _parse_location(location: str, properties: Mapping[str, str] | None = None) -> tuple[str, str, str]:
    """Replaces PyArrowFileIO.parse_location."""
    if reason := _changed(location):
        raise errors.UnsupportedError(f"The path {location!r} {reason}.")
    scheme, authority, path = split(location)
    if not scheme:
        defaults = properties or {}
        return defaults.get("DEFAULT_SCHEME", "file"), defaults.get("DEFAULT_NETLOC", ""), path
    return scheme, authority, path if scheme in _HADOOP else f"{authority}{path}"


def _guarded(opens: Callable[[Any], Any], name: str) -> Callable[[Any], Any]:
    def guarded(location: Any) -> Any:
        text = location if isinstance(location, str) else location.location
        reason = _changed(text)
        if reason is None and (match := _CUT.search(text)):
            reason = f"has {match[0]!r} in it, where {name} may cut it"
        if reason:
            raise errors.UnsupportedError(f"The path {text!r} {reason}.")
        return opens(location)

    return guarded


def _changed(location: str) -> str | None:
    """The reason why every file store would change a path; None: no store would."""
    scheme, authority, path = split(location)
    if _CUT.search(authority):
        return "has a bucket or host that is none"
    if not scheme and not path.startswith("/"):
        return "is relative, so that it depends on who reads it"
    if scheme == "file" and (authority or not path.startswith("/")):
        return "names a host where a file on this machine is meant; write it like file:///folder"
    if path.endswith("/"):
        return "ends in a slash, which file stores leave out"
    if scheme not in _OBJECT_STORES:
        return None  # kernels and name nodes know folders
    if not authority:
        return f"names no bucket; write it like {scheme}://bucket/folder"
    parts = path.split("/")[1:]
    if "." in parts or ".." in parts:
        return "has a '.' or '..' in it, which HTTP clients resolve to another path"
    if "" in parts:
        return "has two slashes in a row, which file stores take for one or refuse"
    return None


def unfit(location: str, table_location: str) -> str | None:
    """Why new files must not get such a path, although it might be possible to write them: somebody who reads the table
    would look elsewhere. None: they may."""
    if reason := _changed(location):
        return reason
    if match := _CUT.search(location):
        return f"has {match[0]!r} in it, where readers that take paths for URIs cut it"
    if split(table_location)[0] and not split(location)[0]:
        return "has no scheme, so that it depends on who reads it"
    return None


def check_new(location: str, table_location: str) -> str:
    """The path of a new file. UnsupportedError: readers would look for it elsewhere."""
    if reason := unfit(location, table_location):
        raise errors.UnsupportedError(f"A new file cannot be placed at {location!r}: the path {reason}.")
    return location
