"""Who wants to know what becomes of a run's files. Snapshots are published and files are removed deep inside; a run's
journal has to hear of both before or when they happen, whoever does them, and finds them by the run's id."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from iceberg_compaction.catalog import run_names

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table.snapshots import Snapshot
    from pyiceberg.table.update import TableUpdate


class Watcher(Protocol):
    """Told of one run, from whatever thread."""

    def publishing(self, snapshot: Snapshot, metadata: str | None) -> None:
        """The snapshot is about to be published, with this metadata file if we are the ones to write it and it is
        there. Raises CommitError if it must not be."""
        ...

    def landed(self, snapshot: Snapshot) -> None:
        """The snapshot is part of the table."""
        ...

    def left(self, path: str) -> None:
        """A file of the run was not removed, though it should be or may have to be."""
        ...


_watchers: dict[str, Watcher] = {}


@contextmanager
def watching(run_id: str, watcher: Watcher) -> Iterator[None]:
    """Tell the watcher of the run, for as long as this lasts."""
    _watchers[run_id] = watcher
    try:
        yield
    finally:
        del _watchers[run_id]


def tell_publishing(updates: tuple[TableUpdate, ...], metadata: str | None = None) -> None:
    """Updates are about to be committed; with this metadata file, once it is written."""
    for update in updates:
        snapshot: Snapshot | None = getattr(update, "snapshot", None)
        if snapshot is not None and (watcher := _watchers.get(run_names.run_of_snapshot(snapshot) or "")):
            watcher.publishing(snapshot, metadata)


def tell_landed(snapshot: Snapshot) -> None:
    """A snapshot has been published."""
    if watcher := _watchers.get(run_names.run_of_snapshot(snapshot) or ""):
        watcher.landed(snapshot)


def tell_left(path: str) -> None:
    """A file was not removed."""
    for run_id, watcher in list(_watchers.items()):
        if run_names.is_of(run_id, path):
            watcher.left(path)
