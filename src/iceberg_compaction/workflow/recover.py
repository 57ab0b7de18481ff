"""What runs left behind that never came to their end: crashed, killed, or not told whether their commit landed. Only
files with such a run's id in their names are removed, only from the folders that it wrote to, and only by a run on the
same catalog entry, once the first one is over, none of its commits can land any more, and no snapshot of the table
refers to them. Whatever is in doubt stays, however old it is, and is told."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish, staged_metadata
from iceberg_compaction.metadata import reachable, table_folders
from iceberg_compaction.model import events, outcome, table_names
from iceberg_compaction.record import processes
from iceberg_compaction.storage import file_names, listing, remove
from iceberg_compaction.workflow import fates
from iceberg_compaction.workflow.fates import Fate

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore
    from iceberg_compaction.storage.listing import Listed

_MINUTE_MS = 60_000
# A run on another machine writes a heartbeat twice a minute. One that was only asleep finds out before it commits.
SILENT_MS = 60 * _MINUTE_MS
# Executors may outlive their driver for a while, so that a run is looked at again until its last heartbeat is this old.
STRAGGLING_MS = 10 * _MINUTE_MS
# What nobody can do anything about is not told for ever.
TOLD_MS = 30 * 24 * 60 * _MINUTE_MS
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of runs that did not finish."""

    removed: dict[str, int] = field(default_factory=dict)  # files, by run
    waiting: tuple[str, ...] = ()  # runs whose last commit may still land
    unsure: tuple[str, ...] = ()  # runs of which nobody can tell whether their last commit landed
    elsewhere: dict[str, str] = field(default_factory=dict)  # runs on other catalog entries of the table, and on which
    failed: str | None = None  # why nothing could be removed

    @property
    def sentence(self) -> str:
        """In words; empty if there is nothing to tell."""
        told = [
            f"{count} {'file' if count == 1 else 'files'} of run {run_id}, which did not finish, "
            f"{'was' if count == 1 else 'were'} removed."
            for run_id, count in self.removed.items()
        ]
        told += [
            f"The last commit of run {run_id} may still land, so its files stay for now." for run_id in self.waiting
        ]
        told += [
            f"Run {run_id} did not finish, and whether its last commit ever landed cannot be told, so its files stay; "
            "those that no table needs are orphans."
            for run_id in self.unsure
        ]
        told += [
            f"Run {run_id} did not finish, but worked on {entry}: only a run there can remove what it left behind."
            for run_id, entry in self.elsewhere.items()
        ]
        if self.failed:
            told.append(f"Files of a run that did not finish could not be removed: {self.failed}")
        return " ".join(told)


NOTHING = Settled()


def recover(table: Table, run: Run) -> Settled:
    """Remove the files that other runs on the table's catalog entry left behind, as far as that is surely right."""
    if run.store is None:
        return NOTHING
    try:
        unfinished = run.store.unfinished(str(table.metadata.table_uuid))
        over = [one for one in unfinished if processes.is_over(one, run.clock(), SILENT_MS)]
        if not over:
            return NOTHING
        run.emit(events.Recovering(table=table_names.text(table.name()), run_id=run.run_id, runs=len(over)))
        return settle(table, over, run.store, run.clock)
    except errors.CompactionError as error:  # the work itself need not suffer from what others left undone
        _log.warning("Files of a run that did not finish could not be removed: %s", error)
        return Settled(failed=str(error))


def recover_again(table: Table, run: Run, before: Settled) -> Settled:
    """The same after a commit of this run, which may have made sure that a commit of another one cannot land."""
    again = recover(publish.reload(table), run)
    return replace(again, removed={**before.removed, **again.removed})


def mention(settled: Settled, result: outcome.Outcome) -> outcome.Outcome:
    """The outcome, and what became of other runs."""
    if not settled.sentence:
        return result
    return result.model_copy(update={"sentence": f"{result.sentence} {settled.sentence}"})


def settle(table: Table, over: Sequence[UnfinishedRun], store: RunStore, clock: Callable[[], int]) -> Settled:
    """Remove what these runs, which are over, left behind, as far as they worked on the table under the name and in the
    catalog that it was loaded from."""
    entry, now_ms = table_folders.entry(table), clock()
    own = [
        run for run in over if entry.catalog and run.start.entry == entry and file_names.is_distinct(run.start.run_id)
    ]
    told = Settled(
        elsewhere={
            run.start.run_id: str(run.start.entry) if run.start.catalog else "an entry of a catalog that is not known"
            for run in over
            if run not in own and now_ms - run.heartbeat_ms < TOLD_MS
        }
    )
    fate = {run.start.run_id: fates.judge(run.attempt, table.metadata) for run in own}
    hopeful = [run for run in own if fate[run.start.run_id] in (Fate.SETTLED, Fate.REPLACED)]
    dead = [now for run in hopeful if (now := store.take_over(run)) is not None]
    if dead:
        found = _find(table, dead)
        # What is listed was written before; a table that is loaded after that knows all that any commit has made of it.
        table = publish.reload(table)
        asleep = {
            run.start.run_id
            for run in own
            if (run.taken_over or not run.ended) and processes.is_alive(run.start.process) is None
        }
        fate |= {run.start.run_id: _judge(table, run, found, asleep) for run in dead}
        dead = [run for run in dead if fate[run.start.run_id] is Fate.SETTLED]
        removed, left = _remove(table, [run.start.run_id for run in dead], found)
        told = replace(told, removed=removed)
        for run in dead:
            if now_ms - run.heartbeat_ms >= STRAGGLING_MS and not any(
                file_names.is_of_run(path, run.start.run_id) for path in left
            ):
                store.mark_recovered(run.start.run_id, now_ms)
    unsure = [run for run in own if fate[run.start.run_id] is Fate.UNKNOWN and now_ms - run.heartbeat_ms < TOLD_MS]
    told = replace(
        told,
        waiting=tuple(run.start.run_id for run in own if fate[run.start.run_id] is Fate.PENDING),
        unsure=tuple(run.start.run_id for run in unsure),
    )
    if told.sentence:
        _log.info("%s", told.sentence)
    return told


def _find(table: Table, runs: Sequence[UnfinishedRun]) -> list[Listed]:
    """The runs' files, wherever they wrote, and table metadata, whoever wrote it."""
    run_ids = [run.start.run_id for run in runs]
    folders = {folder.rstrip("/") for run in runs for folder in (run.start.data_path, run.start.metadata_path)}
    folders.add(table.metadata_location.rpartition("/")[0])
    outermost = [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]

    def is_wanted(name: str) -> bool:
        return file_names.is_table_metadata(name) or any(file_names.is_of_run(name, run_id) for run_id in run_ids)

    return [file for folder in sorted(outermost) for file in listing.list_files(table.io, folder, is_wanted)]


def _judge(table: Table, run: UnfinishedRun, found: Sequence[Listed], asleep: Container[str]) -> Fate:
    """The fate of a run that is taken over; REPLACED becomes one that is certain. A run that may only be `asleep` looks
    into its journal once more after its table metadata is in the folder; but where a server writes that, its request
    may be on the way for as long as it likes, and should the table be put back meanwhile, it lands."""
    fate = fates.judge(run.attempt, table.metadata)
    if fate is not Fate.REPLACED or run.attempt is None:
        return fate
    own = _of(run.start.run_id, found)
    if not own:
        return Fate.SETTLED
    if run.start.run_id in asleep and not staged_metadata.lets_clients_write(table.catalog):
        return Fate.UNKNOWN
    return Fate.SETTLED if fates.is_nowhere(table, run.attempt, found, fates.oldest(own)) else Fate.UNKNOWN


def _remove(table: Table, run_ids: Sequence[str], found: Sequence[Listed]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Remove those of the found files that are of these runs and unknown to the table; how many of each run, and which
    could not be removed."""
    candidates = {file.path: run_id for run_id in run_ids for file in _of(run_id, found)}
    if not candidates:
        return {}, ()
    known = reachable.names(table, run_ids)
    doomed = [path for path in candidates if file_names.base_name(path) not in known]
    doomed = [path for path in doomed if not file_names.is_table_metadata(path) or fates.is_torn(table.io, path)]
    left = remove.remove_files(table.io, doomed, remove.Proof.RUN_OVER)
    return dict(Counter(candidates[path] for path in doomed if path not in left)), left


def _of(run_id: str, found: Iterable[Listed]) -> list[Listed]:
    return [file for file in found if file_names.is_of_run(file.path, run_id)]
