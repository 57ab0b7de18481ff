"""The operation `rewrite_manifests`: many small or scattered manifests become few that are clustered by partition. No
data file is read or written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.model import byte_size, events, manifest_plan, outcome, plurals
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_manifests import choose_manifests, manifest_change, manifest_facts
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.metadata.manifest.snapshot_manifests import SnapshotManifests
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestGoal:
    """The goal of a rewrite of manifests."""

    target_size_bytes: int | None = None  # None: the table's own setting
    spec_id: int | None = None  # None: all partition specs

    def __post_init__(self) -> None:
        if self.target_size_bytes is not None and self.target_size_bytes < manifest_plan.LEAST_TARGET:
            raise errors.ConfigError(
                f"A manifest of {byte_size.format_size(self.target_size_bytes)} would hold little beside its header; "
                f"the target size is {byte_size.format_size(manifest_plan.LEAST_TARGET)} at least."
            )


ANY = ManifestGoal()


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteManifests(BeginsAnew):
    """Cluster the manifests of a branch by partition, in manifests of about the target size, where that is worth a
    commit."""

    table: str
    goal: ManifestGoal = ANY
    branch: str = "main"

    @property
    def command(self) -> str:
        return journal.command_line("manifests", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[manifest_plan.ManifestPlan]:
        """The manifests to write again, and why. Reads metadata, writes nothing."""
        snapshot = look.head_of(table, self.table, self.branch)
        manifests = _live_manifests(table, snapshot)
        request = choose_manifests.ManifestPlanRequest(
            plan_id=f"plan-{run.run_id}",
            table=self.table,
            now_ms=run.clock(),
            pin=look.pin_of(table, self.branch, snapshot) if snapshot else None,
            target=self.goal.target_size_bytes or manifest_facts.target_size(table),
            spec_id=_existing_spec(table, self.table, self.goal.spec_id),
            unwritable_specs=manifest_facts.unwritable_specs(table),
        )
        facts = manifest_facts.read(table, manifests, branch=self.branch, cache=run.cache) if manifests else []
        plan = choose_manifests.build(facts, request)
        files, size = sum(group.entries for group in plan.groups), sum(group.bytes for group in plan.groups)
        figures = {"files": files, "bytes": size, "groups": len(plan.groups)}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, **figures))
        return PlannedWork(plan=plan, manifests=manifests)

    def perform(
        self,
        planned: PlannedWork[manifest_plan.ManifestPlan],
        table: Table,
        run: Run,
        ledger: Ledger,
        engines: EngineFactory,
    ) -> outcome.Outcome:
        plan = planned.plan
        assert planned.manifests is not None  # a plan without a snapshot is empty
        progress = _EntryProgress(plan, run)
        request = manifest_change.RewriteRequest(
            plan=plan,
            sources=planned.manifests.manifest_files,
            snapshot_properties=snapshot_summary.signature(run.run_id) | {run_commits.BRANCH: self.branch},
            on_entries=progress.on_entries,
        )
        result = manifest_change.rewrite_manifests(table, request, run, on_commit=progress.on_commit)
        run.emit(events.Committed(table=plan.table, run_id=run.run_id, snapshot_id=result.snapshot_id))
        return _rewritten(plan, result, run)

    def idle(self, plan: manifest_plan.ManifestPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)


def _live_manifests(table: Table, snapshot: Snapshot | None) -> SnapshotManifests | None:
    """The manifests of a snapshot that list live files, with their counts. UnsupportedError: they cannot be
    rewritten."""
    manifests = snapshot_manifests.read(table.io, snapshot) if snapshot else None
    manifest_facts.check(table, manifests.manifest_files if manifests else ())
    return None if manifests is None else manifest_facts.with_live_files(table, manifests)


def _existing_spec(table: Table, name: str, spec_id: int | None) -> int | None:
    if spec_id is not None and spec_id not in table.specs():
        spec_ids = ", ".join(str(each) for each in sorted(table.specs()))
        raise errors.ConfigError(f"{name} has no partition spec {spec_id}; it has {spec_ids}.")
    return spec_id


def _rewritten(plan: manifest_plan.ManifestPlan, result: manifest_change.RewriteResult, run: Run) -> outcome.Outcome:
    replaced = plurals.count(plan.replaced, "manifest")
    files = plurals.count(result.digest.entries, "file")
    return outcome.Compacted(
        table=plan.table,
        sentence=(
            f"{replaced} became {result.manifests} in snapshot {result.snapshot_id}; the {files} that they list, and "
            "since when, are the same."
        ),
        run_id=run.run_id,
        plan_id=plan.id,
        snapshot_id=result.snapshot_id,
        snapshot_ids=(result.snapshot_id,),
        manifests_removed=plan.replaced,
        manifests_added=result.manifests,
        manifest_entries=result.digest.entries,
        attempts=result.attempts,
    )


class _EntryProgress:
    """Entries that have been read."""

    def __init__(self, plan: manifest_plan.ManifestPlan, run: Run) -> None:
        self._plan, self._run, self._done = plan, run, 0
        self._files = sum(group.entries for group in plan.groups)
        self._bytes = sum(group.bytes for group in plan.groups)
        self._emit()

    def on_entries(self, count: int) -> None:
        self._done += count
        self._emit()

    def on_commit(self) -> None:
        self._run.emit(events.Committing(table=self._plan.table, run_id=self._run.run_id))

    def _emit(self) -> None:
        self._run.emit(
            events.Rewriting(
                table=self._plan.table,
                run_id=self._run.run_id,
                files_done=self._done,
                files_total=self._files,
                bytes_done=self._bytes * self._done // max(1, self._files),
                bytes_total=self._bytes,
            )
        )
