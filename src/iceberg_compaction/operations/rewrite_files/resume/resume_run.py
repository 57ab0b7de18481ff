"""The operation `resume`: a run goes on with the whole plan of a run that did not finish, whatever the policy. Nothing
else is done, except that groups in conflict with other commits are planned again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.metadata import table_folders
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import perform_files, plan_again, rebase, rewritten_by
from iceberg_compaction.operations.rewrite_files.resume import inherit_plan, take_up

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.checkpoint import CheckpointHead
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.operations.operation import EngineFactory, Legacy
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


@dataclass(frozen=True, slots=True)
class NothingMore:
    """The plan of a run that has done its work already."""

    empty: bool = True
    resources: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumeRun:
    """Go on with one run."""

    table: str
    run_id: str
    branch: str = "main"
    _reasons: list[str] = field(default_factory=list)  # why nothing of the run could be used

    @property
    def command(self) -> str:
        return f"`iceberg-compact resume {self.run_id}`"

    def wants(self, head: CheckpointHead) -> bool:
        return self.run_id in head.writers

    def take_up(self, legacy: Legacy, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        heir = take_up.Heir(table=table, run=run, ledger=ledger, engines=engines, command=self.command)
        if ledger.next_id:  # a plan that the run made anew for groups in conflict
            heir.take_up(legacy, inherit_plan.GroupScope.ALL)
            return
        try:
            examined = inherit_plan.examine(table, legacy, run)
        except take_up.WORTHLESS as error:
            self._reasons.append(str(error))
            heir.remove(legacy)
            return
        if examined.leased:
            raise errors.LeasedError(f"Another run is working on partitions of run {self.run_id}; resume it later.")
        selected = examined.select(inherit_plan.GroupScope.ALL, first_id=None)
        if selected is not None and not heir.perform(legacy, selected, whole=examined):
            raise errors.LeasedError(f"Another run was faster to go on with run {self.run_id}; nothing was done.")
        if selected is None:
            heir.remove(legacy)
            ledger.open(examined.plan)
            ledger.drop({group.id: group.reason for group in examined.groups})
            by = rewritten_by.rewritten_by(table, examined.plan)
            if by is not None and rebase.is_gone(examined.plan, examined.view):
                ledger.rewritten(by)
            return
        self._plan_again(examined.plan, table, run, ledger, engines)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[NothingMore]:
        return PlannedWork(plan=NothingMore())

    def perform(
        self, planned: PlannedWork[NothingMore], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> Outcome:
        return ledger.close()

    def idle(self, plan: NothingMore, run: Run, ledger: Ledger) -> Outcome:
        if ledger.next_id:
            return ledger.close()
        reason = self._reasons[0] if self._reasons else "Its files are left to a later run."
        return ledger.stop(
            Kind.CONFLICT,
            f"Nothing of run {self.run_id} can be used. {reason} `iceberg-compact run` plans the work anew.",
        )

    def _plan_again(self, plan: Plan, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        for current, newer in plan_again.plans(table, plan, run, ledger):
            home, resources = table_folders.home(current), newer.plan.resources
            with (
                run.at_work(home, branch=self.branch, resources=resources, command=self.command),
                engines() as engine,
            ):
                perform_files.apply(current, newer, engine, run, ledger)
