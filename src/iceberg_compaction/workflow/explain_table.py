"""Why a table is compacted or not: its policy with origins, and the plan that a run would make now. The table is loaded
once, and nothing is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from iceberg_compaction import errors
from iceberg_compaction.catalog import load_tables
from iceberg_compaction.model import explanation, partition_words, plurals
from iceberg_compaction.model.delete_choice import DeleteWay
from iceberg_compaction.model.explanation import ExplainedVerdict, Explanation
from iceberg_compaction.operations import run_ledger
from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
from iceberg_compaction.policy import all_settings, decline, due_times, quiet_time

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from iceberg_compaction.model.policy_origin import EffectivePolicy
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.policy.policy_book import PolicyBook
    from iceberg_compaction.record.runs import Run


_MOST_WAYS = 20  # partitions


class PolicySource(Protocol):
    """Whoever knows the policies of all tables."""

    @property
    def book(self) -> PolicyBook: ...

    def effective(self, table: str, properties: Mapping[str, str]) -> EffectivePolicy: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainRequest:
    """The table in question."""

    table: str
    source: PolicySource
    branch: str = "main"


def effective_policy(catalog: Catalog, request: ExplainRequest) -> EffectivePolicy:
    """The policy of a table alone, without a plan."""
    table = load_tables.load_table(catalog, request.table)
    return request.source.effective(request.table, table.properties)


def explain(catalog: Catalog, request: ExplainRequest, run: Run) -> Explanation:
    """What a run would do to the table now, and why. ConfigError or MetadataError: its policy cannot be used."""
    table = load_tables.load_table(catalog, request.table)
    effective = request.source.effective(request.table, table.properties)
    declined = decline.reason(effective, run.clock())
    outcome: dict[str, Any]
    plan = None
    try:
        plan = _plan(table, request, effective, run)
        outcome = _outcome(plan)
    except (errors.UnsupportedError, errors.MaintainedError) as error:
        outcome = {"verdict": ExplainedVerdict.UNSUPPORTED, "sentence": str(error)}
    if declined is not None:
        outcome |= {"verdict": ExplainedVerdict.DECLINED}
    return Explanation(
        table=request.table,
        declined=declined,
        policy_digest=effective.policy.digest,
        profile=effective.profile,
        environment=effective.policy.environment,
        triggers=effective.policy.rewrite.triggers.preset.value,
        upkeep=all_settings.upkeep(effective.policy.maintenance),
        settings=all_settings.all_settings(
            effective, request.source.book.spellings, None if plan is None else plan.sizes
        ),
        ignored=effective.ignored,
        **outcome,
        **_times(effective, run.clock()),
    )


def _plan(table: Table, request: ExplainRequest, effective: EffectivePolicy, run: Run) -> Plan | EmptyPlan:
    operation = RewriteFiles(table=request.table, policy=effective.policy.rewrite, branch=request.branch)
    return operation.plan(table, run, run_ledger.Ledger(table=request.table, run_id=run.run_id)).plan


def _outcome(plan: Plan | EmptyPlan) -> dict[str, Any]:
    return {
        "verdict": ExplainedVerdict.HEALTHY if plan.empty else ExplainedVerdict.RUNS,
        "sentence": plan.sentence,
        "reasons": (*(kind.sentence for kind in plan.groups.kinds()), *_ways(plan, done=True)),
        "left_alone": (*(left.sentence for left in plan.left_out), *_ways(plan, done=False)),
        "gain": None if plan.empty else explanation.gain_of(plan),
    }


def _ways(plan: Plan | EmptyPlan, *, done: bool) -> list[str]:
    """What becomes of the deletes of partitions, or why they stay."""
    ways = [each for each in plan.deletes if (each.way is not DeleteWay.LEAVE) is done]
    named = [f"{partition_words.text(each.partition) or 'the table'}: {each.sentence}" for each in ways[:_MOST_WAYS]]
    more = len(ways) - len(named)
    return [*named, f"{plurals.count(more, 'more partition')} with deletes"] if more > 0 else named


def _times(effective: EffectivePolicy, now_ms: int) -> dict[str, Any]:
    policy, now = effective.policy, quiet_time.moment(now_ms)
    return {
        "cron": policy.schedule.cron,
        "time_zone": policy.schedule.time_zone,
        "next_due_ms": _ms(due_times.next_due(policy, now)),
        "quiet_until_ms": _ms(quiet_time.quiet_until(policy.quiet_hours, now)),
    }


def _ms(moment: datetime | None) -> int | None:
    return None if moment is None else round(moment.timestamp() * 1000)
