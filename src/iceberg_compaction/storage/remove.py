"""The only module that deletes files of a table. Paths come in together with the proof that no snapshot needs them; the
paths that could not be removed go out, so that the caller can record them."""

from __future__ import annotations

import concurrent.futures
import enum
import logging
from typing import TYPE_CHECKING

from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

_log = logging.getLogger(__name__)
_THREADS = 8  # object stores answer one delete in tens of milliseconds


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
    if len(doomed) <= 1:
        return tuple(path for path in doomed if not _remove(io, path, proof))
    with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(doomed))) as pool:
        removed = pool.map(lambda path: _remove(io, path, proof), doomed)
        return tuple(path for path, gone in zip(doomed, removed, strict=True) if not gone)


def _remove(io: FileIO, path: str, proof: RemovalProof) -> bool:
    try:
        passing_faults.patiently(lambda: io.delete(path))
    except FileNotFoundError:
        return True
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind
        _log.warning("%s could not be removed (%s): %s", path, proof.value, type(error).__name__)
        return False
    return True
