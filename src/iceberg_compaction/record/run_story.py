"""The story of a run as its events tell it: the time of each stage, the forecast, and the table before and after.
Events with their times come in, figures for the record go out."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from iceberg_compaction.model import events, run_stages
from iceberg_compaction.model.run_figures import Stage, StageTime

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event
    from iceberg_compaction.model.run_figures import PlanForecast, TableFigures


@dataclass(slots=True, kw_only=True)
class RunStory:
    """Events may come from any thread."""

    forecast: PlanForecast | None = None
    before: TableFigures | None = None
    before_ms: int = 0  # when it was so
    after: TableFigures | None = None
    _stage: Stage = Stage.PLANNING
    _since_ms: int | None = None
    _spent_ms: dict[Stage, int] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, event: Event, at_ms: int) -> None:
        """Enter an event."""
        with self._lock:
            stage = run_stages.stage_after(event, self._stage)
            self._enter_figures(event, at_ms)
            if self._since_ms is not None:
                spent = max(0, at_ms - self._since_ms)  # clocks may be set
                self._spent_ms[self._stage] = self._spent_ms.get(self._stage, 0) + spent
            self._stage, self._since_ms = stage, at_ms

    def stages(self, now_ms: int) -> tuple[StageTime, ...]:
        """The time of each stage until now."""
        with self._lock:
            spent = dict(self._spent_ms)
            if self._since_ms is not None:
                spent[self._stage] = spent.get(self._stage, 0) + max(0, now_ms - self._since_ms)
        return tuple(StageTime(stage=stage, seconds=spent[stage] / 1000) for stage in Stage if stage in spent)

    def _enter_figures(self, event: Event, at_ms: int) -> None:
        if isinstance(event, events.Planned) and self.forecast is None:
            self.forecast, self.before, self.before_ms = event.forecast, event.before, at_ms
        elif isinstance(event, events.Committed):
            self.after = event.after or self.after
