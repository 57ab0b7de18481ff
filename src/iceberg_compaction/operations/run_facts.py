"""The facts of a run at its end: its commits, the end of each group, and which groups were planned again. The ledger
gives them; `outcome_words` turns them into sentences, `run_outcome` into an Outcome."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction.model.rewrite_task import Effort

if TYPE_CHECKING:
    from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome
    from iceberg_compaction.model.proof import Proof
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFacts:
    """One commit of the run."""

    snapshot_id: int
    groups: tuple[int, ...]
    files_added: int
    bytes_added: int
    proof: Proof
    effort: Effort
    attempts: int
    removed_delete_files: int
    exchanged_delete_files: int = 0  # those of them that others have taken the place of
    added_delete_files: int = 0  # these others


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAgain:
    """Groups in conflict have a new plan."""

    plan_sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NotPlannedAgain:
    """A new plan could not be made."""

    end: GroupEnd  # of the groups that the plan was for: in conflict, or failed
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftToOthers:
    """Another run works on the groups in conflict."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CommittedBefore:
    """The table has snapshots of the same plan from an earlier run."""

    snapshot_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RewrittenBy:
    """Others have rewritten all files of the plan."""

    snapshot_ids: tuple[int, ...]  # the oldest first
    writers: tuple[str, ...]  # in words


@dataclass(frozen=True, slots=True, kw_only=True)
class TookUp:
    """The run went on with the plan of a run that did not finish."""

    run_id: str
    groups: int  # that it went on with
    tasks: int
    done: int  # tasks, by the other run


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetReached:
    """The run stopped, because what is left would have passed its budget."""

    words: str  # of the budget
    spent: float  # dollars
    groups: int  # that were left


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenEngine:
    """The run was free to choose its engine."""

    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesLeft:
    """Delete files that were to be merged or converted stay as they are."""

    reason: str


Note: TypeAlias = (
    PlannedAgain
    | NotPlannedAgain
    | LeftToOthers
    | CommittedBefore
    | TookUp
    | BudgetReached
    | ChosenEngine
    | DeletesLeft
)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunFacts:
    """One run on one table."""

    table: str
    run_id: str
    plan: Plan | EmptyPlan | None  # the first plan; None: the run ended before it
    groups: tuple[GroupOutcome, ...] = ()  # of all plans of the run, in their order
    ends: tuple[GroupOutcome, ...] = ()  # in the order of events; groups that were not reached are not among them
    refused: frozenset[int] = frozenset()  # failed groups that are sound, but cannot be rewritten safely yet
    commits: tuple[CommitFacts, ...] = ()
    files_removed: int = 0  # of committed groups
    bytes_removed: int = 0
    notes: tuple[Note, ...] = ()
    spent: float = 0.0  # dollars of tasks
    planned_around: bool = False  # the other files of failed groups have a new plan
    spared: bool = False  # groups in conflict need no rewrite any more
    rewritten_by: RewrittenBy | None = None  # nothing is left of the plan, because others did the same

    def ended(self, end: GroupEnd) -> list[GroupOutcome]:
        """The groups with this end."""
        return [group for group in self.ends if group.outcome is end]

    @property
    def over_budget(self) -> bool:
        """Whether the budget ended the work."""
        return any(isinstance(note, BudgetReached) for note in self.notes)

    @property
    def groups_committed(self) -> int:
        return sum(len(commit.groups) for commit in self.commits)

    @property
    def files_added(self) -> int:
        return sum(commit.files_added for commit in self.commits)

    @property
    def bytes_added(self) -> int:
        return sum(commit.bytes_added for commit in self.commits)

    @property
    def delete_files_removed(self) -> int:
        return sum(commit.removed_delete_files for commit in self.commits)

    @property
    def exchanged_delete_files(self) -> int:
        return sum(commit.exchanged_delete_files for commit in self.commits)

    @property
    def added_delete_files(self) -> int:
        return sum(commit.added_delete_files for commit in self.commits)

    @property
    def attempts(self) -> int:
        return sum(commit.attempts for commit in self.commits)

    @property
    def effort(self) -> Effort:
        return sum((commit.effort for commit in self.commits), Effort())

    @property
    def proof(self) -> Proof | None:
        """The proof of all committed groups together."""
        return reduce(add, (commit.proof for commit in self.commits)) if self.groups_committed else None
