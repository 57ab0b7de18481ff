"""New plans within a run: for groups that other commits made impossible, and for groups that failed for one of their
files, without that file. The ledger says which they are; each plan goes out, and the next is made once it was
performed."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata import look, target_partitions
from iceberg_compaction.model import file_group
from iceberg_compaction.model.rewrite_plan import EmptyPlan, LeftOutReason, Plan
from iceberg_compaction.operations.operation import PlannedWork
from iceberg_compaction.operations.rewrite_files import failed_files, rebase
from iceberg_compaction.plan import build
from iceberg_compaction.record import claims

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_CONFLICTS = 3  # plans for groups in conflict, at most: a table that never rests must not keep a run forever
_FAILURES = 20  # plans without damaged files, at most; each time it is another file


@dataclass(frozen=True, slots=True, kw_only=True)
class _Again:
    """Groups to plan again, as rows of PLAN_GROUPS, and for which time."""

    number: int
    conflicting: list[dict[str, Any]]
    marred: list[dict[str, Any]]


def plans(
    table: Table, plan: Plan, run: Run, ledger: Ledger, *, branch: str
) -> Iterator[tuple[Table, PlannedWork[Plan]]]:
    """Further plans by the same policy, each with the table that it was made on, as long as the last one left groups
    that another may bring home."""
    for number in itertools.count(1):
        replans = plan.policy.replan_conflicts and number <= _CONFLICTS
        conflicting = ledger.conflicting() if replans else []
        marred = ledger.marred() if number <= _FAILURES else []
        if not conflicting and not marred:
            return
        again = _Again(number=number, conflicting=conflicting, marred=marred)
        try:
            table = publish.reload(table)
            built = _build(table, plan, run, ledger, again, branch)
        except errors.CompactionError as error:
            ledger.remark(f"What {'conflicted' if conflicting else 'failed'} could not be planned anew: {error}")
            return
        newer = _judge(built.plan, ledger, again)
        if newer is None:
            return
        ledger.open(newer)
        yield table, PlannedWork(plan=newer, manifests=built.manifests)


def _judge(newer: Plan | EmptyPlan, ledger: Ledger, again: _Again) -> Plan | None:
    """The new plan with ids of its own; None: nothing can or need be done."""
    if isinstance(newer, Plan) and len(newer.groups):
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


def _build(
    table: Table, plan: Plan, run: Run, ledger: Ledger, again: _Again, branch: str
) -> PlannedWork[Plan | EmptyPlan]:
    head = look.look(table, name=plan.table, branch=branch, where=plan.policy.where, cache=run.cache)
    partition_keys = {key for row in [*again.conflicting, *again.marred] for key in file_group.partition_keys(row)}
    # Where many files are damaged, a run need not find each of them again.
    damaged = {*ledger.failed_files(), *(failed_files.blamed(plan.table, run) if again.marred else ())}
    concerned = rebase.only(head.view, partition_keys, run_id=run.run_id, without=sorted(damaged))
    concerned = target_partitions.add(table, claims.leave_to_others(concerned, run), head.manifests, run.cache)
    plan_id = f"{plan.id}-again-{again.number}"
    newer = build.build(concerned, plan.policy, plan_id=plan_id, now_ms=run.clock(), rates=plan.copying.rates)
    return PlannedWork(plan=newer, manifests=head.manifests)
