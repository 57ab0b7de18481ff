"""Operations on tables, in the words of tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.model.statistics_plan import StatisticsGoal
from iceberg_compaction.operations.deletes.delete_upkeep import CleanDeletes
from iceberg_compaction.operations.expire.expire_snapshots import ExpireSnapshots
from iceberg_compaction.operations.rewrite_files.file_rewrite import ApplyPlan, RewriteFiles
from iceberg_compaction.operations.rewrite_files.resume.resume_run import ResumeRun
from iceberg_compaction.operations.rewrite_manifests.manifest_rewrite import ANY, ManifestGoal, RewriteManifests
from iceberg_compaction.operations.statistics.refresh_statistics import RefreshStatistics
from iceberg_compaction.operations.undo.judge_undo import UndoRequest
from iceberg_compaction.operations.undo.undo_run import UndoRun
from iceberg_compaction.workflow import operate, resumable

if TYPE_CHECKING:
    from iceberg_compaction.model.manifest_plan import ManifestPlan
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.record.runs import Run

EVERYTHING_OLD = RetentionGoal(older_than_ms=10**14, allow_recent=True)  # however young it is


def compact_table(catalog: Any, name: str, policy: Policy, engines: Any, run: Run) -> Outcome:
    return operate.operate(RewriteFiles(table=name, policy=policy), _house(catalog, engines), run)


def resume(catalog: Any, run_id: str, engines: Any, run: Run) -> Outcome:
    head = resumable.find(run, run_id).head
    operation = ResumeRun(table=head.entry.table, run_id=head.run_id, branch=head.branch)
    return operate.operate(operation, _house(catalog, engines), run)


def undo(catalog: Any, name: str, run_id: str, engines: Any, run: Run) -> Outcome:
    request = UndoRequest(table=name, undone_run_id=run_id)
    return operate.operate(UndoRun(request=request), _house(catalog, engines), run)


def plan_table(catalog: Any, name: str, policy: Policy, run: Run, branch: str = "main") -> Plan:
    return operate.plan_only(RewriteFiles(table=name, policy=policy, branch=branch), _house(catalog), run)


def apply_plan(catalog: Any, plan: Plan, engines: Any, run: Run) -> Outcome:
    return operate.operate(ApplyPlan(given=plan), _house(catalog, engines), run)


def rewrite_manifests(catalog: Any, name: str, run: Run, goal: ManifestGoal = ANY, branch: str = "main") -> Outcome:
    return operate.operate(RewriteManifests(table=name, goal=goal, branch=branch), _house(catalog), run)


def clean_deletes(catalog: Any, name: str, engines: Any, run: Run) -> Outcome:
    return operate.operate(CleanDeletes(table=name), _house(catalog, engines), run)


def refresh_statistics(catalog: Any, name: str, engines: Any, run: Run) -> Outcome:
    """Of partitions and of two columns, so that there are two files."""
    goal = StatisticsGoal(columns=("id", "name"))
    return operate.operate(RefreshStatistics(table=name, goal=goal), _house(catalog, engines), run)


def plan_manifests(catalog: Any, name: str, run: Run, goal: ManifestGoal = ANY) -> ManifestPlan:
    return operate.plan_only(RewriteManifests(table=name, goal=goal), _house(catalog), run)


def expire(catalog: Any, name: str, run: Run, goal: RetentionGoal = EVERYTHING_OLD) -> Outcome:
    return operate.operate(ExpireSnapshots(table=name, goal=goal), _house(catalog), run)


def _house(catalog: Any, engines: Any = None) -> operate.House:
    return operate.House(catalog=catalog, engines=engines or wiring.engine_factory("inline"))
