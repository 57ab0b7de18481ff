"""The operation `rewrite_files`: small, large and delete-heavy data files become files of the target size. It is asked
for by a policy, which is turned into a plan, or by a plan made before, of which the groups that still hold are done.
The modules that perform a plan are imported when a plan is performed: planning alone starts faster without them."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import look, maintainers, rewrite_times, table_folders, target_partitions
from iceberg_compaction.model import policies
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
from iceberg_compaction.operations import pinned_filter, run_facts
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import failed_files, rebase, table_figures
from iceberg_compaction.operations.rewrite_files.planning import planning_look, policy_rule, spending
from iceberg_compaction.plan import build, plan_request, rates
from iceberg_compaction.record import journal, leases
from iceberg_compaction.storage import exact_paths

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.checkpoint import CheckpointHead
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.operations.operation import EngineFactory, Legacy
    from iceberg_compaction.operations.rewrite_files.planning.cold_files import Build
    from iceberg_compaction.operations.rewrite_files.planning.policy_rule import PolicyRule
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteFiles:
    """By a policy: plan and perform in one go. Groups in conflict, and groups that fail for one of their files, are
    planned again in the same run."""

    table: str
    policy: Policy | PolicyRule
    branch: str = "main"

    @property
    def command(self) -> str:
        return journal.command_line("run", self.table, self.branch)

    def wants(self, head: CheckpointHead) -> bool:
        return head.branch == self.branch

    def take_up(self, legacy: Legacy, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        """A run of another policy only commits the groups that are complete."""
        from iceberg_compaction.operations.rewrite_files.resume import inherit_plan, take_up

        plan = legacy.content.plan
        mine = policies.without_budgets(_pinned(self._policy_in_words(table, run), table, run.clock()))
        same = plan is not None and policies.without_budgets(plan.policy) == mine
        heir = take_up.Heir(table=table, run=run, ledger=ledger, engines=engines, command=self.command)
        heir.take_up(legacy, inherit_plan.GroupScope.STARTED if same else inherit_plan.GroupScope.READY)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[Plan | EmptyPlan]:
        """The plan, pinned to the branch's head."""
        policy_in_words, now_ms = self._policy_in_words(table, run), run.clock()
        policy = _pinned(policy_in_words, table, now_ms)
        head = planning_look.look_for(table, self.table, self.branch, policy, run)
        seen = maintainers.consider(head.view, table.metadata, policy.others, run.clock())
        view = failed_files.mark(leases.leave_to_others(seen, table_folders.entry(table), run), run)
        if policy.triggers.active:
            view = rewrite_times.add(view, table.metadata, now_ms=run.clock(), stored_ms=_last_run_ms(self.table, run))
        if ledger.gone_on_with:
            view = rebase.without_runs(view, ledger.gone_on_with)
        learned, budget = rates.learn(*run.efforts(self.table)), spending.budget(policy, run)
        plan = _build_warm(
            table,
            target_partitions.add(table, view, head.manifests, run.cache),
            policy,
            run.clock(),
            lambda warm: build.build(
                warm, policy, plan_id=f"plan-{run.run_id}", now_ms=run.clock(), rates=learned, budget=budget
            ),
        )
        if ledger.next_id and not isinstance(plan, EmptyPlan):  # groups of a dead run came first
            plan = rebase.renumber(plan, ledger.next_id)
        if notes := pinned_filter.notes(policy_in_words.where, policy.where, now_ms):
            plan = plan.model_copy(update={"notes": (*plan.notes, *notes)})
        ledger.open(plan)
        table_figures.emit_planned(plan, replace(head.view, past=view.past), run, ledger)
        return PlannedWork(plan=plan, manifests=head.manifests)

    def _policy_in_words(self, table: Table, run: Run) -> Policy:
        return policy_rule.made_of(self.policy, self.table, table.properties, run.clock())

    def perform(
        self, planned: PlannedWork[Plan | EmptyPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> Outcome:
        return _perform(planned, table, run, ledger, engines)

    def idle(self, plan: Plan | EmptyPlan, run: Run, ledger: Ledger) -> Outcome:
        return ledger.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyPlan:
    """By a plan made before, at any time since: groups that no longer hold are dropped. Nothing else than the plan is
    done, so groups in conflict are not planned again."""

    given: Plan | EmptyPlan

    @property
    def table(self) -> str:
        return self.given.table

    @property
    def branch(self) -> str:
        return self.given.pin.branch if self.given.pin else "main"

    @property
    def command(self) -> str:
        return "`iceberg-compact apply`, with the same plan,"

    def wants(self, head: CheckpointHead) -> bool:
        return False  # it does nothing else than its plan

    def take_up(self, legacy: Legacy, table: Table, run: Run, ledger: Ledger, engines: EngineFactory) -> None:
        """It wants none."""

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[Plan | EmptyPlan]:
        """The groups of the plan that still hold."""
        ledger.open(self.given)
        if isinstance(self.given, EmptyPlan):
            return PlannedWork(plan=self.given)
        from iceberg_compaction.operations.rewrite_files import perform_files
        from iceberg_compaction.operations.rewrite_files.groups import prove_groups

        perform_files.check_same_table(table, self.given)
        if self.branch not in table.metadata.refs:
            raise errors.StalePlanError(f"The branch {self.branch} of {self.table} is gone since the plan was made.")
        head = look.look(table, name=self.table, branch=self.branch, cache=run.cache)
        build.check(plan_request.resolve(head.view, self.given.policy))
        rebased = rebase.rebase(self.given, leases.leave_to_others(head.view, table_folders.entry(table), run))
        ledger.drop(rebased.dropped)
        if rebased.plan.empty and rebased.leased:
            raise errors.LeasedError(
                f"Nothing of the plan can be done now: {rebased.dropped[min(rebased.leased)]} Apply it again later."
            )
        if rebased.plan.empty:
            _enter_rewrites(self.given, table, head.view, ledger)
        before = [each.snapshot_id for each in table.snapshots() if prove_groups.is_of(self.given, each)]
        if rebased.dropped and before:
            ledger.note(run_facts.CommittedBefore(snapshot_ids=tuple(before)))
        table_figures.emit_planned(rebased.plan, head.view, run, ledger)
        return PlannedWork(plan=rebased.plan, manifests=head.manifests)

    def perform(
        self, planned: PlannedWork[Plan | EmptyPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> Outcome:
        result = _perform(planned, table, run, ledger, engines, given=self.given)
        if result.kind is not Kind.CONFLICT or isinstance(self.given, EmptyPlan):
            return result
        try:
            table = publish.reload(table)
            head = look.look(table, name=self.table, branch=self.branch, cache=run.cache)
            _enter_rewrites(self.given, table, head.view, ledger)
        except errors.CompactionError as error:
            _log.warning("Who made the conflicting commits could not be looked up: %s", error)
        return ledger.close()

    def idle(self, plan: Plan | EmptyPlan, run: Run, ledger: Ledger) -> Outcome:
        return ledger.close()


def _pinned(policy: Policy, table: Table, now_ms: int) -> Policy:
    return policy.model_copy(update={"where": pinned_filter.pin(policy.where, table, now_ms)})


def _build_warm(table: Table, view: TableView, policy: Policy, now_ms: int, plan_of: Build) -> Plan | EmptyPlan:
    """The plan without files in cold tiers, which only S3 has."""
    if exact_paths.split(table.location())[0] not in exact_paths.S3_SCHEMES:
        return plan_of(view)
    from iceberg_compaction.operations.rewrite_files.planning import cold_files

    return cold_files.build_warm(table, view, policy, now_ms, plan_of)


def _last_run_ms(table: str, run: Run) -> int | None:
    """When the last run in the store ended that compacted the table; None: there is none."""
    compacted = (each for each in run.history(table) if each.outcome.kind is Kind.COMPACTED)
    return next((each.finished_ms for each in compacted), None)


def _perform(
    planned: PlannedWork[Plan | EmptyPlan],
    table: Table,
    run: Run,
    ledger: Ledger,
    engines: EngineFactory,
    given: Plan | EmptyPlan | None = None,
) -> Outcome:
    """`given`: the plan was made before, and nothing else is done; None: what others change is planned again."""
    plan = planned.plan
    if isinstance(plan, EmptyPlan):
        return ledger.close()
    from iceberg_compaction.operations.rewrite_files import drop_useless, perform_files, plan_again

    if not len(plan.groups) and not plan.exchanges:
        drop_useless.drop_useless_deletes(table, plan, run, ledger)
        return ledger.close()
    with engines() as engine:
        plans = [plan]
        if len(plan.groups):
            perform_files.apply(table, PlannedWork(plan=plan, manifests=planned.manifests), engine, run, ledger)
            for current, newer in plan_again.plans(table, plan, run, ledger) if given is None else ():
                plans.append(newer.plan)
                if len(newer.plan.groups):
                    perform_files.apply(current, newer, engine, run, ledger)
        if any(each.exchanges for each in plans) and not ledger.over_budget:
            _exchange(plans, table, run, ledger, engine, given)
    return ledger.close()


def _exchange(
    plans: list[Plan], table: Table, run: Run, ledger: Ledger, engine: Engine, given: Plan | EmptyPlan | None
) -> None:
    """Merge and convert delete files. That shows how many rows they take: where these are so many that a rewrite is
    cheaper after all, the files are rewritten at once, so that the next run has nothing to do."""
    from iceberg_compaction.operations.rewrite_files import exchange_deletes, perform_files, plan_again

    exchanges = tuple(each for plan in plans for each in plan.exchanges)
    first = plans[0]
    whole = first.model_copy(update={"deletes": exchanges})
    made_on = given if isinstance(given, Plan) else plans[-1]
    exchange = exchange_deletes.Exchange.of(whole, made_on=made_on, again=given is None)
    done = exchange.perform(table, run, ledger, lambda: nullcontext(engine))
    if not done or given is not None or first.policy.delete_action is not policies.DeleteAction.CHEAPEST:
        return
    for current, newer in plan_again.after_exchange(table, first, done, run, ledger):
        perform_files.apply(current, newer, engine, run, ledger)


def _enter_rewrites(plan: Plan, table: Table, view: TableView, ledger: Ledger) -> None:
    """If all files of the plan were rewritten by others, its goal is reached: that is no conflict."""
    from iceberg_compaction.operations.rewrite_files import rewritten_by

    by = rewritten_by.rewritten_by(table, plan) if rebase.is_gone(plan, view) else None
    if by is not None:
        ledger.rewritten(by)
