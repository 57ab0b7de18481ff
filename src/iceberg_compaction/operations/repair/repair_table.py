"""The operation `repair` on the main line: find, mend, tell. Corrections are one `replace` snapshot; files that are
missing leave by a `delete` snapshot of their own, and only if that is asked for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.metadata import look
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.model import events, outcome, plurals, repair_plan
from iceberg_compaction.model.repair_plan import Remedy, RepairGoal, RepairPlan
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.repair import drop_missing, find_damage, repair_change, repair_words
from iceberg_compaction.operations.rewrite_manifests import manifest_facts
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.model.repair_plan import Finding
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class RepairTable(BeginsAnew):
    """Find what is wrong with the metadata of a branch's head, and mend it."""

    table: str
    goal: RepairGoal
    branch: str = "main"
    given: RepairPlan | None = None  # a plan made before, which is not exceeded

    @property
    def command(self) -> str:
        return journal.command_line("repair", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[RepairPlan]:
        """Everything that is wrong now; of a given plan what is still wrong. Reads metadata and asks storage for each
        file, writes nothing."""
        if self.given is not None and self.given.table_uuid != str(table.metadata.table_uuid):
            raise errors.StalePlanError(f"{self.table} was dropped and created anew since the plan was made.")
        head = look.head_of(table, self.table, self.branch)
        manifests = None if head is None else snapshot_manifests.read(table.io, head)
        manifest_facts.check(table, () if manifests is None else manifests.manifest_files)
        damage = find_damage.FoundDamage()
        if manifests is not None:
            damage = find_damage.find(table, manifests, self.goal, run)
        self._check_share(damage)
        findings = damage.findings
        if self.given is not None:
            named = {finding.key for finding in self.given.findings}
            findings = tuple(finding for finding in findings if finding.key in named)
        more = len(findings) > repair_plan.MOST_FINDINGS
        findings = findings[: repair_plan.MOST_FINDINGS]
        plan = RepairPlan(
            id=f"plan-{run.run_id}",
            table=self.table,
            table_uuid=str(table.metadata.table_uuid),
            branch=self.branch,
            created_ms=run.clock(),
            sentence=repair_words.sentence(findings, deep=self.goal.deep),
            steps=repair_words.lines([each for each in findings if self._mends(each)], mended=True),
            kept=repair_words.lines([each for each in findings if not self._mends(each)], mended=False),
            notes=repair_words.notes(findings, more=more),
            goal=self.goal,
            pin=None if head is None else look.pin_of(table, self.branch, head),
            findings=findings,
        )
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence))
        return PlannedWork(plan=plan, manifests=manifests)

    def idle(self, plan: RepairPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        """A table whose damage no command mends is not healthy."""
        kind = outcome.Failed if plan.sick else outcome.Healthy
        return kind(table=self.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def perform(
        self, planned: PlannedWork[RepairPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        plan = planned.plan
        assert plan.pin is not None  # a plan without a snapshot is empty
        assert planned.manifests is not None
        properties = snapshot_summary.signature(run.run_id) | {run_commits.BRANCH: self.branch}
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        mended = None
        if fixes := plan.with_remedy(Remedy.FIX):
            request = repair_change.RepairRequest(
                pin=plan.pin,
                findings=fixes,
                manifest_files=planned.manifests.manifest_files,
                snapshot_properties=properties,
            )
            mended = repair_change.mend(table, request, run)
            run.emit(events.Committed(table=self.table, run_id=run.run_id, snapshot_id=mended.snapshot_id))
        dropped = self._drop(plan, table, run, properties)
        return _outcome(plan, mended, dropped, run)

    def _drop(
        self, plan: RepairPlan, table: Table, run: Run, properties: dict[str, str]
    ) -> drop_missing.DroppedFiles | None:
        lost = plan.with_remedy(Remedy.DROP_MISSING) if self.goal.drop_missing else ()
        if not lost:
            return None
        paths = sorted({finding.path for finding in lost})
        dropped = drop_missing.drop(publish.reload(table), paths, run, branch=self.branch, properties=properties)
        if dropped is not None:
            run.emit(events.Committed(table=self.table, run_id=run.run_id, snapshot_id=dropped.snapshot_id))
        return dropped

    def _check_share(self, damage: find_damage.FoundDamage) -> None:
        """Raises where missing files would be dropped that more likely are elsewhere: a store that was moved, or that
        is not the one that the table was written to, has none of them."""
        missing = sum(each.remedy is Remedy.DROP_MISSING for each in damage.findings)
        if self.goal.drop_missing and not self.goal.even_most and 2 * missing > damage.data_files:
            raise errors.ConfigError(
                f"{missing:,} of {plurals.count(damage.data_files, 'data file')} of {self.table} are missing, so that "
                "the store or a folder is gone rather than single files. Check that first; give --even-most to drop "
                "them all the same."
            )

    def _mends(self, finding: Finding) -> bool:
        return finding.remedy is Remedy.FIX or (finding.remedy is Remedy.DROP_MISSING and self.goal.drop_missing)


def _outcome(
    plan: RepairPlan,
    mended: repair_change.RepairResult | None,
    dropped: drop_missing.DroppedFiles | None,
    run: Run,
) -> outcome.Outcome:
    sentences, snapshots = [], []
    fixes = len(plan.with_remedy(Remedy.FIX))
    if mended is not None:
        snapshots.append(mended.snapshot_id)
        manifests = plurals.count(mended.replaced, "manifest")
        sentences.append(
            f"{plurals.count(fixes, 'finding')} in {manifests} {plurals.form(fixes, 'was', 'were')} mended in snapshot "
            f"{mended.snapshot_id}."
        )
    if dropped is not None:
        snapshots.append(dropped.snapshot_id)
        files, rows = plurals.count(dropped.files, "missing data file"), plurals.count(dropped.rows, "row")
        sentences.append(f"{files} with {rows} left the table in snapshot {dropped.snapshot_id}; the rows are lost.")
        if dropped.conflicts:
            sentences.append(f"{plurals.count(dropped.conflicts, 'partition')} changed meanwhile; run it again.")
    rest = sum(step.count for step in plan.kept)
    if rest:
        sentences.append(f"{plurals.count(rest, 'finding')} {plurals.form(rest, 'is', 'are')} left.")
    helps = tuple(f"{step.name}: {step.sentence}" for step in plan.kept)
    return outcome.Maintained(
        table=plan.table,
        operation="repair",
        sentence=" ".join(sentences) or "Nothing was left to do.",
        run_id=run.run_id,
        plan_id=plan.id,
        snapshot_id=snapshots[-1] if snapshots else None,
        snapshot_ids=tuple(snapshots),
        files_removed=0 if dropped is None else dropped.files,
        bytes_removed=0 if dropped is None else dropped.bytes,
        deleted_rows=0 if dropped is None else dropped.rows,
        manifests_removed=0 if mended is None else mended.replaced,
        manifests_added=0 if mended is None else mended.made,
        attempts=(0 if mended is None else mended.attempts) + (0 if dropped is None else dropped.attempts),
        figures={"mended": fixes, "dropped": 0 if dropped is None else dropped.files, "left": rest},
        notes=helps,
    )
