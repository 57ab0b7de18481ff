"""How long a run store keeps what is not needed for work."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from iceberg_compaction.model.value import Value

DAY_MS = 24 * 3_600_000


class RetentionPeriods(Value):
    """Periods in milliseconds."""

    history_ms: Annotated[int, Field(gt=0, description="runs in the history")] = 400 * DAY_MS
    events_ms: Annotated[int, Field(gt=0, description="the events of a run")] = 90 * DAY_MS
    health_ms: Annotated[int, Field(gt=0, description="looks at the health of tables")] = 400 * DAY_MS
    checkpoints_ms: Annotated[int, Field(gt=0, description="finished tasks of a run that died")] = 7 * DAY_MS
