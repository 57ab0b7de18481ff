"""Plans groups again within a run: groups in conflict with other commits, and groups that failed because of one damaged
file, without that file. The ledger lists them. Each plan goes out, and the next is made once it was performed."""

from __future__ import annotations

import itertools
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
from iceberg_compaction.operations.rewrite_files.planning import planning_look, spending
from iceberg_compaction.plan import build
from iceberg_compaction.record import leases

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_MAX_CONFLICT_PLANS = 3  # plans for groups in conflict, at most: a table that never rests must not keep a run forever
_MAX_FAILURE_PLANS = 20  # plans without damaged files, at most; each time it is another file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unfinished:
    """Groups to plan again, as rows of PLAN_GROUPS, and the number of this plan."""

    number: int
    conflicting: list[dict[str, Any]]
    marred: list[dict[str, Any]]


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


def _accept(newer: Plan | EmptyPlan, ledger: Ledger, unfinished: _Unfinished) -> Plan | None:
    """Give the new plan group ids of its own. None: there is nothing left to do, or nothing that this run can do."""
    if isinstance(newer, Plan) and len(newer.groups):
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
    head = planning_look.look_for(table, plan.table, plan.pin.branch, plan.policy, run)
    groups = [*unfinished.conflicting, *unfinished.marred]
    partition_keys = {key for row in groups for key in file_group.partition_keys(row)}
    # Where many files are damaged, a run need not fail on each of them again.
    damaged = {*ledger.failed_files(), *(failed_files.blamed(plan.table, run) if unfinished.marred else ())}
    concerned = rebase.restrict(head.view, partition_keys, run_id=run.run_id, without=sorted(damaged))
    concerned = leases.leave_to_others(concerned, table_folders.entry(table), run)
    concerned = replace(target_partitions.add(table, concerned, head.manifests, run.cache), past=rewrite_past.LONG_AGO)
    plan_id = f"{plan.id}-again-{unfinished.number}"
    newer = build.build(
        concerned,
        plan.policy,
        plan_id=plan_id,
        now_ms=run.clock(),
        rates=plan.copying.rates,
        budget=spending.budget(plan.policy, run, spent=ledger.spent),
    )
    return PlannedWork(plan=newer, manifests=head.manifests)
