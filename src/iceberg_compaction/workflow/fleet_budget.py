"""One budget for many tables. Each table gets a part when its turn comes, at most half of what is left while others
wait, so that a big one does not starve the small ones behind it; what it does not spend goes to the next."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from iceberg_compaction.model import plurals
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.plan_cost import dollars
from iceberg_compaction.operations.rewrite_files.planning import policy_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.rewrite_files.file_rewrite import RewriteFiles
    from iceberg_compaction.workflow.rank_tables import RankedTable

_LEAST = 1e-9  # dollars; less is no budget
_WHILE_OTHERS_WAIT = 0.5  # of what is left


class FleetBudget:
    """The money of one command. Threads may share it. `limit`: dollars; None: as much as it takes."""

    def __init__(self, limit: float | None, tables: Iterable[RankedTable]) -> None:
        self.limit = limit
        self._waiting = {table.table: table for table in tables if table.has_work}
        self._expected = dict(self._waiting)
        self._reserved: dict[str, float] = {}
        self._spent = 0.0
        self._left_out: list[str] = []
        self._lock = threading.Lock()

    def fit(self, operation: RewriteFiles) -> RewriteFiles | None:
        """The operation within its part of the budget; None: nothing is left for it."""
        if self.limit is None:
            return operation
        with self._lock:
            wanted = self._waiting.pop(operation.table, None)
            left = self.limit - self._spent - sum(self._reserved.values())
            if wanted is not None and left < _LEAST:
                self._left_out.append(operation.table)
                return None
            part = left * _WHILE_OTHERS_WAIT if self._waiting else left
            part = max(part, left / (len(self._waiting) + 1), _LEAST)
            if wanted is not None:
                self._reserved[operation.table] = part
        policy = policy_rule.PolicyWithin(given=operation.policy, max_cost=part)
        return replace(operation, policy=policy)

    def charge(self, outcome: Outcome) -> None:
        """Enter what a table has spent, and free the rest of its part."""
        with self._lock:
            self._reserved.pop(outcome.table, None)
            self._spent += outcome.cost

    def skipped(self) -> str:
        """Why a table was not begun."""
        return f"Not begun: the budget is spent, max-cost is {dollars(self.limit or 0.0)} for all tables."

    def _saving(self, outcome: Outcome) -> float:
        """What a table is expected to save by the files that were rewritten, of all that had to be."""
        expected = self._expected.get(outcome.table)
        if expected is None:
            return 0.0
        return expected.saving * min(1.0, outcome.files_removed / max(1, expected.files))

    def summary(self, outcomes: Sequence[Outcome], horizon_days: float) -> str:
        """The end of a command in one sentence."""
        done = [outcome for outcome in outcomes if outcome.kind is Kind.COMPACTED]
        idle = sum(outcome.kind is Kind.HEALTHY for outcome in outcomes)
        other = len(outcomes) - len(done) - idle - len(self._left_out)
        saved = sum(self._saving(each) for each in done)
        parts = [f"{len(done):,} compacted", f"{idle:,} with nothing to do"]
        parts += [f"{len(self._left_out):,} left for the budget"] if self._left_out else []
        parts += [f"{other:,} with other outcomes"] if other else []
        limit = "" if self.limit is None else f" of {dollars(self.limit)}"
        saving = f", expected to save about {dollars(saved)} in {horizon_days:g} days" if done else ""
        return (
            f"{plurals.count(len(outcomes), 'table')}: {', '.join(parts)}. "
            f"Estimated cost {dollars(self._spent)}{limit}{saving}."
        )
