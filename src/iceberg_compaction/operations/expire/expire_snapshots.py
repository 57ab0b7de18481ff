"""The operation `expire`: plan, find the files that may go, commit, and then remove them. Whatever cannot be read stops
the run before the commit; whatever fails after it is told and left to the next run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model import events, expire_plan, outcome, plurals
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.operations.expire import (
    doomed_files,
    expire_change,
    plan_expiry,
    remove_expired,
    spare_shared,
    undo_reach,
)
from iceberg_compaction.operations.neighbourhood.look_around import Neighbourhoods
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.record import journal, pending_removals

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.expire_plan import ExpirePlan
    from iceberg_compaction.operations.expire.expire_change import StagedExpiry
    from iceberg_compaction.operations.expire.remove_expired import RemovedFiles
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

ANY = RetentionGoal()


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireSnapshots(BeginsAnew):
    """Expire the snapshots of a table that nothing keeps, and delete the files that only they need."""

    table: str
    goal: RetentionGoal = ANY
    per_second: float | None = None  # files to delete; None: as fast as the store answers
    count_files: bool = False  # the plan names the files, too
    given: ExpirePlan | None = None  # a plan made before, which is not exceeded
    neighbourhoods: Neighbourhoods = field(default_factory=Neighbourhoods)

    @property
    def branch(self) -> str:
        return "main"  # the lease is the table's; it has one name for all branches

    @property
    def command(self) -> str:
        return journal.command_line("expire", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[ExpirePlan]:
        """The snapshots that expire now; of a given plan those that still do."""
        request = plan_expiry.ExpireRequest(
            table=self.table, goal=self.goal, count_files=self.count_files, others=self._others
        )
        plan = plan_expiry.make(table, request, run)
        if self.given is not None:
            plan = _within(plan, self.given)
        figures = {"files": sum(step.count for step in plan.steps), "bytes": 0, "groups": 0}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, **figures))
        return PlannedWork(plan=plan)

    def idle(self, plan: ExpirePlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=self.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def perform(
        self, planned: PlannedWork[ExpirePlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        plan = planned.plan
        earlier = [] if self.goal.keep_files else self._resume(plan, table, run)
        if not plan.changes_metadata:
            return self._outcome(plan, None, earlier, run)
        if self.goal.keep_files or not plan.snapshot_ids:
            committed = self._commit(plan, table, run)
            return self._outcome(plan, committed, earlier, run)
        sides = doomed_files.sides(table.metadata, set(plan.snapshot_ids))
        with doomed_files.DoomedFiles() as doomed:
            doomed_files.collect(table.io, sides, doomed)  # an error here leaves the table as it is
            pending = remove_expired.begin(table, run, set(plan.snapshot_ids))
            try:
                committed = self._commit(plan, table, run)
            except errors.StateUnknownError:
                raise  # the next run looks whether the snapshots are gone
            except errors.CompactionError:
                remove_expired.forget(pending, run)
                raise
            removal = remove_expired.FileRemoval(pending=pending, doomed=doomed, rules=self._rules)
            spared_ids = {each.snapshot_id for each in sides.kept}
            try:
                removed = remove_expired.finish(table, removal, spared_ids, run)
            except errors.CompactionError as error:  # the expiry itself is committed
                removed = _left(error)
        return self._outcome(plan, committed, [*earlier, removed], run)

    @property
    def _others(self) -> spare_shared.OtherTables:
        return spare_shared.OtherTables(neighbourhoods=self.neighbourhoods, allow_unlisted=self.goal.allow_unlisted)

    @property
    def _rules(self) -> remove_expired.RemovalRules:
        return remove_expired.RemovalRules(others=self._others, per_second=self.per_second)

    def _commit(self, plan: ExpirePlan, table: Table, run: Run) -> spine.CommittedChange[StagedExpiry]:
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        change = expire_change.ExpireChange(plan=plan, run=run, now_ms=plan.created_ms)
        return spine.commit(table, change, run)

    def _resume(self, plan: ExpirePlan, table: Table, run: Run) -> list[RemovedFiles]:
        """Remove what earlier runs have left. Trouble with that must not stop the run's own work."""
        if run.store is None:
            return []
        book, entry = pending_removals.PendingRemovals(run.store.entries), table_folders.entry(table)
        removals, removed = book.of(entry), []
        book.forget_damaged(entry.table_uuid)
        for each in removals:
            if each.run_id in plan.unfinished:
                try:
                    removed.append(remove_expired.resume(table, each, run, self._rules))
                except (errors.MetadataError, errors.UnsupportedError) as error:
                    removed.append(_left(error))
        return removed

    def _outcome(
        self,
        plan: ExpirePlan,
        committed: spine.CommittedChange[StagedExpiry] | None,
        removals: list[RemovedFiles],
        run: Run,
    ) -> outcome.Outcome:
        figures: dict[str, int] = {}
        expired: tuple[int, ...] = ()
        if committed is not None:
            staged, expired = committed.staged, committed.staged.expired
            figures = {"snapshots": len(expired), "refs": len(staged.refs)}
            figures |= {"schemas": len(staged.schema_ids), "partition-specs": len(staged.spec_ids)}
        for removed in removals:
            for name, count in removed.figures.items():
                figures[name] = figures.get(name, 0) + count
        notes = [note for removed in removals for note in removed.notes]
        if committed is not None and expired:
            notes += undo_reach.notes(committed.staged.parent, set(expired), plan.retention, plan.created_ms)
        size = sum(removed.bytes for removed in removals)
        return outcome.Maintained(
            table=self.table,
            operation=expire_plan.EXPIRE,
            sentence=_sentence(figures, plan),
            run_id=run.run_id,
            plan_id=plan.id,
            files_removed=figures.get("data-files", 0),
            delete_files_removed=figures.get("delete-files", 0),
            manifests_removed=figures.get("manifests", 0),
            bytes_removed=size,
            attempts=0 if committed is None else committed.attempts,
            figures={name: count for name, count in figures.items() if count},
            notes=tuple(notes),
        )


def _within(plan: ExpirePlan, given: ExpirePlan) -> ExpirePlan:
    """The plan of now, without what the given plan does not name."""
    if plan.table_uuid != given.table_uuid:
        raise errors.StalePlanError(f"The plan was made for another table that had the name {given.table}; plan again.")
    narrowed = {
        name: tuple(each for each in getattr(plan, name) if each in getattr(given, name))
        for name in ("snapshot_ids", "refs", "schema_ids", "spec_ids", "unfinished")
    }
    left = plan.model_copy(update=narrowed)
    dropped = len(given.snapshot_ids) - len(left.snapshot_ids)
    if not left.changes_metadata and not left.unfinished:
        return left.model_copy(update={"steps": (), "sentence": "Nothing of the plan is left to do."})
    note = (f"{plurals.count(dropped, 'snapshot')} of the plan stay: others hold them now, or they are gone.",)
    return left.model_copy(update={"notes": (*left.notes, *(note if dropped else ()))})


def _left(error: errors.CompactionError) -> RemovedFiles:
    there = "Files that only expired snapshots needed are still there"
    if isinstance(error, errors.MetadataError):  # waiting does not mend it
        return remove_expired.RemovedFiles(
            notes=[f"{there}, because what names them cannot be read; `iceberg-compact orphans` finds them: {error}"]
        )
    return remove_expired.RemovedFiles(notes=[f"{there}, and the next expiry removes them: {error}"])


def _sentence(figures: dict[str, int], plan: ExpirePlan) -> str:
    gone = plurals.count(figures.get("snapshots", 0), "snapshot")
    files = sum(
        figures.get(name, 0)
        for name in ("data-files", "delete-files", "manifests", "manifest-lists", "statistics-files")
    )
    removed = (
        "no file was deleted"
        if plan.goal.keep_files
        else f"{plurals.count(files, 'file')} {plurals.form(files, 'was', 'were')} deleted"
    )
    return f"{gone} expired, and {removed}."
