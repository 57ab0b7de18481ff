"""A run takes up the checkpoint of a dead run: it looks at the groups that are left, makes the checkpoint its own, and
performs the tasks that are not done. Files of the dead run are never removed here; recovery does that (R48)."""

from __future__ import annotations

import logging
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.operations import engine_for_work, run_facts
from iceberg_compaction.operations.rewrite_files import perform_files, rewrite_progress, table_figures
from iceberg_compaction.operations.rewrite_files.resume import inherit_plan
from iceberg_compaction.record.checkpoint import checkpoints, open_checkpoint

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.cancel import CancelToken
    from iceberg_compaction.execute.engine_door import Engine, Job, RunningJob
    from iceberg_compaction.operations.operation import EngineFactory, Legacy
    from iceberg_compaction.operations.rewrite_files.resume.inherit_plan import Examined, GroupScope, Selected
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.checkpoint.open_checkpoint import OpenCheckpoint
    from iceberg_compaction.record.runs import Run

# The checkpoint is worth nothing, and never will be.
WORTHLESS = (errors.StalePlanError, errors.ConflictError, errors.UnsupportedError, errors.MetadataError)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Heir:
    """A run that goes on with the work of dead ones."""

    table: Table
    run: Run
    ledger: Ledger
    engines: EngineFactory
    command: str

    def take_up(self, legacy: Legacy, scope: GroupScope) -> None:
        """Go on with the groups that are worth it. Those that could not be committed are left to the run's own plan."""
        head = legacy.held.head
        try:
            examined = inherit_plan.examine(self.table, legacy, self.run)
        except WORTHLESS as error:
            _log.info("Nothing of run %s can be used: %s", head.run_id, error)
            self.remove(legacy)
            return
        if examined.leased:
            _log.info("Another run is working on partitions of run %s, which waits", head.run_id)
            return
        selected = examined.select(scope, first_id=self.ledger.next_id)
        keeps = scope is inherit_plan.GroupScope.READY and _has_more(examined)
        if selected is None:
            if not keeps:
                self.remove(legacy)
            return
        if self.perform(legacy, selected, goes_on=keeps):
            self.ledger.withdraw(selected.plan.groups.columns["id"].to_pylist())
            if scope is inherit_plan.GroupScope.STARTED:
                self.ledger.gone_on_with |= {*head.writers, self.run.run_id}

    def perform(
        self, legacy: Legacy, selected: Selected, *, goes_on: bool = False, whole: Examined | None = None
    ) -> bool:
        """Perform the tasks that are left of these groups, and commit them. `whole`: the plan is what this run is for,
        so that groups which do not hold any more are entered as well. False: the run may not, because another one was
        faster, or because the store is away."""
        head = legacy.held.head
        home = table_folders.home(self.table)
        with self.run.at_work(home, branch=head.branch, resources=selected.plan.resources, command=self.command):
            checkpoint = self._claim(legacy)
            if checkpoint is None:
                return False
            checkpoint.goes_on = goes_on
            if whole is None:
                self.ledger.open(selected.plan, of_another=True)
            else:
                self.ledger.open(whole.plan)
                self.ledger.drop({group.id: group.reason for group in whole.groups if group.reason})
                table_figures.emit_planned(selected.plan, whole.view, self.run, self.ledger)
            tasks, done = len(selected.job.tasks), selected.done
            groups = len(selected.plan.groups)
            self.ledger.note(run_facts.TookUp(run_id=head.run_id, groups=groups, tasks=tasks, done=done))
            progress = rewrite_progress.RewriteProgress(plan=selected.plan, run=self.run, ledger=self.ledger)
            job = perform_files.PlannedJob(
                plan=selected.plan, job=selected.job, checkpoint=checkpoint, inherited=selected.results
            )
            with ExitStack() as opened:
                engine = _LateEngine(engines=self.engines, progress=progress, opened=opened, planned_cores=head.cores)
                perform_files.perform(job, self.table, engine, progress)
        return True

    def _claim(self, legacy: Legacy) -> OpenCheckpoint | None:
        """Make the checkpoint this run's own. A run that is not in the journal must not: nobody could tell that it is
        dead."""
        if self.run.store is None or self.run.entry is None:
            return None
        held = open_checkpoint.as_owner(self.run, self.run.store).claim(legacy.held, self.run.run_id, self.run.clock())
        if held is None:
            return None
        self.run.entry.dead_writers = legacy.held.head.writers
        kept = checkpoints.Checkpoints(self.run.store.entries)
        return open_checkpoint.OpenCheckpoint(held, kept, self.run.warnings)

    def remove(self, legacy: Legacy) -> None:
        """Remove a checkpoint that is worth nothing; recovery then removes the files."""
        if self.run.store is not None:
            checkpoints.Checkpoints(self.run.store.entries).remove(legacy.held)


def _has_more(examined: Examined) -> bool:
    """Whether tasks are done of groups that are not complete."""
    return any(group.results and not group.complete and not group.reason for group in examined.groups)


@dataclass(slots=True, kw_only=True)
class _LateEngine:
    """Opens the engine for the first task that is left, so that groups which are complete never wait for one."""

    engines: EngineFactory
    progress: rewrite_progress.RewriteProgress
    opened: ExitStack
    planned_cores: int
    _engine: Engine | None = field(default=None, init=False)

    def cores(self) -> int:
        return self.planned_cores

    def start(self, job: Job, *, cancel: CancelToken) -> RunningJob:
        if self._engine is None:
            engine, progress = self.opened.enter_context(self.engines()), self.progress
            self._engine = engine_for_work.for_plan(engine, progress.plan, progress.run, progress.ledger)
            self.progress.await_engine(self._engine)
        return self._engine.start(job, cancel=cancel)
