"""What all upkeep of a table would do: the plan of each step, as the outcome of a step that changed nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from iceberg_compaction.model.outcome import Healthy, Skipped
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.operation import Operation
    from iceberg_compaction.record.runs import Run


def shown(operation: Operation[Any], house: operate.House, run: Run) -> Outcome:
    """The plan of a step; healthy: it would do nothing."""
    plan = operate.plan_only(operation, house, run)
    words = {"table": operation.table, "sentence": plan.sentence, "run_id": run.run_id}
    return Healthy(**words) if plan.empty else Skipped(**words)
