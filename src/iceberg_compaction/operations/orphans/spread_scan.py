"""The scan of a table's folders by an engine: tasks list parts of them and leave out what the table refers to. All that
comes back is judged here, by the same rules as if it had been listed here; and what a task cannot list is."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from iceberg_compaction.execute import task_failure
from iceberg_compaction.execute.prepare import listing_job
from iceberg_compaction.execute.worker import list_task
from iceberg_compaction.operations.orphans import scan_folders
from iceberg_compaction.operations.rewrite_files import task_rounds
from iceberg_compaction.storage.tree import cut_folders, walk_files

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.listing_task import FoldersToList, ListedFolders
    from iceberg_compaction.operations.orphans.references import References
    from iceberg_compaction.operations.orphans.scan_folders import Scan, ScanRules
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


def scan(
    table: Table, roots: Sequence[str], references: References, rules: ScanRules, engine: Engine, run: Run
) -> Scan:
    """The same as `scan_folders.scan`, by the cores of an engine."""
    cores = engine.cores()
    wanted = cores * listing_job.TASKS_PER_CORE
    parts = {root: cut_folders.cut(table.io, root, wanted) for root in roots}
    job = listing_job.prepare(table, parts, references.hashes, run.run_id, cores)
    tally = scan_folders.Tally(references, rules)
    left = {task.id: task.folders for task in job.tasks if task.folders is not None}
    work = task_rounds.Rounds(engine, job, cancel=run.cancel, renew=task_rounds.renewing(table))
    with run.cancel.looking(), work:
        for end in work.results():
            if isinstance(end, task_failure.Failure):
                _log.info("Folders are listed here, since a task could not: %s", end.sentence)
            elif end.listed is not None:
                _take(table, tally, left.pop(end.task_id), end.listed)
    for folders in left.values():
        run.cancel.check()
        _list_here(table, tally, folders)
    return tally.scan()


def _take(table: Table, tally: scan_folders.Tally, folders: FoldersToList, listed: ListedFolders) -> None:
    tally.add_referenced(folders.root, listed.referenced, listed.referenced_bytes, list_task.positions(listed))
    for page in list_task.strangers(listed):
        tally.add(folders.root, walk_files.confirmed(table.io, folders.root, page), listed.now_ms)


def _list_here(table: Table, tally: scan_folders.Tally, folders: FoldersToList) -> None:
    time = walk_files.StoreTime()
    for part in folders.parts:
        for page in walk_files.walk_part(table.io, folders.root, part, time, tally.knows):
            tally.add(folders.root, page, time.now_ms)
