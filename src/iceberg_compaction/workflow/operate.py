"""The order of work on one table: inventory, plan, rewrite, proof, commit, sweep. Every outside calls these functions.
What goes wrong with a table is an Outcome; what goes wrong with the request (settings, catalog) is raised."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow.compute as pc

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.inspect import assess, delete_cost, health_request
from iceberg_compaction.metadata import look, snapshot_log, target_partitions
from iceberg_compaction.model import events, file_group, outcome
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.model.table_view import DATA
from iceberg_compaction.operations import claims, journal, run_ledger
from iceberg_compaction.operations.rewrite_files import drop_useless, failed_files, perform_files, prove_groups, rebase
from iceberg_compaction.plan import build, plan_request, quick_look
from iceberg_compaction.workflow import leftovers

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.execute.engine_door import Engine
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.table_health import TableHealth
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.operations.runs import Run

# Called only when there is something to rewrite, so that a healthy table never starts an engine.
EngineFactory: TypeAlias = "Callable[[], AbstractContextManager[Engine]]"

# Errors that tell about the table rather than about the request: they end a run with an Outcome. First match counts.
_TABLE_ERRORS: tuple[tuple[type[errors.CompactionError], outcome.Kind], ...] = (
    (errors.UnsupportedError, outcome.Kind.UNSUPPORTED),
    (errors.StalePlanError, outcome.Kind.CONFLICT),
    (errors.ConflictError, outcome.Kind.CONFLICT),
    (errors.CommitError, outcome.Kind.FAILED),
    (errors.ExecuteError, outcome.Kind.FAILED),
    (errors.MetadataError, outcome.Kind.FAILED),
)

_MANY_DELETES = Policy(strategy=Strategy.DELETE_FILES, delete_file_threshold=health_request.MANY_DELETES)
_REPLANS = 3  # times that what conflicts is planned anew, at most: a table that never rests must not keep a run forever
_AROUND = 20  # times that groups are planned anew without a file that they failed for; each time it is another one


@dataclass(frozen=True, slots=True, kw_only=True)
class _Job:
    """What somebody asked for."""

    command: str  # as it would be asked for again
    replans: bool = False  # what conflicts is planned anew
    plans_around: bool = False  # so are groups that failed for one of their files, without that


def diagnose(
    catalog: Catalog, name: str, policy: Policy, *, branch: str = "main", worst: int = health_request.WORST
) -> TableHealth:
    """How healthy a table is, from metadata alone. Tables that cannot be rewritten yet still have a health. `worst`:
    how many of its partitions to name."""
    table = load_tables.load_table(catalog, name)
    view = look.look(table, name=name, branch=branch)
    asked = health_request.Checkup(
        policy=policy,
        sizes=plan_request.resolve(view, policy).sizes,
        sick=quick_look.needs_work(view, policy),
        worn=view.delete_files is not None and quick_look.needs_rewrite(view, _MANY_DELETES),
        applied=_applied_deletes(view),
        history=snapshot_log.read_history(table, branch=branch),
        worst=worst,
    )
    return assess.assess(view, asked)


def _applied_deletes(view: TableView) -> delete_cost.Applied | None:
    """How many delete files data files meet, if there are any."""
    if view.delete_files is None:
        return None
    met = view.delete_files.filter(pc.equal(view.files["content"].combine_chunks(), DATA))
    return delete_cost.Applied(per_data_file=met.to_numpy(), dangling=pc.sum(view.dangling).as_py() or 0)


def plan_table(catalog: Catalog, name: str, policy: Policy, run: Run) -> Plan:
    """What a run would do, and why; pinned to the branch's head. Reads metadata, writes nothing."""
    run.on_event(events.Planning(table=name, run_id=run.run_id))
    table = load_tables.load_table(catalog, name)
    view = look.look(table, name=name, branch=run.branch, where=policy.where)
    view = target_partitions.add(table, failed_files.mark(claims.leave_to_others(view, run), run))
    plan_id, rates = f"plan-{run.run_id}", run.rates(name)
    plan = build.build(view, policy, plan_id=plan_id, now_ms=run.clock(), rates=rates)
    run.on_event(
        events.Planned(
            table=name,
            run_id=run.run_id,
            sentence=plan.sentence,
            files=plan.input_files,
            bytes=plan.input_bytes,
            groups=len(plan.groups),
        )
    )
    return plan


def apply_plan(catalog: Catalog, plan: Plan, engines: EngineFactory, run: Run) -> outcome.Outcome:
    """Perform a plan made before, at any time since: groups that no longer hold are dropped, the rest is rewritten,
    proved and committed. Only what was planned is done: what conflicts is not planned anew."""

    def work(ledger: Ledger) -> outcome.Outcome:
        ledger.open(plan)
        left = plan if plan.empty else _rebase(catalog, plan, run, ledger)
        job = _Job(command="`iceberg-compact apply`, with the same plan,")
        return leftovers.attend(catalog, left, run, lambda: _perform(catalog, left, engines, run, ledger, job))

    return remembered(plan.table, run, work)


def compact_table(catalog: Catalog, name: str, policy: Policy, engines: EngineFactory, run: Run) -> outcome.Outcome:
    """Plan and apply in one go: the plan that `plan_table` shows is the plan that is performed."""

    def work(ledger: Ledger) -> outcome.Outcome:
        plan = plan_table(catalog, name, policy, run)
        ledger.open(plan)
        command = journal.command("run", name, run.branch)
        job = _Job(command=command, replans=policy.replan_conflicts, plans_around=True)
        return leftovers.attend(catalog, plan, run, lambda: _perform(catalog, plan, engines, run, ledger, job))

    return remembered(name, run, work)


def _rebase(catalog: Catalog, plan: Plan, run: Run, ledger: Ledger) -> Plan:
    run.on_event(events.Planning(table=plan.table, run_id=run.run_id))
    table = load_tables.load_table(catalog, plan.table)
    perform_files.check_same_table(table, plan)
    branch = plan.pin.branch if plan.pin else run.branch
    if branch not in table.metadata.refs:
        raise errors.StalePlanError(f"The branch {branch} of {plan.table} is gone since the plan was made.")
    view = look.look(table, name=plan.table, branch=branch)
    build.check(plan_request.resolve(view, plan.policy))
    left = rebase.rebase(plan, view)
    ledger.drop(left.dropped)
    if left.dropped and (before := [one.snapshot_id for one in table.snapshots() if prove_groups.is_of(plan, one)]):
        ledger.remark(f"Snapshots of this plan were committed before: {len(before)}, the last is {before[-1]}.")
    return left.plan


def _perform(
    catalog: Catalog, plan: Plan, engines: EngineFactory, run: Run, ledger: Ledger, job: _Job
) -> outcome.Outcome:
    if plan.empty:
        return ledger.close()
    table = load_tables.load_table(catalog, plan.table)
    branch = plan.pin.branch if plan.pin else run.branch
    if not len(plan.groups):
        with journal.kept(table, run, branch=branch, job=job.command):
            drop_useless.drop_useless_deletes(table, plan, run, ledger)
        return ledger.close()
    with engines() as bare, journal.kept(table, run, branch=branch, job=job.command, claims=plan.partitions) as entry:
        engine = entry.watched(bare) if entry else bare
        perform_files.apply(table, plan, engine, run, ledger)
        for number in itertools.count(1):
            conflicting = ledger.conflicting() if job.replans and number <= _REPLANS else []
            marred = ledger.marred() if job.plans_around and number <= _AROUND else []
            again = _Again(number=number, conflicting=conflicting, marred=marred)
            if not (conflicting or marred) or (newer := _plan_again(catalog, plan, run, ledger, again)) is None:
                break
            ledger.open(newer)
            perform_files.apply(load_tables.load_table(catalog, plan.table), newer, engine, run, ledger)
    return ledger.close()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """Groups to plan anew, as rows of PLAN_GROUPS, and for which time."""

    number: int
    conflicting: list[dict[str, Any]]
    marred: list[dict[str, Any]]


def _plan_again(catalog: Catalog, plan: Plan, run: Run, ledger: Ledger, again: _Again) -> Plan | None:
    """A new plan by the same policy for the partitions of groups that were in conflict last, or failed for a file,
    which is left out; None: nothing can or need be done."""
    try:
        table = load_tables.load_table(catalog, plan.table)
        view = look.look(table, name=plan.table, branch=run.branch, where=plan.policy.where)
        places = {place for row in [*again.conflicting, *again.marred] for place in file_group.places(row)}
        # Where many files are damaged, a run need not find each of them anew.
        bad = {*ledger.failed_files(), *(failed_files.blamed(plan.table, run) if again.marred else ())}
        concerned = rebase.only(view, places, run_id=run.run_id, without=sorted(bad))
        concerned = target_partitions.add(table, claims.leave_to_others(concerned, run))
        plan_id, rates = f"{plan.id}-again-{again.number}", plan.copying.rates
        newer = build.build(concerned, plan.policy, plan_id=plan_id, now_ms=run.clock(), rates=rates)
    except errors.CompactionError as error:
        ledger.remark(f"What {'conflicted' if again.conflicting else 'failed'} could not be planned anew: {error}")
        return None
    if len(newer.groups):
        if again.marred:
            ledger.plan_around()
        if again.conflicting:
            ledger.remark(f"What conflicted was planned anew: {newer.sentence[0].lower()}{newer.sentence[1:]}")
        return rebase.renumber(newer, ledger.next_id)
    if again.conflicting and any(left.reason is LeftOutReason.CLAIMED for left in newer.left_out):
        ledger.remark("Another run is at work on what conflicted.")
    elif again.conflicting:
        ledger.spare()
    return None


def remembered(table: str, run: Run, work: Callable[[Ledger], outcome.Outcome]) -> outcome.Outcome:
    """The outcome of the work, kept in the history; also that of work which was stopped after something landed."""
    started_ms, started = run.clock(), time.monotonic()
    ledger = run_ledger.Ledger(table=table, run_id=run.run_id)

    def remember(result: outcome.Outcome) -> outcome.Outcome:
        result = result.model_copy(update={"seconds": time.monotonic() - started})
        run.remember(result, started_ms)
        run.on_event(events.Finished(table=table, run_id=run.run_id, outcome=result))
        return result

    try:
        result = work(ledger)
    except tuple(kind for kind, _ in _TABLE_ERRORS) as error:
        kind = next(kind for cls, kind in _TABLE_ERRORS if isinstance(error, cls))
        result = ledger.stop(kind, str(error))
    except errors.CatalogError as error:
        if not ledger.landed:
            raise
        result = ledger.stop(outcome.Kind.FAILED, str(error))  # raised alone, it would hide what landed
    except BaseException as error:
        if not ledger.landed:
            raise
        told = remember(ledger.stop(outcome.Kind.FAILED, str(error) or f"Stopped by {type(error).__name__}."))
        if isinstance(error, errors.CancelledError):
            raise errors.CancelledError(told.sentence) from error
        raise
    return remember(result)
