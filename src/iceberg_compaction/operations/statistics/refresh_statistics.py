"""The operation `statistics` on the main line: plan from table metadata, count, write, register, tell. No row and no
snapshot changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.commit import spine
from iceberg_compaction.metadata import look
from iceberg_compaction.model import events, outcome, plurals, statistics_plan, upkeep_plan
from iceberg_compaction.model.statistics_plan import StatisticsGoal, StatisticsPlan
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.statistics import choose_statistics
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from pyiceberg.table.snapshots import Snapshot

    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

ONLY_PARTITIONS = StatisticsGoal()


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshStatistics(BeginsAnew):
    """Make the statistics that the head of a branch lacks."""

    table: str
    goal: StatisticsGoal = ONLY_PARTITIONS
    branch: str = "main"
    given: StatisticsPlan | None = None  # a plan made before, which is not exceeded

    @property
    def command(self) -> str:
        return journal.command_line("statistics", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[StatisticsPlan]:
        """What the head lacks, by the table's metadata; of a given plan what it still lacks."""
        if self.given is not None and self.given.table_uuid != str(table.metadata.table_uuid):
            raise errors.StalePlanError(
                f"The plan was made for another table that had the name {self.table}; plan again."
            )
        head = look.head_of(table, self.table, self.branch)
        chosen = choose_statistics.ChosenStatistics(partitions=False, columns=())
        if head is not None:
            chosen = self._of_given(choose_statistics.choose(table, head, self.goal))
        plan = StatisticsPlan(
            id=f"plan-{run.run_id}",
            table=self.table,
            table_uuid=str(table.metadata.table_uuid),
            branch=self.branch,
            created_ms=run.clock(),
            sentence=_sentence(head, chosen),
            steps=_steps(head, chosen),
            kept=tuple(upkeep_plan.UpkeepStep(name=name, count=1, sentence=reason) for name, reason in chosen.kept),
            goal=self.goal,
            snapshot_id=None if head is None else head.snapshot_id,
            of_partitions=chosen.partitions,
            columns=chosen.columns,
        )
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence))
        return PlannedWork(plan=plan)

    def idle(self, plan: StatisticsPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=self.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def perform(
        self, planned: PlannedWork[StatisticsPlan], table: Table, run: Run, ledger: Ledger, engines: EngineFactory
    ) -> outcome.Outcome:
        from iceberg_compaction.operations.statistics import make_statistics

        plan = planned.plan
        change, figures = make_statistics.make(plan, table, run, engines)
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        try:
            committed = spine.commit(table, change, run.finishing())
        except errors.NothingLeftError as error:
            return outcome.Healthy(table=self.table, sentence=str(error), run_id=run.run_id, plan_id=plan.id)
        return outcome.Maintained(
            table=self.table,
            operation=statistics_plan.STATISTICS,
            sentence=f"{_summary(figures)} made for snapshot {plan.snapshot_id}.",
            run_id=run.run_id,
            plan_id=plan.id,
            attempts=committed.attempts,
            figures=figures,
            notes=plan.notes,
        )

    def _of_given(self, chosen: choose_statistics.ChosenStatistics) -> choose_statistics.ChosenStatistics:
        if self.given is None:
            return chosen
        columns = tuple(name for name in chosen.columns if name in self.given.columns)
        return choose_statistics.ChosenStatistics(
            partitions=chosen.partitions and self.given.of_partitions, columns=columns, kept=chosen.kept
        )


def _steps(head: Snapshot | None, chosen: choose_statistics.ChosenStatistics) -> tuple[upkeep_plan.UpkeepStep, ...]:
    if head is None:
        return ()
    steps = []
    if chosen.partitions:
        sentence = f"counts of snapshot {head.snapshot_id}, from its manifests"
        steps.append(upkeep_plan.UpkeepStep(name="partition statistics", count=1, sentence=sentence))
    if chosen.columns:
        steps.append(
            upkeep_plan.UpkeepStep(
                name="distinct values",
                count=len(chosen.columns),
                sentence=f"{plurals.listed(list(chosen.columns[:8]))}: these columns are read in every data file",
            )
        )
    return tuple(steps)


def _sentence(head: Snapshot | None, chosen: choose_statistics.ChosenStatistics) -> str:
    if head is None:
        return "The table has no snapshot yet, so there is nothing to count."
    parts = ["partition statistics"] if chosen.partitions else []
    if chosen.columns:
        parts.append(f"distinct values of {plurals.count(len(chosen.columns), 'column')}")
    if parts:
        return f"To make: {' and '.join(parts)}."
    return "No statistics are missing."


def _summary(figures: dict[str, int]) -> str:
    parts = []
    if "partitions" in figures:
        parts.append(f"Statistics of {plurals.count(figures['partitions'], 'partition')}")
    if "columns" in figures:
        words = f"counts of distinct values of {plurals.count(figures['columns'], 'column')}"
        parts.append(words if parts else f"C{words[1:]}")
    return f"{' and '.join(parts)} were"
