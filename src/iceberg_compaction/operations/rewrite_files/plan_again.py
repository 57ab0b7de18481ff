"""Plans groups again within a run: groups in conflict with other commits, and groups that failed because of one damaged
file, without that file. The ledger lists them. Each plan goes out, and the next is made once it was performed."""

from __future__ import annotations

import itertools
import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import table_folders, target_partitions
from iceberg_compaction.model import file_group, rewrite_past
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan
from iceberg_compaction.operations import run_facts
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import failed_files, rebase
from iceberg_compaction.operations.rewrite_files.planning import cold_files, planning_look, spending
from iceberg_compaction.plan import build
from iceberg_compaction.record import leases

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyiceberg.table import Table

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_log = logging.getLogger(__name__)
_MAX_CONFLICT_PLANS = 3  # plans for groups in conflict, at most: a table that never rests must not keep a run forever
_MAX_FAILURE_PLANS = 20  # plans without damaged files, at most; each time it is another file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unfinished:
    """Groups to plan again, as rows of PLAN_GROUPS, and the number of this plan."""

    number: int
    conflicting: list[dict[str, Any]]
    marred: list[dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PartOfTable:
    """The partitions of another plan, without damaged files."""

    plan_id: str
    partition_keys: set[PartitionKey]
    without: Sequence[str] = ()


def plans(table: Table, plan: Plan, run: Run, ledger: Ledger) -> Iterator[tuple[Table, PlannedWork[Plan]]]:
    """Yield further plans by the same policy, each with the table that it was made on, until the last one left no
    groups that another plan could commit."""
    for number in itertools.count(1):
        if ledger.over_budget:
            return
        replans = plan.policy.replan_conflicts and number <= _MAX_CONFLICT_PLANS
        conflicting = ledger.conflicting() if replans else []
        marred = ledger.marred() if number <= _MAX_FAILURE_PLANS else []
        if not conflicting and not marred:
            return
        unfinished = _Unfinished(number=number, conflicting=conflicting, marred=marred)
        try:
            table = publish.reload(table)
            built = _build(table, plan, run, ledger, unfinished)
        except errors.CompactionError as error:
            end = GroupEnd.CONFLICT if conflicting else GroupEnd.FAILED
            ledger.note(run_facts.NotPlannedAgain(end=end, reason=str(error)))
            return
        newer = _accept(built.plan, ledger, unfinished)
        if newer is None:
            return
        ledger.open(newer)
        yield table, PlannedWork(plan=newer, manifests=built.manifests)


def after_exchange(
    table: Table, plan: Plan, partition_keys: Collection[PartitionKey], run: Run, ledger: Ledger
) -> Iterator[tuple[Table, PlannedWork[Plan]]]:
    """Yield a plan for partitions whose deletes were merged or converted, if their data files should be rewritten after
    all: only now metadata has the number of deleted rows."""
    if ledger.over_budget:
        return
    try:
        table = publish.reload(table)
        part = _PartOfTable(plan_id=f"{plan.id}-counted", partition_keys=set(partition_keys))
        built = _restricted(table, plan, part, run, ledger)
    except errors.CompactionError as error:
        _log.warning("Whether data files should be rewritten after all could not be looked up: %s", error)
        return
    if not isinstance(built.plan, Plan) or not len(built.plan.groups):
        return
    newer = rebase.renumber(built.plan.model_copy(update={"deletes": ()}), ledger.next_id)
    ledger.open(newer)
    yield table, PlannedWork(plan=newer, manifests=built.manifests)


def _accept(newer: Plan | EmptyPlan, ledger: Ledger, unfinished: _Unfinished) -> Plan | None:
    """Give the new plan group ids of its own. None: there is nothing left to do, or nothing that this run can do."""
    if isinstance(newer, Plan) and (len(newer.groups) or newer.exchanges):
        if unfinished.marred:
            ledger.plan_around()
        if unfinished.conflicting:
            ledger.note(run_facts.PlannedAgain(plan_sentence=newer.sentence))
        return rebase.renumber(newer, ledger.next_id)
    if unfinished.conflicting and any(left.reason is LeftOutReason.LEASED for left in newer.left_out):
        ledger.note(run_facts.LeftToOthers())
    elif unfinished.conflicting:
        ledger.spare()
    return None


def _build(
    table: Table, plan: Plan, run: Run, ledger: Ledger, unfinished: _Unfinished
) -> PlannedWork[Plan | EmptyPlan]:
    groups = [*unfinished.conflicting, *unfinished.marred]
    partition_keys = {key for row in groups for key in file_group.partition_keys(row)}
    # Where many files are damaged, a run need not fail on each of them again.
    damaged = {*ledger.failed_files(), *(failed_files.blamed(plan.table, run) if unfinished.marred else ())}
    part = _PartOfTable(
        plan_id=f"{plan.id}-again-{unfinished.number}", partition_keys=partition_keys, without=sorted(damaged)
    )
    return _restricted(table, plan, part, run, ledger)


def _restricted(
    table: Table, plan: Plan, part: _PartOfTable, run: Run, ledger: Ledger
) -> PlannedWork[Plan | EmptyPlan]:
    """The plan for a part of the table, by the same policy."""
    head = planning_look.look_for(table, plan.table, plan.pin.branch, plan.policy, run)
    concerned = rebase.restrict(head.view, part.partition_keys, run_id=run.run_id, without=part.without)
    concerned = leases.leave_to_others(concerned, table_folders.entry(table), run)
    concerned = replace(target_partitions.add(table, concerned, head.manifests, run.cache), past=rewrite_past.LONG_AGO)
    budget = spending.budget(plan.policy, run, spent=ledger.spent)
    newer = cold_files.build_warm(
        table,
        concerned,
        plan.policy,
        run.clock(),
        lambda warm: build.build(
            warm, plan.policy, plan_id=part.plan_id, now_ms=run.clock(), rates=plan.copying.rates, budget=budget
        ),
    )
    return PlannedWork(plan=newer, manifests=head.manifests)
