"""The operation `ttl`: data files all of whose rows are past their time leave the table, as one `delete` snapshot.
Others stay, or are written anew without such rows. The files themselves stay in storage until snapshots expire,
so that the rows can still be read by time travel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.table.snapshots import Operation

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.metadata import look, support
from iceberg_compaction.metadata.manifest import column_metrics, live_files, snapshot_manifests
from iceberg_compaction.model import byte_size, events, outcome, plurals, rewrite_plan, table_view, ttl_plan
from iceberg_compaction.operations.operation import BeginsAnew, PlannedWork
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.operations.rewrite_files.change import replace_files
from iceberg_compaction.operations.ttl import choose_files, rewrite_rest, time_bound, ttl_outcome
from iceberg_compaction.record import journal

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from pyiceberg.table import Table

    from iceberg_compaction.model.ttl_plan import TtlGoal
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.operations.ttl.choose_files import ChosenFiles
    from iceberg_compaction.operations.ttl.time_bound import TimeBound
    from iceberg_compaction.record.runs import Run

COLUMN, BEFORE = "compaction.ttl.column", "compaction.ttl.before"  # properties of the snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class ExpireRows(BeginsAnew):
    """By a goal, or by a plan made before, of which the files that still are in the table go."""

    table: str
    goal: TtlGoal
    branch: str = "main"
    given: ttl_plan.TtlPlan | None = None

    @property
    def command(self) -> str:
        return journal.command_line("ttl", self.table, self.branch)

    def plan(self, table: Table, run: Run, ledger: Ledger) -> PlannedWork[ttl_plan.TtlPlan]:
        """The files that go, from metadata alone. Writes nothing."""
        if self.given is not None and str(table.metadata.table_uuid) != self.given.table_uuid:
            raise errors.StalePlanError(f"{self.table} was dropped and created anew since the plan was made.")
        bound = time_bound.bound(self._goal(), table, self.branch, run.clock())
        snapshot = look.head_of(table, self.table, self.branch)
        chosen = _choose(table, self._goal(), bound, self.branch, run)
        if self.given is not None:
            chosen = _only(chosen, self.given)
        plan = ttl_plan.TtlPlan(
            id=f"plan-{run.run_id}",
            table=self.table,
            table_uuid=str(table.metadata.table_uuid),
            branch=self.branch,
            created_ms=run.clock(),
            sentence=_sentence(chosen, bound),
            steps=choose_files.going_lines(chosen, bound.column, bound.words),
            kept=choose_files.staying_lines(chosen, bound.column, bound.words),
            goal=self.goal,
            pin=None if snapshot is None else look.pin_of(table, self.branch, snapshot),
            before=bound.words,
            before_micros=bound.micros,
            file_paths=_paths(chosen, chosen.going),
            rewritten_paths=_paths(chosen, chosen.rewritten),
        )
        if chosen.everything and not self.goal.even_everything:
            raise errors.ConfigError(
                f"No row of {self.table} would be left: all are before {bound.words}. Check the column and its unit; "
                "give --even-everything if that is what you want."
            )
        files, size = len(plan.file_paths), sum(step.bytes or 0 for step in plan.steps)
        figures = {"files": files, "bytes": size, "groups": len(plan.steps)}
        run.emit(events.Planned(table=self.table, run_id=run.run_id, sentence=plan.sentence, **figures))
        return PlannedWork(plan=plan)

    def perform(
        self,
        planned: PlannedWork[ttl_plan.TtlPlan],
        table: Table,
        run: Run,
        ledger: Ledger,
        engines: EngineFactory,
    ) -> outcome.Outcome:
        plan = planned.plan
        goal = self._goal().model_copy(update={"before_micros": plan.before_micros, "older_than_ms": None})
        bound = time_bound.bound(goal, table, self.branch, run.clock())
        removal = self._remove_files(plan, bound, goal, table, run) if plan.file_paths else None
        if plan.rewritten_paths:
            rewrite_rest.rewrite(plan, bound.rows, table, run, ledger, engines)
        return ttl_outcome.outcome_of(plan, removal, ledger.facts(), run.run_id)

    def _remove_files(
        self, plan: ttl_plan.TtlPlan, bound: TimeBound, goal: TtlGoal, table: Table, run: Run
    ) -> ttl_outcome.LeavingFiles:
        """Commit that whole files leave."""
        assert plan.pin is not None  # a plan without a snapshot is empty
        chosen = _only(_choose(table, goal, bound, self.branch, run), plan)
        groups = [_group(number, *each) for number, each in enumerate(choose_files.groups(chosen), 1)]
        properties = snapshot_summary.signature(run.run_id) | {
            run_commits.BRANCH: self.branch,
            COLUMN: bound.column,
            BEFORE: bound.words,
            **run_commits.past_properties(bound.rows),
        }
        request = replace_files.ReplaceRequest(
            pin=plan.pin, groups=tuple(groups), snapshot_properties=properties, operation=Operation.DELETE
        )
        run.emit(events.Committing(table=self.table, run_id=run.run_id))
        result = replace_files.replace(table, request, run)
        run.emit(events.Committed(table=self.table, run_id=run.run_id, snapshot_id=result.snapshot_id))
        landed = tuple(group for group in groups if group.id in result.landed)
        return ttl_outcome.LeavingFiles(groups=landed, result=result)

    def idle(self, plan: ttl_plan.TtlPlan, run: Run, ledger: Ledger) -> outcome.Outcome:
        return outcome.Healthy(table=plan.table, sentence=plan.sentence, run_id=run.run_id, plan_id=plan.id)

    def _goal(self) -> TtlGoal:
        """The goal; that of a given plan keeps its moment, however old the plan is."""
        if self.given is None:
            return self.goal
        return self.goal.model_copy(update={"before_micros": self.given.before_micros, "older_than_ms": None})


def _choose(table: Table, goal: TtlGoal, bound: TimeBound, branch: str, run: Run) -> ChosenFiles:
    snapshot = table.metadata.snapshot_by_name(branch)
    files = live_files.no_files(metrics=bound.kept.field_ids)
    if snapshot is not None:
        manifests = snapshot_manifests.read(table.io, snapshot)
        files = live_files.live_files(table, manifests, metrics=bound.kept.field_ids, cache=run.cache, branch=branch)
    view = files.select(table_view.FILES.names)
    if reasons := support.unsupported(table, view):
        raise errors.UnsupportedError(f"{'.'.join(table.name())} cannot be changed safely: {reasons[0]}")
    lower, nulls = (
        files[column_metrics.column(metric, bound.rows.field_id)] for metric in ("lower_bounds", "null_value_counts")
    )
    may_be_newer = np.asarray(bound.newer.select(files, table.specs()))
    masks = choose_files.TimeMasks(
        may_stay=np.asarray(bound.kept.select(files, table.specs())),
        may_go=np.asarray(bound.past.select(files, table.specs())),
        bounded=np.asarray(pc.is_valid(lower)),
        doubtful=~may_be_newer & np.asarray(pc.is_null(nulls)),
    )
    return choose_files.choose(view, masks, goal)


def _paths(chosen: ChosenFiles, mask: NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(chosen.files.filter(pa.array(mask))["file_path"].to_pylist())


def _only(chosen: ChosenFiles, plan: ttl_plan.TtlPlan) -> ChosenFiles:
    """Of the files that go or are written anew, those that a plan names."""
    going, rewritten = (
        np.asarray(pc.is_in(chosen.files["file_path"], value_set=pa.array(paths, pa.string())))
        for paths in (plan.file_paths, plan.rewritten_paths)
    )
    return replace(chosen, going=chosen.going & going, rewritten=chosen.rewritten & rewritten)


def _group(number: int, key: tuple[int, str], files: pa.Table) -> replace_files.ReplaceGroup:
    return replace_files.ReplaceGroup(
        id=number,
        removed=files.select(rewrite_plan.PLAN_FILES.names).cast(rewrite_plan.PLAN_FILES),
        partitions=(key,),
        added=(),
        deleted_records=int(pc.sum(files["record_count"]).as_py() or 0),
    )


def _sentence(chosen: ChosenFiles, bound: TimeBound) -> str:
    count = int(chosen.going.sum())
    rewritten = int(chosen.rewritten.sum())
    if not count and rewritten:
        files, be = plurals.count(rewritten, "data file"), plurals.form(rewritten, "is", "are")
        return f"{files} {be} written anew without the rows whose {bound.column} is before {bound.words}."
    if not count:
        return f"Nothing to do: no data file has only rows whose {bound.column} is before {bound.words}."
    size = int(chosen.files["file_size_in_bytes"].to_numpy()[chosen.going].sum())
    rows = int(chosen.files["record_count"].to_numpy()[chosen.going].sum())
    return (
        f"{plurals.count(count, 'data file')} with {plurals.count(rows, 'row')} ({byte_size.format_size(size)}) "
        f"{plurals.form(count, 'goes', 'go')}: {bound.column} is before {bound.words}."
    )
