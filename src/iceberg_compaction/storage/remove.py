"""The only module that deletes files of a table. Paths come in together with the proof that no snapshot needs them; the
paths that could not be removed go out, so that the caller can record them."""

from __future__ import annotations

import concurrent.futures
import enum
import logging
import time
from typing import TYPE_CHECKING

from iceberg_compaction.storage import exact_paths, passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

_log = logging.getLogger(__name__)
_THREADS = 8  # object stores answer one delete in tens of milliseconds
# A local disk removes a file in less time than a thread takes to be told of it, but a folder may also be of a network.
_TRIED, _AT_ONCE = 8, 0.0002  # files that are removed to find out, and seconds for each


class RemovalProof(enum.Enum):
    """Why a file may be deleted. An unknown commit state is no proof of anything."""

    NEVER_SENT = "this process wrote it and never sent it to a catalog"
    NOT_COMMITTED = "its commit surely did not land"
    RUN_OVER = "its run is over, no commit of it can land, and no snapshot refers to it"
    LEFT_LOG = "a commit that landed moved it out of the metadata log, and the table asks for its removal"
    EXPIRED = "only snapshots that have expired needed it, and nothing that the table still has refers to it"
    ORPHAN = "nothing of the table refers to it, and it is older than any unfinished write can be"
    RESTORED = "it is a copy in quarantine, and the file is back at its own path"


def remove_files(io: FileIO, paths: Iterable[str], proof: RemovalProof) -> tuple[str, ...]:
    """Delete the files, and return the paths that could not be removed. A file that is gone already counts as removed.
    Nothing is raised for a file: an error here must not hide the reason for the removal."""
    doomed = tuple(dict.fromkeys(paths))
    tried = len(doomed) if len(doomed) <= 1 else 0 if exact_paths.is_remote(doomed[0]) else _TRIED
    started = time.monotonic()
    left = _left(io, doomed[:tried], proof)
    if time.monotonic() - started < _AT_ONCE * tried:
        return (*left, *_left(io, doomed[tried:], proof))
    return (*left, *_side_by_side(io, doomed[tried:], proof))


def _side_by_side(io: FileIO, doomed: tuple[str, ...], proof: RemovalProof) -> list[str]:
    threads = min(_THREADS, len(doomed))
    if not threads:
        return []
    shares = [doomed[number::threads] for number in range(threads)]
    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        return [path for left in pool.map(lambda share: _left(io, share, proof), shares) for path in left]


def _left(io: FileIO, paths: Iterable[str], proof: RemovalProof) -> list[str]:
    return [path for path in paths if not _remove(io, path, proof)]


def _remove(io: FileIO, path: str, proof: RemovalProof) -> bool:
    try:
        passing_faults.patiently(lambda: io.delete(path))
    except FileNotFoundError:
        return True
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind
        _log.warning("%s could not be removed (%s): %s", path, proof.value, type(error).__name__)
        return False
    return True
