"""The checkpoint of a plan while a run performs it: results go in as tasks end, and files leave it before they are
removed from storage. Trouble with the store costs the checkpoint, never the work."""

from __future__ import annotations

import functools
import itertools
import logging
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors, version
from iceberg_compaction.model import checkpoint, portable_task
from iceberg_compaction.record import outbox, store_warnings
from iceberg_compaction.record.checkpoint import checkpoints, running_entries

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, TaskResult
    from iceberg_compaction.model.run_record import CatalogEntry
    from iceberg_compaction.record.runs import Run
    from iceberg_compaction.record.store import RunStore

_AT_ONCE = 16  # results that do not wait for each other any longer
_log = logging.getLogger(__name__)


@dataclass(slots=True)
class OpenCheckpoint:
    """A checkpoint that this run owns."""

    held: checkpoints.HeldHead
    kept: checkpoints.Checkpoints
    warnings: store_warnings.StoreWarnings = field(default_factory=store_warnings.StoreWarnings)
    goes_on: bool = False  # at the end of the work, it is left to another run
    _outbox: outbox.Outbox = field(init=False)
    _fenced: checkpoints.FencedEntries = field(init=False)
    _keys_of: dict[str, list[str]] = field(default_factory=dict)  # the entries that name a staged file
    _removals: Iterator[int] = field(default_factory=itertools.count)
    _unwritten: int = 0  # results, at most

    def __post_init__(self) -> None:
        self._fenced = checkpoints.FencedEntries(self.kept.entries, self.held)
        self._outbox = outbox.Outbox(entries=self._fenced, warnings=self.warnings)

    def save(self, task: RewriteTask, result: TaskResult) -> None:
        """Store the result of a task soon."""
        self._outbox.put_later(functools.partial(self._entries, task, result))
        self._unwritten += 1
        if self._unwritten >= _AT_ONCE:
            self._unwritten = 0
            self._outbox.try_flush()

    def _entries(self, task: RewriteTask, result: TaskResult) -> dict[str, str]:
        saved = portable_task.PortableResult(plan_id=self.held.head.plan_id, file_paths=task.file_paths, result=result)
        entries = checkpoints.result_entries(self.held.head, saved)
        self._keys_of |= {file.file_path: list(entries) for file in result.staged}
        return entries

    def flush(self) -> None:
        """Store all results now, before a commit. If the store is away, they wait."""
        try:
            self._outbox.flush()
        except errors.StoreError as error:
            self.warnings.warn("Results of tasks are not stored before the commit", error)

    def give_up(self, paths: Sequence[str]) -> list[str]:
        """Take files out of the checkpoint, right before they are removed. Returns those that may be removed: another
        run may have taken up the others."""
        try:
            removal = checkpoints.gone_entries(self.held.head, next(self._removals), paths)
            self._fenced.change(removal)
        except errors.StoreError as error:
            # Nobody has ever heard of files whose results were not stored.
            own = [path for path in paths if self._fenced.written.isdisjoint(self._keys_of.get(path, ()))]
            if len(own) < len(paths):
                self.warnings.warn("Files of this run stay for another run to use or to remove", error)
            return own
        return list(paths)

    def close(self) -> bool:
        """Remove the checkpoint: the work is done. False: it is still there, or in other hands."""
        try:
            return self.kept.release(self.held) is not None if self.goes_on else self.kept.remove(self.held)
        except errors.StoreError as error:
            self.warnings.warn("The checkpoint of this run could not be removed", error)
            return False

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Results are written from here on, until the end of the `with`."""
        with self._outbox:
            yield


def begin(
    run: Run, entry: CatalogEntry, plan: Plan, tasks: Sequence[RewriteTask], *, cores: int
) -> OpenCheckpoint | None:
    """The checkpoint of a plan that a run begins to perform. None: the run is not in the journal, so that nobody could
    tell that it is dead, or the store is away."""
    if run.store is None or run.entry is None:
        return None
    head = checkpoint.CheckpointHead(
        run_id=run.run_id,
        number=run.next_plan(),
        owner=run.run_id,
        writers=(run.run_id,),
        entry=entry,
        branch=plan.pin.branch,
        plan_id=plan.id,
        version=version.__version__,
        cores=cores,
        tasks=len(tasks),
        groups=len(plan.groups),
        bytes=plan.input_bytes,
        saved_ms=run.clock(),
    )
    try:
        held = as_owner(run, run.store).create(head, plan)
        return OpenCheckpoint(held, checkpoints.Checkpoints(run.store.entries), run.warnings)
    except errors.StoreError as error:
        _log.warning("If this run is killed, its work is done again: %s", error)
        return None


def as_owner(run: Run, store: RunStore) -> checkpoints.Checkpoints:
    """The checkpoints, for a run that is about to own one. A StoreError says that another run took it for dead, and may
    be removing its files: none of them may get into a checkpoint any more."""
    return checkpoints.Checkpoints(
        running_entries.RunningEntries(entries=store.entries, store=store, run_id=run.run_id)
    )
