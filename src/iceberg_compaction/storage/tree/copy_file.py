"""A file at another path of the same FileIO: never over an existing file, and its size is checked. Local files get a
second name, objects are copied inside their store, and whatever cannot do either is read and written."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from iceberg_compaction.storage import exact_paths, passing_faults, vended_credentials
from iceberg_compaction.storage.s3 import bucket_requests, object_files

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

_CHUNK = 8 * 2**20  # bytes


def copy(io: FileIO, source: str, target: str, size: int) -> None:
    """Make a copy of a file of so many bytes. FileExistsError: the target is there. OSError: the copy is not right."""
    if isinstance(io, vended_credentials.LastingIO):
        io.using(lambda current: copy(current, source, target, size))
        return
    if not (_link(io, source, target) or _copy_inside_s3(io, source, target, size)):
        _copy_through(io, source, target)
    written = passing_faults.patiently(lambda: len(io.new_input(target)))
    if written != size:
        raise OSError(f"The copy of {source} has {written} bytes, not {size}")


def is_same(io: FileIO, one: str, other: str) -> bool:
    """Whether two files of one size have the same content."""
    if isinstance(io, vended_credentials.LastingIO):
        return bool(io.using(lambda current: is_same(current, one, other)))
    paths = [_local_path(io, each) for each in (one, other)]
    if paths[0] is not None and paths[1] is not None and Path(paths[0]).samefile(paths[1]):
        return True
    with io.new_input(one).open() as left, io.new_input(other).open() as right:
        while part := left.read(_CHUNK):
            if part != right.read(len(part)):
                return False
    return True


def _link(io: FileIO, source: str, target: str) -> bool:
    """Whether a local file has got a second name. The name it has goes later, so that it is never without one."""
    paths = [_local_path(io, each) for each in (source, target)]
    if paths[0] is None or paths[1] is None:
        return False
    Path(paths[1]).parent.mkdir(parents=True, exist_ok=True)
    try:
        os.link(paths[0], paths[1], follow_symlinks=False)
    except (FileExistsError, FileNotFoundError):
        raise
    except OSError:  # another disk, or a file system without links
        return False
    return True


def _local_path(io: Any, location: str) -> str | None:
    if not hasattr(io, "parse_location"):
        return None
    scheme, _, path = exact_paths.exact(io).parse_location(location, io.properties)  # type: ignore[attr-defined]
    return path if scheme == "file" else None


def _copy_inside_s3(io: FileIO, source: str, target: str, size: int) -> bool:
    """Whether the store has copied the object."""
    scheme, bucket_name, key = exact_paths.split(source)
    target_scheme, _, target_key = exact_paths.split(target)
    is_s3 = scheme in exact_paths.S3_SCHEMES and target_scheme in exact_paths.S3_SCHEMES
    if not is_s3 or size > bucket_requests.LARGEST_COPY:
        return False
    bucket = object_files.bucket_of(io, target)
    if bucket is None:
        return False
    if io.new_input(target).exists():  # not every store heeds the condition
        raise FileExistsError(f"Cannot create file, already exists: {target}")
    bucket_requests.copy_object(bucket, bucket_name, key.removeprefix("/"), target_key.removeprefix("/"))
    return True


def _copy_through(io: FileIO, source: str, target: str) -> None:
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(io.new_input(source).open())
        writer = stack.enter_context(io.new_output(target).create(overwrite=False))
        shutil.copyfileobj(reader, writer, _CHUNK)
