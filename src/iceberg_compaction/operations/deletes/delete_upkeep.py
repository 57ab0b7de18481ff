"""The operation `deletes`: delete files that apply to nothing leave, position deletes are merged, equality deletes
become position deletes. No data file is read but for the columns that equality deletes compare, and none is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.deletes import delete_scopes
from iceberg_compaction.model import events, outcome, plurals
from iceberg_compaction.model.deletes_plan import DeletesPlan
from iceberg_compaction.operations import pinned_filter
from iceberg_compaction.operations.deletes import choose_deletes, delete_ways, describe_deletes
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.rewrite_files.planning import cold_files
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.rewrite_task import Granularity
    from iceberg_compaction.operations.deletes.perform_deletes import DeletesEnd
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

ALL = choose_deletes.DeleteGoal()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDeletes(PlannedWork[DeletesPlan]):
    """A plan, and the choice behind it."""

    chosen: choose_deletes.ChosenDeletes | None = None  # None: the table has no snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanDeletes(BeginsAnew):
    """Tidy the delete files of a branch. With a given plan nothing else than its files is touched."""

    table: str
    goal: choose_deletes.DeleteGoal = ALL
    branch: str = "main"
    deep: bool = False  # rows are read before and after, and compared
    given: DeletesPlan | None = None

    @property
    def command(self) -> str:
        if self.given is not None:
            return "`iceberg-compact apply`, with the same plan,"
        return journal.command_line("deletes", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[DeletesPlan]:
        """What leaves and what comes for it. Reads metadata, writes nothing."""
        if self.given is not None and str(table.metadata.table_uuid) != self.given.table_uuid:
            raise errors.StalePlanError(
                f"The table {self.table} is not the one that the plan was made on (its uuid differs); make a new plan."
            )
        now_ms = run.clock()
        where = pinned_filter.pin(self.goal.where, table, now_ms)
        head = look.look(table, name=self.table, branch=self.branch, where=where, cache=run.cache)
        view = head.view
        if view.unsupported:
            raise errors.UnsupportedError(f"{self.table} cannot be changed yet: {' '.join(view.unsupported)}")
        scope = choose_deletes.ChoiceScope(
            goal=self.goal,
            granularity=self._granularity(view.properties),
            global_specs=delete_scopes.unpartitioned(table.specs()),
            selected=view.selected,
            given=self.given,
        )
        chosen = choose_deletes.choose(view.files, scope)
        if chosen.groups and not self.goal.cold_tiers and self.given is None:
            chosen = chosen.without(cold_files.cold_among(table, chosen.read_files(), run.clock()))
        facts = describe_deletes.PlanFacts(
            id=f"plan-{run.run_id}" if self.given is None else self.given.id,
            table=self.table,
            now_ms=now_ms,
            pin=view.pin,
            notes=pinned_filter.notes(self.goal.where, where, now_ms),
        )
        plan = describe_deletes.plan(table, chosen, scope, facts)
        files = sum(len(group.data) for group in chosen.groups)
        figures = {"files": files, "groups": len(chosen.groups)}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, bytes=0, **figures))
        return PlannedDeletes(plan=plan, manifests=head.manifests, chosen=chosen)

    def perform(
        self, planned: PlannedWork[DeletesPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        from iceberg_compaction.operations.deletes import perform_deletes

        assert isinstance(planned, PlannedDeletes)
        assert planned.chosen is not None
        work = perform_deletes.DeletesWork(plan=planned.plan, chosen=planned.chosen, deep=self.deep)
        end = perform_deletes.perform(work, table, run, engines)
        if end.result is not None:
            run.emit(events.Committed(table=self.table, run_id=run.run_id, snapshot_id=end.result.snapshot_id))
        return _outcome(planned.plan, planned.chosen, end, run)

    def idle(self, plan: DeletesPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def _granularity(self, properties: dict[str, str]) -> Granularity:
        if self.given is not None:
            return self.given.granularity
        if self.goal.granularity is not None:
            return self.goal.granularity
        return delete_ways.granularity_of(properties)


def _outcome(plan: DeletesPlan, chosen: choose_deletes.ChosenDeletes, end: DeletesEnd, run: Run) -> outcome.Outcome:
    if end.result is None:
        return outcome.Healthy(
            table=plan.table,
            sentence="Others have done the same meanwhile; nothing was left to commit.",
            run_id=run.run_id,
            plan_id=plan.id,
        )
    landed = frozenset(end.result.landed)
    rows = [row for group in chosen.groups if group.id in landed for row in group.replaced.tolist()]
    figures = {
        "dangling-delete-files": end.result.dangling,
        "merged-delete-files": int(chosen.is_merged[rows].sum()),
        "converted-delete-files": int(chosen.is_converted[rows].sum()),
        "new-position-delete-files": sum(len(group.added) for group in end.groups),
        "positions": sum(file.record_count for group in end.groups for file in group.added),
    }
    removed = end.result.dangling + len(rows)
    left = [*end.failures.values(), *end.result.conflicts.values()]
    sentence = (
        f"{plurals.count(removed, 'delete file')} left the table and "
        f"{figures['new-position-delete-files']:,} came in snapshot {end.result.snapshot_id}; every row lives or is "
        "deleted as before."
    )
    if left:
        sentence += f" {plurals.count(len(left), 'group')} stayed as they were: {left[0]}"
    return outcome.Maintained(
        table=plan.table,
        operation=plan.operation,
        sentence=sentence,
        run_id=run.run_id,
        plan_id=plan.id,
        figures=figures,
        notes=tuple(left[1:]),
        snapshot_id=end.result.snapshot_id,
        snapshot_ids=(end.result.snapshot_id,),
        delete_files_removed=removed,
        groups=len(chosen.groups),
        groups_landed=len(landed),
        groups_failed=len(end.failures),
        groups_conflicted=len(end.result.conflicts),
        attempts=end.result.attempts,
    )
