"""What runs left behind that never came to their end: crashed, killed, or not told whether their commit landed. Only
files with such a run's id in their names are removed, only from the folders that it wrote to, and only once the run is
over, none of its commits can land any more, and no snapshot of the table refers to them."""

from __future__ import annotations

import logging
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import listing, publish, run_names, tables
from iceberg_compaction.commit import sweep
from iceberg_compaction.metadata import reachable
from iceberg_compaction.model import outcome
from iceberg_compaction.record import process

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyiceberg.table.metadata import TableMetadata

    from iceberg_compaction.model.manifests import ManifestPlan
    from iceberg_compaction.model.plan import Plan
    from iceberg_compaction.model.record import Attempt, UnfinishedRun
    from iceberg_compaction.record.sqlite import RunStore
    from iceberg_compaction.workflow.run import Run

_MINUTE_MS = 60_000
# A run on another machine gives a sign of life twice a minute. One that was only asleep finds out before it commits.
SILENT_MS = 60 * _MINUTE_MS
# No catalog takes longer to answer a commit; until then it may land as long as the branch has not moved.
PENDING_MS = 24 * 60 * _MINUTE_MS
# Executors may outlive their driver for a while, so that a run is looked at again until its last sign is this old.
STRAGGLING_MS = 10 * _MINUTE_MS
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """What became of runs that did not finish."""

    removed: dict[str, int] = field(default_factory=dict)  # files, by run
    waiting: tuple[str, ...] = ()  # runs whose last commit may still land
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
        if self.failed:
            told.append(f"Files of a run that did not finish could not be removed: {self.failed}")
        return " ".join(told)


NOTHING = Settled()


def attend(
    catalog: Catalog, plan: Plan | ManifestPlan, run: Run, work: Callable[[], outcome.Outcome]
) -> outcome.Outcome:
    """Do the work on the plan's table, and settle what other runs left there: before it, or after it if only a commit
    of this run makes sure that another one's cannot land."""
    settled = _settle_plan(catalog, plan, run)
    result = work()
    if settled.waiting and result.snapshot_id is not None:
        again = _settle_plan(catalog, plan, run)
        settled = Settled(removed={**settled.removed, **again.removed}, waiting=again.waiting, failed=again.failed)
    if not settled.sentence:
        return result
    return result.model_copy(update={"sentence": f"{result.sentence} {settled.sentence}"})


def _settle_plan(catalog: Catalog, plan: Plan | ManifestPlan, run: Run) -> Settled:
    if run.store is None or plan.pin is None:
        return NOTHING
    try:
        over = [
            one for one in run.store.unfinished(plan.pin.table_uuid) if process.is_over(one, run.clock(), SILENT_MS)
        ]
        if not over:
            return NOTHING
        message = "looking for files of runs that did not finish"
        run.on_event(outcome.Event(table=plan.table, run_id=run.run_id, stage=outcome.Stage.PLANNING, message=message))
        return settle(tables.load_table(catalog, plan.table), over, run.store, run.clock)
    except errors.CompactionError as error:  # the work itself need not suffer from what others left undone
        _log.warning("Files of a run that did not finish could not be removed: %s", error)
        return Settled(failed=str(error))


def settle(table: Table, over: Sequence[UnfinishedRun], store: RunStore, clock: Callable[[], int]) -> Settled:
    """Remove what these runs on the table, which are over, left behind."""
    over = [run for run in over if run_names.is_distinct(run.start.run_id) and store.take_over(run)]
    if str(table.metadata.table_uuid) not in {run.start.table_uuid for run in over}:
        return NOTHING  # dropped and made anew meanwhile
    found = _find(table, over)
    # What is listed was written before; a table that is loaded after that knows all that any commit has made of it.
    table = publish.reload(table)
    now_ms = clock()
    waiting = [run for run in over if _may_land(run, table.metadata, now_ms)]
    settled = [run for run in over if run not in waiting]
    removed, left = _remove(table, [run.start.run_id for run in settled], found)
    for run in settled:
        if not any(run_names.is_of(run.start.run_id, path) for path in left) and now_ms - run.seen_ms >= STRAGGLING_MS:
            store.settle(run.start.run_id, now_ms)
    told = Settled(removed=removed, waiting=tuple(run.start.run_id for run in waiting))
    if told.sentence:
        _log.info("%s", told.sentence)
    return told


def _find(table: Table, runs: Sequence[UnfinishedRun]) -> list[str]:
    """The runs' files, wherever they wrote."""
    run_ids = [run.start.run_id for run in runs]
    folders = {folder.rstrip("/") for run in runs for folder in (run.start.data_path, run.start.metadata_path)}
    outermost = [folder for folder in folders if not any(folder.startswith(f"{other}/") for other in folders)]
    return [path for folder in sorted(outermost) for path in listing.list_files(table.io, folder, run_ids)]


def _may_land(run: UnfinishedRun, metadata: TableMetadata, now_ms: int) -> bool:
    """Whether a catalog that is slow could yet publish the run's last snapshot. Once the branch has left its parent, no
    catalog can (R14); but that the parent is not the head may also come from a catalog's answer that is out of date,
    and then nothing at all follows from it."""
    attempt = run.attempt
    if attempt is None or metadata.snapshot_by_id(attempt.snapshot_id) is not None:
        return False
    if now_ms - attempt.at_ms >= PENDING_MS:
        return False
    ref = metadata.refs.get(run.start.branch)
    left_parent = ref is None or ref.snapshot_id != attempt.parent_snapshot_id
    return not left_parent or not _is_up_to_date(metadata, attempt)


def _is_up_to_date(metadata: TableMetadata, attempt: Attempt) -> bool:
    """Whether the metadata is newer than that which the attempt was built on."""
    if attempt.sequence_number:
        return metadata.next_sequence_number() > attempt.sequence_number
    parent = attempt.parent_snapshot_id
    return parent is not None and metadata.snapshot_by_id(parent) is not None


def _remove(table: Table, run_ids: Sequence[str], found: Sequence[str]) -> tuple[dict[str, int], tuple[str, ...]]:
    """Remove those of the found files that are of these runs and unknown to the table; how many of each run, and which
    could not be removed."""
    candidates = {path: run_id for path in found for run_id in run_ids if run_names.is_of(run_id, path)}
    if not candidates:
        return {}, ()
    known = reachable.names(table, run_ids)
    doomed = [path for path in candidates if path.rpartition("/")[2] not in known]
    left = sweep.sweep(table.io, doomed)
    return dict(Counter(candidates[path] for path in doomed if path not in left)), left
