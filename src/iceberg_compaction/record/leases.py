"""Leases: each resource of a table has at most one run that works on it. The board of a catalog entry is one entry of
the store and is changed by compare-and-set; each lease has a token that is larger than all before (fencing). A holder
lives as long as its entry in the journal does. Whoever takes a dead run's resource declares the run dead there first,
so that it can publish nothing any more (R49)."""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pydantic

from iceberg_compaction import errors
from iceberg_compaction.model import lease, partition_key
from iceberg_compaction.record.entries import door, keys

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from iceberg_compaction.model.lease import Lease, LeaseBoard
    from iceberg_compaction.model.run_record import CatalogEntry, UnfinishedRun
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.record.entries.door import StoreEntries
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore

_ATTEMPTS = 100  # to change a board: each that fails is one of another run that did not
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Leases:
    """The boards in a store."""

    entries: StoreEntries

    def board(self, entry: CatalogEntry) -> LeaseBoard:
        """All leases of a catalog entry, also those of dead runs."""
        return self._read(_key(entry))[0]

    def give(
        self, entry: CatalogEntry, wanted: Lease, dead: Iterable[str], seen: Container[int] | None = None
    ) -> Lease | None:
        """Give the run its lease, with a token, and take away leases of dead runs, which are named by their ids. None:
        a run that is not among them holds some of it. LeasedError: a holder has committed a snapshot that is not among
        those that the run has `seen`, so its plan may be out of date."""
        gone = {wanted.run_id, *dead}
        for _ in range(_ATTEMPTS):
            board, version = self._read(_key(entry))
            if seen is not None and any(snapshot_id not in seen for snapshot_id in board.committed):
                raise errors.LeasedError(f"Another run has worked on {entry.table} since the plan was made.")
            kept = tuple(holder for holder in board.holders if holder.run_id not in gone)
            if any(holder.excludes(wanted) for holder in kept):
                return None
            given = wanted.model_copy(update={"token": max(board.token + 1, wanted.since_ms)})
            changed = board.model_copy(update={"token": given.token, "holders": (*kept, given)})
            if self._write(_key(entry), changed, version):
                return given
        raise errors.StoreError(f"The leases of {entry.table} change all the time; none could be taken.")

    def give_back(self, entry: CatalogEntry, held: Lease, committed: Sequence[int] = ()) -> None:
        """End a lease, and name the snapshots that the run has committed. A lease that another run has taken over stays
        with that run."""
        for _ in range(_ATTEMPTS):
            board, version = self._read(_key(entry))
            kept = tuple(holder for holder in board.holders if holder.run_id != held.run_id)
            if kept == board.holders and not committed:
                return
            snapshots = (*board.committed, *committed)[-lease.MOST_COMMITTED :]
            changed = board.model_copy(update={"holders": kept, "committed": snapshots})
            if self._write(_key(entry), changed, version):
                return

    def has(self, entry: CatalogEntry, held: Lease) -> bool:
        """Whether this very lease is on the board."""
        return any((each.run_id, each.token) == (held.run_id, held.token) for each in self.board(entry).holders)

    def _read(self, key: str) -> tuple[LeaseBoard, int | None]:
        found = self.entries.get([key]).get(key)
        if found is None:
            return lease.LeaseBoard(), None
        try:
            return lease.LeaseBoard.model_validate_json(found.value), found.version
        except pydantic.ValidationError as error:
            raise errors.StoreError(
                f"The leases in {key} are unreadable; a newer version may have written them."
            ) from error

    def _write(self, key: str, board: LeaseBoard, version: int | None) -> bool:
        value = board.model_dump_json()
        if len(value) > door.LONGEST_VALUE:
            raise errors.StoreError("Too many runs hold leases of too many partitions of one table.")
        return self.entries.change({key: value}, {key: version})


def leave_to_others(view: TableView, entry: CatalogEntry, run: Run) -> TableView:
    """The same view, with the files of partitions marked that other runs on the branch hold."""
    if run.store is None or view.pin is None:
        return view
    try:
        board = Leases(entries=run.store.entries).board(entry)
        others = [each for each in board.holders if each.run_id != run.run_id and each.branch == view.pin.branch]
        over = [each.start.run_id for each in _over(others, entry, run, run.store)]
        living = _living(others, entry, over, run.store)
    except errors.StoreError as error:
        _log.warning("The leases of other runs are not used: %s", error)
        return view
    held = {name for holder in living for name in holder.holds}

    def is_held(spec_id: int, partition: str) -> bool:
        return lease.EVERYTHING in held or lease.partition_name(spec_id, partition) in held

    leased = partition_key.lie_where(view.files, is_held) if held else None
    if leased is None or not leased.any():
        return view
    return replace(view, leased=pa.array(leased), lessees=tuple(holder.words for holder in living))


def acquire(entry: CatalogEntry, wanted: Lease, run: Run, store: RunStore, seen: Container[int] | None) -> Lease:
    """Get a lease for a run. LeasedError: other runs hold some of it, or committed snapshots that are not among those
    that the run has `seen`; None: that is no matter."""
    leases = Leases(entries=store.entries)
    for _ in range(_ATTEMPTS):
        others = [
            each for each in leases.board(entry).holders if each.run_id != wanted.run_id and each.excludes(wanted)
        ]
        over = _over(others, entry, run, store)
        dead = [each.start.run_id for each in over if each.ended or store.take_over(each) is not None]
        living = _living(others, entry, dead, store)
        if living:
            raise errors.LeasedError(
                f"Another run is working on {entry.table} ({'; '.join(each.words for each in living)}); "
                "nothing was done, run it again later."
            )
        given = leases.give(entry, wanted, [each.run_id for each in others], seen)
        if given is not None:
            return given
    raise errors.StoreError(f"The leases of {entry.table} change all the time; none could be taken.")


def _over(holders: Sequence[Lease], entry: CatalogEntry, run: Run, store: RunStore) -> list[UnfinishedRun]:
    """The holders in the journal that are over."""
    names = {holder.run_id for holder in holders}
    unfinished = [each for each in store.unfinished(entry.table_uuid) if each.start.run_id in names] if names else []
    return run.watch.over(unfinished, store)


def _living(holders: Sequence[Lease], entry: CatalogEntry, dead: Iterable[str], store: RunStore) -> list[Lease]:
    """The holders in the journal that are not dead. Others have ended, and only did not give their leases back."""
    at_work = {each.start.run_id for each in store.unfinished(entry.table_uuid)} if holders else set()
    return [holder for holder in holders if holder.run_id in at_work.difference(dead)]


def _key(entry: CatalogEntry) -> str:
    """A catalog whose identity is unknown shares no lease with others: the table's own uuid is in its place."""
    return keys.key("lease", entry.catalog or entry.table_uuid, entry.table)
