"""Results of tasks become groups that are complete and proved, and those become batches. Ends of tasks come in; steps
for the caller go out: a batch to commit, a failed group to enter, files to remove. Pure: nothing is done here."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from iceberg_compaction import errors
from iceberg_compaction.execute import task_failure
from iceberg_compaction.model.policies import batch_rule
from iceberg_compaction.operations.rewrite_files.groups import gather_pieces, give_up, prove_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from iceberg_compaction.execute.engine_door import TaskEnd
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, StagedFile, TaskResult


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Groups for one commit."""

    number: int  # from 1 on
    groups: tuple[prove_groups.ProvedGroup, ...]
    parting: bool = False  # something has stopped the work, and these groups were done by then

    @property
    def staged(self) -> list[StagedFile]:
        return [file for group in self.groups for file in group.staged]


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedGroup:
    """A group that stays as it is. Files that other tasks staged of it can never be committed."""

    failure: task_failure.Failure
    staged: tuple[StagedFile, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unused:
    """Files that can never be committed."""

    staged: tuple[StagedFile, ...]


Step: TypeAlias = Batch | FailedGroup | Unused


class _Stop:
    """Whatever stops the engine while it works, kept until finished groups are in a batch."""

    def __init__(self) -> None:
        self.reason: errors.CompactionError | None = None

    def watch(self, ends: Iterable[TaskEnd]) -> Iterator[TaskEnd]:
        """The same ends, up to the error that ends them."""
        try:
            yield from ends
        except errors.ProofError:
            raise
        except (errors.CancelledError, errors.ExecuteError) as error:
            self.reason = error


class CollectedGroups:
    """The groups of a plan while their tasks are performed. `clock`: in milliseconds. `gathers`: small files that
    several tasks leave in one partition are joined by a second round. `unreached`: groups that the budget turns out not
    to reach, filled while the tasks are performed."""

    def __init__(
        self,
        plan: Plan,
        tasks: Sequence[RewriteTask],
        *,
        clock: Callable[[], int],
        gathers: bool = True,
        unreached: Collection[int] = (),
    ) -> None:
        self._plan = plan
        self._clock = clock
        self._batched_ms = clock()  # the beginning, or the last batch
        self._gathers = gathers
        self._unreached = unreached
        self._rows = {row["id"]: row for row in plan.groups.columns.to_pylist()}
        self._rule = batch_rule(plan.policy, groups=len(self._rows), bytes=plan.input_bytes)
        self._tasks_of = Counter(task.group_id for task in tasks)
        self._next_task_id = max((task.id for task in tasks), default=-1) + 1
        self._results: dict[int, list[TaskResult]] = defaultdict(list)  # of groups that are not complete
        self._gathering: dict[int, list[RewriteTask]] = {}  # of groups that have a second round
        self._ready: list[prove_groups.ProvedGroup] = []
        self._ready_bytes = 0  # of their input files
        self._proved: set[int] = set()
        self._failed: set[int] = set()
        self._ended = 0  # tasks
        self._batches = 0

    def second_round(self) -> list[RewriteTask]:
        """The tasks that are left when all those of the plan are done."""
        return [task for tasks in self._gathering.values() for task in tasks]

    def steps(self, ends: Iterable[TaskEnd]) -> Iterator[Step]:
        """Raises ProofError as soon as a proof does not hold. If too many groups have failed, or the work is cancelled
        or cannot go on, raises the reason, after a last batch of the groups that are complete."""
        limit, given_up = give_up.FailureLimit(), None
        stop = _Stop()
        for end in stop.watch(ends):
            self._ended += 1
            if isinstance(end, task_failure.Failure):
                has_failed = end.group_id in self._failed
                yield self._fail(end)
                given_up = None if has_failed else limit.after(end)
                if given_up is not None:
                    break
            else:
                limit.done()
                self._results[end.group_id].append(end)
                yield from self._advance(end.group_id)
            yield from self._due_batch()  # after every task: groups that are done do not wait for a large one
        if isinstance(given_up, errors.ProofError):
            raise given_up
        if stop.reason is not None:
            if self._ready and self._plan.policy.partial_progress is not False:
                yield self._batch(parting=True)
            raise stop.reason
        if given_up is None:
            self._check_complete()
        if self._ready:
            yield self._batch()
        if given_up is not None:
            raise given_up

    def _fail(self, failure: task_failure.Failure) -> Step:
        staged = self._drop_results(failure.group_id)
        if failure.group_id in self._failed:
            return Unused(staged=staged)
        self._failed.add(failure.group_id)
        return FailedGroup(failure=failure, staged=staged)

    def _drop_results(self, group_id: int) -> tuple[StagedFile, ...]:
        return tuple(file for result in self._results.pop(group_id, []) for file in result.staged)

    def _advance(self, group_id: int) -> Iterator[Step]:
        if group_id in self._failed:
            yield Unused(staged=self._drop_results(group_id))
            return
        results = self._results[group_id]
        if len(results) < self._tasks_of[group_id] or self._must_gather(group_id):
            return
        gathered = self._gathering.get(group_id, [])
        try:
            proved = prove_groups.prove(self._plan, self._rows[group_id], results, gathered)
        except errors.ProofError as error:
            yield self._fail(task_failure.of_group(error, group_id))
            raise
        del self._results[group_id]
        self._proved.add(group_id)
        self._ready.append(proved)
        self._ready_bytes += self._rows[group_id]["bytes"]
        pieces = gather_pieces.pieces(gathered)
        if pieces:
            files = (file for result in results for file in result.staged)
            yield Unused(staged=tuple(file for file in files if file.file_path in pieces))

    def _must_gather(self, group_id: int) -> bool:
        """Whether the group, all of whose tasks are done, has further ones."""
        if group_id in self._gathering or not self._gathers:
            return False
        row, results = self._rows[group_id], self._results[group_id]
        tasks = gather_pieces.second_round(self._plan, row, results, first_id=self._next_task_id)
        if tasks:
            self._gathering[group_id] = tasks
            self._tasks_of[group_id] += len(tasks)
            self._next_task_id += len(tasks)
        return bool(tasks)

    def _due_batch(self) -> Iterator[Batch]:
        seconds = (self._clock() - self._batched_ms) / 1000
        if self._rule.is_due(groups=len(self._ready), bytes=self._ready_bytes, seconds=seconds):
            yield self._batch()

    def _batch(self, *, parting: bool = False) -> Batch:
        groups, self._ready, self._ready_bytes = tuple(self._ready), [], 0
        self._batches += 1
        self._batched_ms = self._clock()
        return Batch(number=self._batches, groups=groups, parting=parting)

    def _check_complete(self) -> None:
        expected = self._rows.keys() if self._gathers else self._tasks_of.keys()  # results of others may be a part
        if not expected <= self._proved | self._failed | set(self._unreached):
            raise errors.ProofError(
                f"{self._ended} results came back for {self._tasks_of.total()} tasks; what is not complete was not "
                "committed."
            )
