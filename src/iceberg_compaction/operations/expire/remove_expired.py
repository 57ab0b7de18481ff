"""Removes the files that only expired snapshots needed, once the snapshots have left the table. What is to be done is
in the run store before the commit, so that another run finishes it after a crash; whatever fails here stays, is told,
and never looks like a failed commit."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.metadata.reach import reachable_files
from iceberg_compaction.model import plurals
from iceberg_compaction.operations.expire import doomed_files
from iceberg_compaction.record import pending_removals
from iceberg_compaction.storage import remove
from iceberg_compaction.storage.s3 import bulk_remove

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyiceberg.table import Table

    from iceberg_compaction.operations.expire.doomed_files import DoomedFiles
    from iceberg_compaction.operations.expire.spare_shared import OtherTables
    from iceberg_compaction.record.pending_removals import PendingRemoval
    from iceberg_compaction.record.runs import Run

_WORDS = {
    "data": "data-files",
    "deletes": "delete-files",
    "statistics": "statistics-files",
    "partition-statistics": "statistics-files",
    "manifest": "manifests",
    "manifest-list": "manifest-lists",
}
_log = logging.getLogger(__name__)


@dataclass(slots=True, kw_only=True)
class RemovedFiles:
    """What was removed, and what stays although nobody needs it."""

    figures: dict[str, int] = field(default_factory=dict)
    bytes: int = 0
    notes: list[str] = field(default_factory=list)

    def add(self, kind: str, count: int) -> None:
        word = _WORDS[kind]
        self.figures[word] = self.figures.get(word, 0) + count


def begin(table: Table, run: Run, snapshot_ids: Collection[int]) -> PendingRemoval:
    """Write down which snapshots are about to leave the table. A store that is away must not stop an expiry: without it
    files that a crash leaves are orphans."""
    sides = doomed_files.sides(table.metadata, snapshot_ids)
    removal = pending_removals.PendingRemoval(
        run_id=run.run_id,
        entry=table_folders.entry(table),
        since_ms=run.clock(),
        snapshots=tuple(sides.expired),
        statistics=tuple(sides.statistics),
    )
    if run.store is not None:
        try:
            pending_removals.PendingRemovals(run.store.entries).save(removal)
        except errors.StoreError as error:
            _log.warning("If this run is killed, its files are orphans: %s", error)
    return removal


def forget(removal: PendingRemoval, run: Run) -> None:
    """Nothing of the removal is left to do."""
    if run.store is None:
        return
    try:
        pending_removals.PendingRemovals(run.store.entries).forget(removal)
    except errors.StoreError as error:
        _log.warning("The next run will look for files that are gone already: %s", error)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemovalRules:
    """What files stay for, and how fast the others go."""

    others: OtherTables
    per_second: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRemoval:
    """Files to remove."""

    pending: PendingRemoval
    doomed: DoomedFiles
    rules: RemovalRules


def finish(table: Table, removal: FileRemoval, spared_ids: Collection[int], run: Run) -> RemovedFiles:
    """Remove the files, after everything that the table has by now is spared, and what other tables need. `spared_ids`:
    snapshots that were spared when the files were found. The uuid is checked on the metadata from which this is decided
    (R50)."""
    current = publish.reload(table)
    _, metadata_folder = table_folders.folders(current)
    location = current.metadata_location
    doomed = removal.doomed
    doomed.spare([reachable_files.table_files(current.metadata, location, metadata_folder)])
    new = [each for each in current.metadata.snapshots if each.snapshot_id not in spared_ids]
    if new:  # committed since, or chosen to stay after all
        doomed.spare(reachable_files.snapshot_files(current.io, new))
    notes = removal.rules.others.spare(current, doomed, run)
    return _remove(current, removal, run, notes)


def resume(table: Table, removal: PendingRemoval, run: Run, rules: RemovalRules) -> RemovedFiles:
    """Remove what an earlier run has left. Snapshots that the table still has, or has again, stay: their expiry never
    landed."""
    metadata = table.metadata
    present = {each.snapshot_id for each in metadata.snapshots}
    sides = doomed_files.TableSides(
        expired=[each for each in removal.snapshots if each.snapshot_id not in present],
        kept=metadata.snapshots,
        statistics=removal.statistics,
        resumed=True,
    )
    if not sides.expired:
        forget(removal, run)
        return RemovedFiles()
    with doomed_files.DoomedFiles() as doomed:
        doomed_files.collect(table.io, sides, doomed)
        return finish(table, FileRemoval(pending=removal, doomed=doomed, rules=rules), present, run)


def _remove(table: Table, removal: FileRemoval, run: Run, notes: list[str]) -> RemovedFiles:
    removed, doomed = RemovedFiles(notes=notes), removal.doomed
    figures = doomed.figures()
    pace = bulk_remove.Pace(per_second=removal.rules.per_second, clock=run.clock, pause=run.pause)
    for kinds in doomed_files.ORDER:
        failed = 0
        for kind in kinds:
            result = bulk_remove.remove_in_bulk(
                table.io, doomed.paths([kind]), remove.RemovalProof.EXPIRED, pace, run.cancel.check
            )
            removed.add(kind.value, result.removed)
            removed.bytes += figures.bytes[kind.value] if not result.failed else 0
            failed += result.failed
            removed.notes += [f"{path} could not be removed." for path in result.named[:3]]
        if failed:  # manifests stay, so that these files can be found again
            removed.notes.append(
                f"{plurals.count(failed, 'file')} that nobody needs could not be removed; the next expiry tries again, "
                "if it has the same run store."
            )
            return removed
    forget(removal.pending, run)
    return removed
