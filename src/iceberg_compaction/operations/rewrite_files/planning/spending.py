"""The money that a run spends, measured as its tasks end, and the budget that it keeps. With a budget, groups begin in
waves: before each wave, what is spent so far says whether the run can pay for it. Groups that have begun are finished
and committed."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.model.plan_cost import Budget, dollars
from iceberg_compaction.operations import run_facts
from iceberg_compaction.record import past_spending

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteTask, TaskResult
    from iceberg_compaction.operations.run_ledger import Ledger
    from iceberg_compaction.record.runs import Run

_TASKS_PER_CORE = 2  # in a wave; fewer would leave cores idle, more would notice the end of the budget later


def budget(policy: Policy, run: Run, *, spent: float = 0.0) -> Budget | None:
    """What a run may cost now: the policy's max-cost, or less if runs of the last hour have spent their limit. `spent`:
    by this run so far. None: as much as it takes."""
    budgets = []
    if policy.max_cost is not None:
        words = f"max-cost is {dollars(policy.max_cost)}"
        words += f", of which {dollars(spent)} is spent" if spent else ""
        budgets.append(Budget(dollars=max(0.0, policy.max_cost - spent), words=words))
    if policy.hourly_cost_limit is not None:
        before = past_spending.last_hour(run, policy.tenant)
        words = f"hourly-cost-limit is {dollars(policy.hourly_cost_limit)}"
        words += f", of which runs of the last hour have spent {dollars(before)}" if before else ""
        budgets.append(Budget(dollars=max(0.0, policy.hourly_cost_limit - before - spent), words=words))
    return min(budgets, key=lambda each: each.dollars, default=None)


@dataclass(slots=True, kw_only=True)
class SpendingMeter:
    """The spending of a run on one plan. `limit`: dollars for the plan; None: there is no budget."""

    plan: Plan
    ledger: Ledger
    limit: float | None
    words: str = ""
    cores: int = 1
    unreached: set[int] = field(default_factory=set)  # groups that the budget does not reach
    _spent: float = 0.0
    _bytes: int = 0  # of the input files behind it

    def charge(self, task: RewriteTask, result: TaskResult) -> None:
        """Enter the measured work of a task."""
        cost = self.plan.cost
        size = task.bytes
        dollars_spent = (
            cost.prices.compute(result.seconds)
            + cost.prices.requests(result.requests)
            + cost.prices.storage(size, cost.kept_days)
        )
        self._spent += dollars_spent
        self._bytes += size
        self.ledger.spent += dollars_spent

    def waves(self, tasks: Sequence[RewriteTask]) -> Iterator[Sequence[RewriteTask]]:
        """The tasks in waves of whole groups, as long as the budget lasts."""
        if self.limit is None:
            yield tasks
            return
        waves = list(self._cut(tasks))
        for number, wave in enumerate(waves):
            if not self._affords(wave) if number else self.limit <= 0:
                left = {task.group_id for later in waves[number:] for task in later}
                self.unreached |= left
                self.ledger.note(run_facts.BudgetReached(words=self.words, spent=self._spent, groups=len(left)))
                return
            yield wave

    def _cut(self, tasks: Sequence[RewriteTask]) -> Iterator[list[RewriteTask]]:
        groups: dict[int, list[RewriteTask]] = {}
        for task in tasks:
            groups.setdefault(task.group_id, []).append(task)
        wave: list[RewriteTask] = []
        for of_group in groups.values():
            wave += of_group
            if len(wave) >= _TASKS_PER_CORE * self.cores:
                yield wave
                wave = []
        if wave:
            yield wave

    def _affords(self, wave: Sequence[RewriteTask]) -> bool:
        """Whether the wave fits, if its bytes cost what the bytes before it did."""
        assert self.limit is not None  # else there is one wave
        size = sum(task.bytes for task in wave)
        each = self._spent / self._bytes if self._bytes else self.plan.cost.cost / max(1, self.plan.input_bytes)
        return self._spent + size * each <= self.limit


def meter(plan: Plan, run: Run, ledger: Ledger, *, cores: int) -> SpendingMeter:
    """The meter for a plan that a run is about to perform."""
    allowed = budget(plan.policy, run, spent=ledger.spent)
    limit, words = (None, "") if allowed is None else (allowed.dollars, allowed.words)
    return SpendingMeter(plan=plan, ledger=ledger, limit=limit, words=words, cores=cores)
