"""The memory of one task from its reservation to its end: the share of the process comes in; the foreseen and the real
peak of the process go out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.worker.memory import memory_budget, memory_limit, unused_memory
from iceberg_compaction.model import rewrite_task

if TYPE_CHECKING:
    from iceberg_compaction.execute.worker import budgets


class MemoryUse:
    """A task that is about to begin. Its reservation is of nothing yet."""

    def __init__(self, limits: budgets.Budgets, process: memory_budget.MemoryBudget = memory_budget.PROCESS) -> None:
        self._process = process
        if process.is_idle:
            unused_memory.release()
            memory_limit.forget_peak()
        self.reservation = process.reservation(memory_limit.limit(limits.memory), memory_limit.resident())

    @property
    def effort(self) -> rewrite_task.Effort:
        """Bytes of the process, with all tasks that it performs now."""
        foreseen = self._process.idle_bytes + self._process.reserved
        return rewrite_task.Effort(memory_foreseen=foreseen, memory_peak=memory_limit.peak())
