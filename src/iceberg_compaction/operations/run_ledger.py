"""What became of every group of a run, entered as it happens, so that it can be told however the run ends. Entries come
from `apply`, an Outcome goes out. Nothing is inferred by subtraction: each group has an entry, or was not reached."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

from typing_extensions import assert_never

from iceberg_compaction.model import byte_size, outcome
from iceberg_compaction.model.outcome import GroupEnd, GroupOutcome
from iceberg_compaction.model.rewrite_plan import EmptyPlan
from iceberg_compaction.model.rewrite_task import Effort

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from iceberg_compaction.model.proof import Proof
    from iceberg_compaction.model.rewrite_plan import Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class Landed:
    """One commit, and what it brought about."""

    snapshot_id: int
    groups: tuple[int, ...]
    files_added: int
    bytes_added: int
    proof: Proof
    effort: Effort
    attempts: int
    removed_delete_files: int


@dataclass(slots=True, kw_only=True)
class Ledger:
    """One run on one table. Groups have ids of their own in all plans of the run."""

    table: str
    run_id: str
    landed: list[Landed] = field(default_factory=list)
    _plans: list[Plan | EmptyPlan] = field(default_factory=list)
    _groups: dict[int, dict[str, Any]] = field(default_factory=dict)  # rows of PLAN_GROUPS
    _plan_of: dict[int, Plan | EmptyPlan] = field(default_factory=dict)  # by group
    _ends: dict[int, GroupOutcome] = field(default_factory=dict)
    _remarks: list[str] = field(default_factory=list)
    _marred: dict[int, str] = field(default_factory=dict)  # groups that failed for one data file alone
    _refused: set[int] = field(default_factory=set)  # groups
    _spared: bool = False
    _around: bool = False

    def open(self, plan: Plan | EmptyPlan) -> None:
        """The run sets out to perform this plan."""
        self._plans.append(plan)
        rows = {row["id"]: row for row in plan.groups.columns.to_pylist()}
        self._groups |= rows
        self._plan_of |= dict.fromkeys(rows, plan)

    def land(self, commit: Landed) -> None:
        self.landed.append(commit)
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

    def remark(self, sentence: str) -> None:
        """Something else to tell at the end."""
        self._remarks.append(sentence)

    def plan_around(self) -> None:
        """What else was in the groups that failed for a file was planned anew without it."""
        self._around = True

    def spare(self) -> None:
        """What is in conflict needs no rewrite any more, as another plan shows."""
        self._spared = True

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
        found = []
        for group_id in self._groups:
            if self._is(group_id, GroupEnd.FAILED):
                found += [self._marred[group_id]] if group_id in self._marred else self._files_of(group_id)
        return found

    @property
    def next_id(self) -> int:
        """An id that no group has."""
        return max(self._groups, default=-1) + 1

    @property
    def count_landed(self) -> int:
        return sum(len(commit.groups) for commit in self.landed)

    def close(self) -> outcome.Outcome:
        """How a run ended that nothing stopped: something landed, all was in conflict, all that could land failed, or
        there was nothing to do."""
        if not self._groups and not self.landed:
            plan = self._plans[0]
            gone = "Nothing is left to do: the delete files that applied to nothing are gone already."
            return self._outcome(outcome.Kind.HEALTHY, plan.sentence if isinstance(plan, EmptyPlan) else gone)
        if not self.landed and (failed := self._with(GroupEnd.FAILED)):
            one = len(self._groups) == 1
            told = failed[0].sentence if one else f"None of {self._count()} landed. {' '.join(self._others())}"
            refused = {one.id for one in failed} <= self._refused
            kind = outcome.Kind.UNSUPPORTED if refused else outcome.Kind.FAILED
            return self._outcome(kind, " ".join([told, *self._remarks]))
        if not self.landed and self._spared:
            they = "it needs" if len(self._groups) == 1 else "they need"
            return self._outcome(
                outcome.Kind.HEALTHY,
                f"Nothing is left to do: others changed {self._count()} meanwhile, and planned anew {they} no rewrite "
                "any more.",
            )
        if not self.landed:
            return self._outcome(outcome.Kind.CONFLICT, " ".join([self._none_landed(), *self._remarks]))
        remarks = [*self._others(), *self._remarks]
        remarks += ["The other files of what failed were planned anew without it."] if self._around else []
        remarks += ["Planned anew, what conflicted needs no rewrite any more."] if self._spared else []
        return self._outcome(outcome.Kind.COMPACTED, " ".join([self._compacted(), *remarks]))

    def stop(self, kind: outcome.Kind, sentence: str) -> outcome.Outcome:
        """How a run ended that something stopped; what had landed by then is told."""
        told = [sentence]
        unknown = [one.sentence for one in self._with(GroupEnd.UNKNOWN)]
        if unknown and unknown[0] not in sentence:
            told.append(f"Nor is it known whether {len(unknown)} of {self._count()} landed: {unknown[0]}")
        failed = [one for one in self._with(GroupEnd.FAILED) if one.sentence not in sentence]
        if failed:
            told += self._others(GroupEnd.FAILED)
        if self.landed:
            told.append(f"Before that {self.count_landed} of {self._count()} landed and stay: {self._compacted()}")
        return self._outcome(outcome.Kind.FAILED if len(told) > 1 else kind, " ".join(told))

    def _last(self) -> list[dict[str, Any]]:
        return [self._groups[group_id] for group_id in self._plans[-1].groups.columns["id"].to_pylist()]

    def _files_of(self, group_id: int) -> list[str]:
        """The paths of a group's data files."""
        row = self._groups[group_id]
        found: list[str] = self._plan_of[group_id].files["file_path"].slice(row["first"], row["files"]).to_pylist()
        return found

    def _with(self, end: GroupEnd) -> list[GroupOutcome]:
        return [one for one in self._ends.values() if one.outcome is end]

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

    def _count(self) -> str:
        return "1 group" if len(self._groups) == 1 else f"{len(self._groups)} groups"

    def _none_landed(self) -> str:
        first = next(iter(self._ends.values()))
        if all(one.outcome is GroupEnd.DROPPED for one in self._ends.values()):
            return f"Nothing is left of the plan, which had {self._count()}; make a new plan. {first.sentence}"
        one = len(self._groups) == 1
        return first.sentence if one else f"None of {self._count()} could be committed: {first.sentence}"

    def _compacted(self) -> str:
        proof, removed = self._proof(), self._removed()
        files_added = sum(commit.files_added for commit in self.landed)
        written = sum(commit.bytes_added for commit in self.landed)
        ids = [commit.snapshot_id for commit in self.landed]
        where = f"snapshot {ids[0]}" if len(ids) == 1 else f"{len(ids)} snapshots, the last {ids[-1]}"
        useless = sum(commit.removed_delete_files for commit in self.landed)
        if not self.count_landed:
            which = (
                "1 delete file that applied to nothing was"
                if useless == 1
                else (f"{useless} delete files that applied to nothing were")
            )
            return f"{which} removed in {where}."
        gone = _deletes(proof.deleted_rows, useless)
        return (
            f"{removed['files']} files ({byte_size.format_size(removed['bytes'])}) became {files_added} "
            f"({byte_size.format_size(written)}) in {where}{gone}."
        )

    def _others(self, *ends: GroupEnd) -> list[str]:
        """What became of groups that did not land, one sentence for each kind of end, or each of these."""
        told = []
        stays = ("failed and stays as it was", "failed and stay as they were")
        for end, one, many in (
            (GroupEnd.FAILED, *(("failed", "failed") if self._around else stays)),
            (GroupEnd.CONFLICT, "was left alone because of other commits", "were left alone because of other commits"),
            (
                GroupEnd.DROPPED,
                "was dropped because the table has moved on",
                "were dropped because the table has moved on",
            ),
        ):
            which = self._with(end) if not ends or end in ends else []
            if which:
                first = f"{which[0].sentence}"
                named = f"group {which[0].id}: {first}" if end is GroupEnd.FAILED else first
                told.append(f"{len(which)} of {self._count()} {one if len(which) == 1 else many}: {named}")
        return told

    def _proof(self) -> Proof:
        return reduce(add, (commit.proof for commit in self.landed))

    def _removed(self) -> Counter[str]:
        """Figures of the groups that landed, before."""
        found: Counter[str] = Counter()
        for group_id in (group_id for commit in self.landed for group_id in commit.groups):
            row = self._groups[group_id]
            found.update(files=row["files"], bytes=row["bytes"])
        return found

    def _outcome(self, kind: outcome.Kind, sentence: str) -> outcome.Outcome:
        plan = self._plans[0] if self._plans else None
        every_kind: dict[str, Any] = {
            "table": self.table,
            "sentence": sentence,
            "run_id": self.run_id,
            "plan_id": plan.id if plan else None,
            "strategy": plan.policy.strategy if plan else None,
            "groups": len(self._groups),
            "groups_conflicted": len(self._with(GroupEnd.CONFLICT)),
            "groups_failed": len(self._with(GroupEnd.FAILED)),
            "group_outcomes": tuple(self._end_of(row) for row in self._groups.values()),
            "effort": sum((commit.effort for commit in self.landed), Effort()),
        }
        match kind:
            case outcome.Kind.COMPACTED:
                return outcome.Compacted(**every_kind, **self._figures())
            case outcome.Kind.FAILED:
                return outcome.Failed(**every_kind, **self._figures())
            case outcome.Kind.HEALTHY:
                return outcome.Healthy(**every_kind)
            case outcome.Kind.SKIPPED:
                return outcome.Skipped(**every_kind)
            case outcome.Kind.UNSUPPORTED:
                return outcome.Unsupported(**every_kind)
            case outcome.Kind.CONFLICT:
                return outcome.Conflict(**every_kind)
            case _:
                assert_never(kind)

    def _figures(self) -> dict[str, Any]:
        """The figures of what was committed."""
        removed = self._removed()
        proof = self._proof() if self.count_landed else None
        return {
            "snapshot_id": self.landed[-1].snapshot_id if self.landed else None,
            "snapshot_ids": tuple(commit.snapshot_id for commit in self.landed),
            "files_removed": removed["files"],
            "files_added": sum(commit.files_added for commit in self.landed),
            "bytes_removed": removed["bytes"],
            "bytes_added": sum(commit.bytes_added for commit in self.landed),
            "records": proof.rows if proof else 0,
            "deleted_rows": proof.deleted_rows if proof else 0,
            "delete_files_removed": sum(commit.removed_delete_files for commit in self.landed),
            "groups_landed": self.count_landed,
            "attempts": sum(commit.attempts for commit in self.landed),
            "proof": proof,
        }

    def _end_of(self, row: Mapping[str, Any]) -> GroupOutcome:
        not_reached = GroupOutcome(id=row["id"], partition=row["partition"], outcome=GroupEnd.NOT_REACHED)
        return self._ends.get(row["id"], not_reached)


def _deletes(rows: int, files: int) -> str:
    """What became of deletes, in words."""
    told = []
    if rows:
        told.append(f"{rows} deleted {'row is' if rows == 1 else 'rows are'} gone")
    if files:
        told.append(f"{files} delete {'file was' if files == 1 else 'files were'} removed")
    return f"; {' and '.join(told)}" if told else ""
