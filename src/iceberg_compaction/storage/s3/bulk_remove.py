"""Many files deleted at a pace: in bulk where the store takes that, else side by side. Batches of paths come in with
their proof; how many are gone and which stay goes out. Nothing is raised for a file."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.storage import remove, vended_credentials
from iceberg_compaction.storage.s3 import object_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pyiceberg.io import FileIO

AT_ONCE = 1000  # S3 takes so many in one request
MOST_NAMED = 100  # paths that stay and are named
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast files are deleted: object stores slow down everybody who uses a prefix if one deletes too fast."""

    per_second: float | None  # None: as fast as the store answers
    clock: Callable[[], int]  # milliseconds
    pause: Callable[[float], None]


@dataclass(slots=True, kw_only=True)
class BulkRemoval:
    """The files of one kind that were to be deleted."""

    removed: int = 0
    failed: int = 0
    named: list[str] = field(default_factory=list)  # some of those that stay

    def add(self, count: int, left: Iterable[str]) -> None:
        stay = list(left)
        self.removed += count - len(stay)
        self.failed += len(stay)
        self.named += stay[: MOST_NAMED - len(self.named)]


def remove_in_bulk(
    io: FileIO, paths: Iterable[str], proof: remove.RemovalProof, pace: Pace, check: Callable[[], None]
) -> BulkRemoval:
    """Delete the files. `check` is called between batches, and may end the work by an error."""
    result = BulkRemoval()
    size = AT_ONCE if pace.per_second is None else max(1, min(AT_ONCE, round(pace.per_second)))
    began_ms, count = pace.clock(), 0
    for batch in _batches(paths, size):
        check()
        if pace.per_second is not None and count:
            ahead = count / pace.per_second - (pace.clock() - began_ms) / 1000
            if ahead > 0:
                pace.pause(ahead)
        result.add(len(batch), _remove(io, batch, proof))
        count += len(batch)
    return result


def _remove(io: FileIO, batch: list[str], proof: remove.RemovalProof) -> list[str]:
    stay = _in_one_request(io, batch)
    if stay is None:
        return list(remove.remove_files(io, batch, proof))
    # A store may be too busy for some objects of a request; these are tried once more, one by one.
    return list(remove.remove_files(io, stay, proof)) if stay else []


def _in_one_request(io: FileIO, batch: list[str]) -> list[str] | None:
    """The files that stay. None: the store does not take such requests, or the way to it is broken."""
    try:
        if isinstance(io, vended_credentials.LastingIO):
            answer = io.using(lambda current: object_files.remove_many(current, batch))
        else:
            answer = object_files.remove_many(io, batch)
    except Exception as error:  # noqa: BLE001 - stores raise errors of any kind; one by one they are told apart
        _log.info("Files are removed one by one: %s", type(error).__name__)
        return None
    return None if answer is None else list(answer)


def _batches(paths: Iterable[str], size: int) -> Iterator[list[str]]:
    rest = iter(paths)
    while batch := list(itertools.islice(rest, size)):
        yield batch
