"""Removes files that no snapshot can reach. The caller knows that they are its own and that their commit surely did not
land; this module only deletes, and says what it could not delete."""

from __future__ import annotations

import concurrent.futures
import logging
from typing import TYPE_CHECKING

from iceberg_compaction.catalog import run_watch
from iceberg_compaction.storage import passing_faults

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.io import FileIO

_log = logging.getLogger(__name__)
_THREADS = 8  # object stores answer one delete in tens of milliseconds


def sweep(io: FileIO, paths: Iterable[str]) -> tuple[str, ...]:
    """Delete the files; those that are gone already count as deleted. Returns the paths that could not be removed."""
    wanted = tuple(dict.fromkeys(paths))
    if not wanted:
        return ()
    with concurrent.futures.ThreadPoolExecutor(min(_THREADS, len(wanted))) as pool:
        removed = pool.map(lambda path: _remove(io, path), wanted)
        return tuple(path for path, gone in zip(wanted, removed, strict=True) if not gone)


def _remove(io: FileIO, path: str) -> bool:
    try:
        passing_faults.patiently(lambda: io.delete(path))
    except FileNotFoundError:
        return True
    except Exception as error:  # noqa: BLE001 - whatever a file store raises must not hide why we are cleaning up
        _log.warning("%s could not be removed: %s", path, type(error).__name__)
        run_watch.tell_left(path)
        return False
    return True
