"""Performs the part of a plan that rewrites no data file: delete files of chosen partitions are merged or converted, in
a commit of its own after those of the groups. What leaves is chosen again on the table as it is then, and validated by
each attempt; delete files that came after the plan stay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.deletes import delete_scopes
from iceberg_compaction.model import events
from iceberg_compaction.model.delete_choice import DeleteWay
from iceberg_compaction.model.policies import ProofLevel
from iceberg_compaction.model.proof import Proof, Side
from iceberg_compaction.model.rewrite_task import Effort
from iceberg_compaction.operations import run_facts
from iceberg_compaction.operations.deletes import choose_deletes, delete_ways, describe_deletes, perform_deletes
from iceberg_compaction.operations.rewrite_files import perform_files, table_figures

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.deletes.perform_deletes import DeletesEnd, DeletesWork
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_MAX_ATTEMPTS = 3  # at choosing again what others have changed meanwhile


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """The partitions of a plan whose delete files others replace."""

    plan: Plan
    newest: int  # sequence number of the snapshot that the choice was made on
    again: bool = True  # others' changes are planned around

    @classmethod
    def of(cls, plan: Plan, *, made_on: Plan | None = None, again: bool = True) -> Exchange:
        """`made_on`: the plan before it was rebased."""
        return cls(plan=plan, newest=(made_on or plan).pin.sequence_number, again=again)

    def perform(self, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> frozenset[PartitionKey]:
        """Commit, and enter it in the ledger. Returns the partitions that have other delete files now. ConflictError,
        or ExecuteError where tasks failed: nothing of the whole run could be committed."""
        left: list[str] = []
        failed = False
        done: set[PartitionKey] = set()
        for attempt in range(_MAX_ATTEMPTS):
            perform_files.check_same_table(table, self.plan)
            table = publish.reload(table) if attempt or ledger.commits else table
            work = self._choose(table, run, ledger)
            if work.plan.empty:
                left = []  # others have done it
                break
            try:
                end = perform_deletes.perform(work, table, run, engines)
            except errors.ConflictError as conflict:
                left = [str(conflict)]
            else:
                done |= self._enter(work, end, run, ledger)
                conflicts = () if end.result is None else end.result.conflicts.values()
                left, failed = [*end.failures.values(), *conflicts], bool(end.failures)
                if failed or not left:
                    break
            if not self.again or not self.plan.policy.replan_conflicts:
                break
        if left and not ledger.commits:
            raise errors.ExecuteError(left[0]) if failed else errors.ConflictError(left[0])
        if left:
            ledger.note(run_facts.DeletesLeft(reason=left[0]))
        return frozenset(done)

    def _choose(self, table: Table, run: Run, ledger: Ledger) -> DeletesWork:
        """What is left to do of the plan."""
        plan = self.plan
        head = look.look(table, name=plan.table, branch=plan.pin.branch, cache=run.cache)
        if head.view.unsupported:
            raise errors.UnsupportedError(f"{plan.table} cannot be changed yet: {' '.join(head.view.unsupported)}")
        scope = choose_deletes.ChoiceScope(
            goal=choose_deletes.DeleteGoal(dangling=plan.useless_deletes > 0 and not ledger.commits),
            granularity=delete_ways.granularity_of(head.view.properties),
            global_specs=delete_scopes.unpartitioned(table.specs()),
            within=choose_deletes.WithinPartitions(
                merge=self._partitions(DeleteWay.MERGE), convert=self._partitions(DeleteWay.CONVERT), newest=self.newest
            ),
        )
        chosen = choose_deletes.choose(head.view.files, scope)
        facts = describe_deletes.PlanFacts(id=plan.id, table=plan.table, now_ms=run.clock(), pin=head.view.pin)
        return perform_deletes.DeletesWork(
            plan=describe_deletes.plan(table, chosen, scope, facts),
            chosen=chosen,
            deep=plan.policy.verify is ProofLevel.DEEP,
        )

    def _partitions(self, way: DeleteWay) -> frozenset[PartitionKey]:
        return frozenset(each.key for each in self.plan.exchanges if each.way is way)

    def _enter(self, work: DeletesWork, end: DeletesEnd, run: Run, ledger: Ledger) -> frozenset[PartitionKey]:
        prices = self.plan.cost.prices
        ledger.spent += prices.compute(end.seconds) + prices.requests(end.requests)
        if end.result is None:
            return frozenset()
        exchanged = sum(len(group.replaced) for group in end.groups)
        added = [file for group in end.groups for file in group.added]
        nothing = Side()
        ledger.enter_commit(
            run_facts.CommitFacts(
                snapshot_id=end.result.snapshot_id,
                groups=(),
                files_added=0,
                bytes_added=0,
                proof=Proof(
                    level=self.plan.policy.verify, expected_rows=0, source=nothing, sink=nothing, footers=nothing
                ),
                effort=Effort(),
                attempts=end.result.attempts,
                removed_delete_files=exchanged + end.result.dangling,
                exchanged_delete_files=exchanged,
                added_delete_files=len(added),
            )
        )
        if ledger.figures is not None:
            ledger.figures = table_figures.after_deletes(
                ledger.figures, end.result.snapshot_id, len(added) - exchanged - end.result.dangling
            )
        run.emit(
            events.Committed(
                table=self.plan.table,
                run_id=run.run_id,
                snapshot_id=end.result.snapshot_id,
                attempts=end.result.attempts,
                after=ledger.figures,
            )
        )
        return _partitions_of(work, frozenset(end.result.landed))


def _partitions_of(work: DeletesWork, landed: frozenset[int]) -> frozenset[PartitionKey]:
    """The partitions of the data files of groups."""
    rows = [row for group in work.chosen.groups if group.id in landed for row in group.data.tolist()]
    files = work.chosen.live.select(["spec_id", "partition"]).take(rows)
    return frozenset(zip(files["spec_id"].to_pylist(), files["partition"].to_pylist(), strict=True))
