"""The operation `tags` on the main line: plan from metadata, commit, tell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.metadata import look
from iceberg_compaction.model import events, outcome, plurals, tag_plan, upkeep_plan
from iceberg_compaction.model.snapshot_retention import SnapshotFacts
from iceberg_compaction.model.tag_plan import TagGoal, TagPlan
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.tags import tag_change
from iceberg_compaction.plan.tagging import choose_tags
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table

    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_PASSED_OVER = {
    choose_tags.EXISTS: "there is a branch or tag of that name",
    choose_tags.UNCHANGED: "nothing was committed in that time (--only-changed)",
    choose_tags.UNKNOWN: "the table had no snapshot then, or has it no more",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeTags(BeginsAnew):
    """Make the tags that a branch lacks."""

    table: str
    goal: TagGoal
    branch: str = "main"
    given: TagPlan | None = None  # a plan made before, which is not exceeded

    @property
    def command(self) -> str:
        return journal.command_line("tags", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[TagPlan]:
        """The tags that the branch lacks now; of a given plan those that it still lacks."""
        head = look.head_of(table, self.table, self.branch)
        line = run_commits.history(table.metadata, head.snapshot_id if head else None).values()
        facts = [
            SnapshotFacts(snapshot_id=each.snapshot_id, parent_id=None, timestamp_ms=each.timestamp_ms) for each in line
        ]
        now_ms = run.clock()
        choice = choose_tags.choose(facts, table.metadata.refs.keys(), self.goal, now_ms)
        tags = choice.tags if self.given is None else self._of_given(self.given, choice.tags, table)
        plan = TagPlan(
            id=f"plan-{run.run_id}",
            table=self.table,
            table_uuid=str(table.metadata.table_uuid),
            branch=self.branch,
            created_ms=now_ms,
            sentence=f"{plurals.count(len(tags), 'tag')} to make." if tags else "No tag is missing.",
            steps=tuple(
                upkeep_plan.UpkeepStep(name=each.name, count=1, sentence=f"for snapshot {each.snapshot_id}")
                for each in tags
            ),
            kept=tuple(
                upkeep_plan.UpkeepStep(name=f"{self.goal.every.value}s", count=count, sentence=_PASSED_OVER[reason])
                for reason, count in choice.passed_over.items()
            ),
            notes=self._notes(),
            goal=self.goal,
            tags=tags,
        )
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence))
        return PlannedWork(plan=plan)

    def idle(self, plan: TagPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=self.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def perform(
        self, planned: PlannedWork[TagPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        plan = planned.plan
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        committed = spine.commit(table, tag_change.TagChange(plan=plan), run.finishing())
        made = committed.staged.tags
        return outcome.Maintained(
            table=self.table,
            operation=tag_plan.TAGS,
            sentence=f"{plurals.count(len(made), 'tag')} made: {plurals.listed([each.name for each in made[-5:]])}.",
            run_id=run.run_id,
            plan_id=plan.id,
            attempts=committed.attempts,
            figures={"tags": len(made)},
            notes=plan.notes,
        )

    def _of_given(self, given: TagPlan, tags: tuple[tag_plan.NewTag, ...], table: Table) -> tuple[tag_plan.NewTag, ...]:
        if given.table_uuid != str(table.metadata.table_uuid):
            raise errors.StalePlanError(
                f"The plan was made for another table that had the name {given.table}; plan again."
            )
        wanted = {(each.name, each.snapshot_id) for each in given.tags}
        return tuple(each for each in tags if (each.name, each.snapshot_id) in wanted)

    def _notes(self) -> tuple[str, ...]:
        if self.goal.keep_ms is None:
            return ("The tags stay until somebody removes them, and with them all that they hold.",)
        days = self.goal.keep_ms / 86_400_000
        return (f"`expire` removes each tag {days:g} days after the end of its {self.goal.every.value}.",)
