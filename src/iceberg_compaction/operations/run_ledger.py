"""The ledger of a run: the end of every group and all commits, entered as they happen, so that the facts are there
however the run ends. Nothing is inferred by subtraction: each group has an entry, or was not reached."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome
from iceberg_compaction.operations import run_facts, run_outcome

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iceberg_compaction.model import outcome
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.model.run_figures import TableFigures
    from iceberg_compaction.operations.run_facts import CommitFacts, Note, RewrittenBy, RunFacts


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One run on one table. Groups have ids of their own in all plans of the run."""

    table: str
    run_id: str
    commits: list[CommitFacts] = field(default_factory=list)
    gone_on_with: set[str] = field(default_factory=set)  # dead runs of the same policy
    spent: float = 0.0  # dollars of tasks
    figures: TableFigures | None = None  # the planned table with the run's commits; None: the plan measured none
    _plans: list[Plan | EmptyPlan] = field(default_factory=list)
    _groups: dict[int, dict[str, Any]] = field(default_factory=dict)  # rows of PLAN_GROUPS
    _plan_of: dict[int, Plan | EmptyPlan] = field(default_factory=dict)  # by group
    _ends: dict[int, GroupOutcome] = field(default_factory=dict)
    _notes: list[Note] = field(default_factory=list)
    _marred: dict[int, str] = field(default_factory=dict)  # groups that failed for one data file alone
    _refused: set[int] = field(default_factory=set)  # groups
    _spared: bool = False
    _planned_around: bool = False
    _rewritten_by: RewrittenBy | None = None

    def open(self, plan: Plan | EmptyPlan, *, of_another: bool = False) -> None:
        """The run sets out to perform this plan. `of_another`: it is a dead run's, and not what this run is for."""
        if not of_another:
            self._plans.append(plan)
        rows = {row["id"]: row for row in plan.groups.columns.to_pylist()}
        self._groups |= rows
        self._plan_of |= dict.fromkeys(rows, plan)

    def forget_plan(self) -> None:
        """Nothing of the plan was begun, and the run makes another one."""
        groups = self._plans.pop().groups.columns["id"].to_pylist() if self._plans else []
        for group_id in groups:
            self._groups.pop(group_id)
            self._plan_of.pop(group_id)
            self._ends.pop(group_id, None)
        self._notes = [note for note in self._notes if isinstance(note, run_facts.TookUp)]

    def enter_commit(self, commit: CommitFacts) -> None:
        self.commits.append(commit)
        self._enter(commit.groups, GroupEnd.COMMITTED, snapshot_id=commit.snapshot_id)

    def conflict(self, sentences: Mapping[int, str]) -> None:
        """These groups were not committed, because others changed what they depend on."""
        for group_id, sentence in sentences.items():
            self._enter([group_id], GroupEnd.CONFLICT, sentence=sentence)

    def fail(
        self, group_id: int, sentence: str, *, file_path: str | None = None, surely: bool = False, refused: bool = False
    ) -> None:
        """This group could not be rewritten. `file_path`: the file that is to blame, if it is known, and whether that
        is sure; `refused`: it is sound, but has something that cannot be rewritten safely yet."""
        self._refused |= {group_id} if refused else set()
        files = self._files_of(group_id)
        self._enter([group_id], GroupEnd.FAILED, sentence=sentence)
        self._ends[group_id] = self._ends[group_id].model_copy(update={"file_path": file_path, "first_file": files[0]})
        if surely and file_path in files:
            self._marred[group_id] = file_path

    def drop(self, sentences: Mapping[int, str]) -> None:
        """These groups were not even tried."""
        for group_id, sentence in sentences.items():
            self._enter([group_id], GroupEnd.DROPPED, sentence=sentence)

    def doubt(self, group_ids: Iterable[int], sentence: str) -> None:
        """Nobody knows whether these groups landed."""
        self._enter(group_ids, GroupEnd.UNKNOWN, sentence=sentence)

    def note(self, note: Note) -> None:
        """A fact of the whole run."""
        self._notes.append(note)

    def plan_around(self) -> None:
        """The groups that failed for one file have a new plan without it."""
        self._planned_around = True

    def spare(self) -> None:
        """The groups in conflict need no rewrite any more, as another plan shows."""
        self._spared = True

    def rewritten(self, by: RewrittenBy) -> None:
        """Others have rewritten all files of the plan."""
        self._rewritten_by = by

    def withdraw(self, group_ids: Iterable[int]) -> None:
        """These groups are left to a plan that is still to be made, except for those that landed or may have."""
        for group_id in group_ids:
            if not self._is(group_id, GroupEnd.COMMITTED) and not self._is(group_id, GroupEnd.UNKNOWN):
                self._groups.pop(group_id, None)
                self._ends.pop(group_id, None)
                self._marred.pop(group_id, None)
                self._refused.discard(group_id)

    def open_groups(self) -> list[int]:
        """Groups that nothing was entered of."""
        return [group_id for group_id in self._groups if group_id not in self._ends]

    def conflicting(self) -> list[dict[str, Any]]:
        """The groups of the last plan that are in conflict, as rows of PLAN_GROUPS."""
        return [row for row in self._last() if self._is(row["id"], GroupEnd.CONFLICT)]

    def marred(self) -> list[dict[str, Any]]:
        """The groups of the last plan that failed for one of their data files alone, as rows of PLAN_GROUPS."""
        return [row for row in self._last() if row["id"] in self._marred]

    def failed_files(self) -> list[str]:
        """The data files that groups failed for; all files of a group where it is not sure which of them it was."""
        paths = []
        for group_id in self._groups:
            if self._is(group_id, GroupEnd.FAILED):
                paths += [self._marred[group_id]] if group_id in self._marred else self._files_of(group_id)
        return paths

    @property
    def next_id(self) -> int:
        """An id that no group has."""
        return max(self._groups, default=-1) + 1

    @property
    def groups_committed(self) -> int:
        return sum(len(commit.groups) for commit in self.commits)

    @property
    def over_budget(self) -> bool:
        """Whether the budget ended the work."""
        return any(isinstance(note, run_facts.BudgetReached) for note in self._notes)

    @property
    def in_doubt(self) -> bool:
        """Whether it is unknown if some group was committed."""
        return any(end.outcome is GroupEnd.UNKNOWN for end in self._ends.values())

    def facts(self) -> RunFacts:
        """The run so far."""
        committed = [self._groups[group_id] for commit in self.commits for group_id in commit.groups]
        return run_facts.RunFacts(
            table=self.table,
            run_id=self.run_id,
            plan=self._plans[0] if self._plans else None,
            groups=tuple(self._end_of(row) for row in self._groups.values()),
            ends=tuple(self._ends.values()),
            refused=frozenset(self._refused),
            commits=tuple(self.commits),
            files_removed=sum(row["files"] for row in committed),
            bytes_removed=sum(row["bytes"] for row in committed),
            notes=tuple(self._notes),
            spent=self.spent,
            planned_around=self._planned_around,
            spared=self._spared,
            rewritten_by=self._rewritten_by,
        )

    def close(self) -> outcome.Outcome:
        """The outcome of a run that nothing stopped."""
        return run_outcome.finished(self.facts())

    def stop(self, kind: outcome.Kind, sentence: str) -> outcome.Outcome:
        """The outcome of a run that something stopped, with the commits until then."""
        return run_outcome.stopped(self.facts(), kind, sentence)

    def _last(self) -> list[dict[str, Any]]:
        return [self._groups[group_id] for group_id in self._plans[-1].groups.columns["id"].to_pylist()]

    def _files_of(self, group_id: int) -> list[str]:
        """The paths of a group's data files."""
        row = self._groups[group_id]
        paths: list[str] = self._plan_of[group_id].files["file_path"].slice(row["first"], row["files"]).to_pylist()
        return paths

    def _enter(
        self, group_ids: Iterable[int], end: GroupEnd, *, snapshot_id: int | None = None, sentence: str = ""
    ) -> None:
        for group_id in group_ids:
            self._ends[group_id] = GroupOutcome(
                id=group_id,
                partition=self._groups[group_id]["partition"],
                outcome=end,
                snapshot_id=snapshot_id,
                sentence=sentence,
            )

    def _is(self, group_id: int, end: GroupEnd) -> bool:
        return group_id in self._ends and self._ends[group_id].outcome is end

    def _end_of(self, row: Mapping[str, Any]) -> GroupOutcome:
        not_reached = GroupOutcome(id=row["id"], partition=row["partition"], outcome=GroupEnd.NOT_REACHED)
        return self._ends.get(row["id"], not_reached)
