"""Objects in tiers of a store that cost extra to read, or cannot be read at all before somebody restores them. A FileIO
and paths come in; which of the files are cold goes out. Only S3 is asked, and what it does not say counts as warm: a
task that meets such an object says so."""

from __future__ import annotations

import logging
import re
from concurrent import futures
from typing import TYPE_CHECKING

from iceberg_compaction.storage import vended_credentials
from iceberg_compaction.storage.s3 import bucket_requests, object_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.io import FileIO

CLASSES = frozenset({"GLACIER", "DEEP_ARCHIVE", "GLACIER_IR"})
_REFUSED = re.compile(r"invalid_?object_?state", re.IGNORECASE)
_AT_ONCE = 16
_MOST_PAGES = 100  # of one folder
_log = logging.getLogger(__name__)


def refuses(error: BaseException) -> bool:
    """Whether a store has refused to read an object that must be restored first."""
    return isinstance(error, OSError) and _REFUSED.search(str(error)) is not None


def can_tell(io: FileIO, location: str) -> bool:
    """Whether the store of a file is one that can be asked."""
    return object_files.bucket_of(_current(io), location) is not None


def of_samples(io: FileIO, locations: Sequence[str]) -> list[bool]:
    """Whether each of these files is cold: a request for each."""
    with futures.ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="cold") as pool:
        return list(pool.map(lambda location: _is_cold(io, location), locations))


def in_folder(io: FileIO, folder: str) -> set[str]:
    """The cold files in a folder itself: a request for each thousand of its files."""
    bucket = object_files.bucket_of(_current(io), folder)
    cold: set[str] = set()
    if bucket is None:
        return cold
    prefix = f"{folder.partition('://')[2].partition('/')[2]}/"
    token: str | None = None
    for _ in range(_MOST_PAGES):
        wanted = bucket_requests.ObjectsToList(prefix=prefix, deep=False, token=token)
        try:
            page = bucket_requests.list_objects(bucket, wanted)
        except OSError as error:
            _log.info("The storage classes in %s are not known: %s", folder, error)
            break
        cold.update(
            f"{folder}/{each.key.removeprefix(prefix)}" for each in page.objects if each.storage_class in CLASSES
        )
        token = page.next_token
        if token is None:
            break
    return cold


def _is_cold(io: FileIO, location: str) -> bool:
    try:
        facts = object_files.facts_of(_current(io), location)
    except OSError:
        return False
    if facts.get("x-amz-archive-status"):  # Intelligent-Tiering: a listing does not say it
        return True
    return facts.get("x-amz-storage-class", "") in CLASSES


def _current(io: FileIO) -> FileIO:
    return io.current if isinstance(io, vended_credentials.LastingIO) else io
