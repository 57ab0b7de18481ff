"""Removes files of runs that never came to their end: they crashed, were killed, or never learned whether their commit
landed. Only files with such a run's id in their names are removed, only from the folders that it wrote to, and only by
a run on the same catalog entry, once the dead run is over, none of its commits can land any more, and no snapshot of
the table refers to them. Files in doubt stay, however old they are, and the outcome mentions them. Files that a
checkpoint names stay, too: a run may go on with them (R63)."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish, staged_metadata
from iceberg_compaction.metadata import reachable, table_folders
from iceberg_compaction.model import events, outcome, plurals, table_names
from iceberg_compaction.record import processes
from iceberg_compaction.storage import file_names, listing, remove
from iceberg_compaction.workflow import fates, legacies
from iceberg_compaction.workflow.fates import Fate

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.run_record import UnfinishedRun
    from iceberg_compaction.operations.operation import Legacy
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore
    from iceberg_compaction.storage.listing import Listed

_MINUTE_MS = 60_000
# Executors may outlive their driver for a while, so a run is recovered again until its last heartbeat is this old.
STRAGGLING_MS = 10 * _MINUTE_MS
# A run that nobody can recover is mentioned for this long.
MENTION_MS = 30 * 24 * 60 * _MINUTE_MS
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recovered:
    """The result of recovery: runs that did not finish, by what was done about them."""

    removed: dict[str, int] = field(default_factory=dict)  # number of files, by run
    waiting: tuple[str, ...] = ()  # runs whose last commit may still land
    unsure: tuple[str, ...] = ()  # runs for which nothing proves whether their last commit landed
    elsewhere: dict[str, str] = field(default_factory=dict)  # runs on other catalog entries of the table: run, entry
    failed: str | None = None  # the reason why nothing could be removed
    legacies: tuple[Legacy, ...] = ()  # checkpoints of dead runs that this run may go on with

    @property
    def sentence(self) -> str:
        """The result for a person; empty if there is nothing to mention."""
        sentences = [
            f"{plurals.count(count, 'file')} of run {run_id}, which did not finish, "
            f"{plurals.form(count, 'was', 'were')} removed."
            for run_id, count in self.removed.items()
        ]
        sentences += [
            f"The last commit of run {run_id} may still land, so its files stay for now." for run_id in self.waiting
        ]
        sentences += [
            f"Run {run_id} did not finish, and it is unknown whether its last commit landed, so its files stay; those "
            "that no table needs are orphans."
            for run_id in self.unsure
        ]
        sentences += [
            f"Run {run_id} did not finish, but worked on {entry}: only a run there can remove its files."
            for run_id, entry in self.elsewhere.items()
        ]
        if self.failed:
            sentences.append(
                f"Files of runs that did not finish, if there are any, could not be removed: {self.failed}"
            )
        return " ".join(sentences)


NOTHING = Recovered()


def recover(table: Table, run: Run) -> Recovered:
    """Remove the files of dead runs on the table's catalog entry, as far as that is surely right."""
    if run.store is None:
        return NOTHING
    try:
        unfinished = run.store.unfinished(str(table.metadata.table_uuid))
        over = run.watch.over(unfinished, run.store)
        if not over:
            return NOTHING
        run.emit(events.Recovering(table=table_names.text(table.name()), run_id=run.run_id, runs=len(over)))
        recovered = _recover_runs(table, over, run)
    except errors.CompactionError as error:  # leftovers of others must not stop the work itself
        _log.warning("Files of runs that did not finish, if there are any, could not be removed: %s", error)
        return Recovered(failed=str(error))
    if recovered.sentence:
        _log.info("%s", recovered.sentence)
    return recovered


def recover_again(table: Table, run: Run, before: Recovered) -> Recovered:
    """Recover once more after a commit of this run, which may have made a commit of another run impossible."""
    try:
        current = publish.reload(table)
    except errors.CompactionError as error:  # the commit of this run must not look like a failure
        _log.warning("Files of runs that did not finish, if there are any, could not be removed: %s", error)
        return replace(before, failed=str(error))
    again = recover(current, run)
    return replace(again, removed=dict(Counter(before.removed) + Counter(again.removed)))


def mention(recovered: Recovered, result: outcome.Outcome) -> outcome.Outcome:
    """Add the result of recovery to the sentence of an outcome."""
    if not recovered.sentence:
        return result
    return result.model_copy(update={"sentence": f"{result.sentence} {recovered.sentence}"})


def _recover_runs(table: Table, over: Sequence[UnfinishedRun], run: Run) -> Recovered:
    """Recover the runs, which are over, that worked on the table under the same name and in the same catalog."""
    store, now_ms = _store(run), run.clock()
    entry = table_folders.entry(table)
    own = [
        each
        for each in over
        if entry.catalog and each.start.entry == entry and file_names.is_distinct(each.start.run_id)
    ]
    recent = {each.start.run_id for each in over if now_ms - each.heartbeat_ms < MENTION_MS}
    fate = {each.start.run_id: fates.judge(each.attempt, table.metadata) for each in own}
    candidates = [each for each in own if fate[each.start.run_id] in (Fate.DECIDED, Fate.REPLACED)]
    dead = [taken for each in candidates if (taken := store.take_over(each)) is not None]
    removed: dict[str, int] = {}
    left_over: tuple[Legacy, ...] = ()
    if dead:
        # Checkpoints are read once the runs are taken over, which then can own no other, and before the files are
        # listed. From then on no file of a dead run is added to one.
        heads = legacies.heads(run, table)
        dead = legacies.share_commits(run, heads, dead, table)
        estate = legacies.release(run, heads, [each.start.run_id for each in dead])
        files = _list_files(table, dead)
        # The table is loaded after the files are listed: its metadata has every commit that refers to one of them.
        table = publish.reload(table)
        asleep = {each.start.run_id for each in own if _may_be_asleep(each)}
        fate |= {each.start.run_id: _judge(table, each, files, asleep) for each in dead}
        dead = [each for each in dead if fate[each.start.run_id] is Fate.DECIDED]
        in_table = _names_in_table(table, [each.start.run_id for each in dead], files)
        unused = [each.start.run_id for each in dead if each.start.run_id not in estate.writers]
        needed = in_table | estate.names | _metadata_names(files, unused) | _statistics_names(files, dead)
        removed, left = _remove(table, [each.start.run_id for each in dead], files, needed)
        left_over = estate.adoptable(entry, {each.start.run_id for each in dead}, in_table)
        for each in dead:
            has_left = any(file_names.is_of_run(path, each.start.run_id) for path in left)
            is_past = now_ms - each.heartbeat_ms >= STRAGGLING_MS and each.start.run_id in unused
            if is_past and not has_left:
                store.mark_recovered(each.start.run_id, now_ms)
    return Recovered(
        removed=removed,
        waiting=tuple(run_id for run_id in fate if fate[run_id] is Fate.PENDING),
        unsure=tuple(run_id for run_id in fate if fate[run_id] is Fate.UNKNOWN and run_id in recent),
        elsewhere={
            each.start.run_id: str(each.start.entry) if each.start.catalog else "an entry of an unknown catalog"
            for each in over
            if each not in own and each.start.run_id in recent
        },
        legacies=left_over,
    )


def _store(run: Run) -> RunStore:
    assert run.store is not None  # else there is nothing to recover
    return run.store


def _may_be_asleep(run: UnfinishedRun) -> bool:
    """Whether the process of the run may still exist, on a machine that cannot be asked."""
    return (run.taken_over or not run.ended) and processes.is_alive(run.start.process) is None


def _list_files(table: Table, runs: Sequence[UnfinishedRun]) -> list[Listed]:
    """List the files of the runs in all folders that they wrote to, and all table metadata files there."""
    run_ids = [run.start.run_id for run in runs]
    folders = {folder.rstrip("/") for run in runs for folder in (run.start.data_path, run.start.metadata_path)}
    folders.add(table.metadata_location.rpartition("/")[0])
    outermost = [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]

    def is_wanted(name: str) -> bool:
        return file_names.is_table_metadata(name) or any(file_names.is_of_run(name, run_id) for run_id in run_ids)

    return [file for folder in sorted(outermost) for file in listing.list_files(table.io, folder, is_wanted)]


def _judge(table: Table, run: UnfinishedRun, files: Sequence[Listed], asleep: Container[str]) -> Fate:
    """Judge a run that is taken over; REPLACED becomes DECIDED or UNKNOWN. A run that may only be `asleep` reads its
    journal once more after it has written its table metadata. But where a server writes the metadata, a request may be
    on its way for any time, and it lands if the table is put back meanwhile."""
    fate = fates.judge(run.attempt, table.metadata)
    if fate is not Fate.REPLACED or run.attempt is None:
        return fate
    own = _of_run(run.start.run_id, files)
    if not own:
        return Fate.DECIDED
    if run.start.run_id in asleep and not staged_metadata.lets_clients_write(table.catalog):
        return Fate.UNKNOWN
    replaced = fates.is_replaced_everywhere(table, run.attempt, files, fates.first_modified(own))
    return Fate.DECIDED if replaced else Fate.UNKNOWN


def _names_in_table(table: Table, run_ids: Sequence[str], files: Sequence[Listed]) -> frozenset[str]:
    """The names of those files of these runs that the table refers to."""
    if not any(_of_run(run_id, files) for run_id in run_ids):
        return frozenset()
    return frozenset(reachable.names(table, run_ids))


def _metadata_names(files: Sequence[Listed], unused: Sequence[str]) -> frozenset[str]:
    """The names of table metadata files that are no file of these runs. Metadata of a run whose checkpoint is still of
    use proves that its commit did not land, as long as the run is in the journal."""
    return frozenset(
        file.name
        for file in files
        if file_names.is_table_metadata(file.name) and not any(file_names.is_of_run(file.path, each) for each in unused)
    )


def _statistics_names(files: Sequence[Listed], dead: Sequence[UnfinishedRun]) -> frozenset[str]:
    """The names of statistics files that may still become part of the table: their run was about to publish something.
    No sequence number tells whether such a commit can still land."""
    published = [each.start.run_id for each in dead if each.attempt is not None]
    return frozenset(
        file.name
        for file in files
        if file_names.is_statistics(file.name) and any(file_names.is_of_run(file.path, each) for each in published)
    )


def _remove(
    table: Table, run_ids: Sequence[str], files: Sequence[Listed], needed: Container[str]
) -> tuple[dict[str, int], tuple[str, ...]]:
    """Remove the files of these runs whose names are not needed. Returns the number of removed files by run, and the
    paths that could not be removed."""
    candidates = {file.path: run_id for run_id in run_ids for file in _of_run(run_id, files)}
    unneeded = [path for path in candidates if file_names.base_name(path) not in needed]
    # A complete metadata file may be the current one of another catalog entry.
    removable = [
        path for path in unneeded if not file_names.is_table_metadata(path) or fates.is_incomplete(table.io, path)
    ]
    left = remove.remove_files(table.io, removable, remove.RemovalProof.RUN_OVER)
    return dict(Counter(candidates[path] for path in removable if path not in left)), left


def _of_run(run_id: str, files: Iterable[Listed]) -> list[Listed]:
    return [file for file in files if file_names.is_of_run(file.path, run_id)]
