"""The stage that a run is in, by its events. One rule for the history of runs and for metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import events
from iceberg_compaction.model.run_figures import Stage

if TYPE_CHECKING:
    from iceberg_compaction.model.events import Event


def stage_after(event: Event, stage: Stage) -> Stage:
    """The stage of a run after an event; `stage` is the one before it."""
    match event:
        case events.Planning() | events.Planned():
            return Stage.PLANNING
        case events.Recovering():
            return Stage.RECOVERING
        case events.Starting():
            return Stage.STARTING
        case events.Rewriting():
            if event.bytes_done < event.bytes_total:
                return Stage.REWRITING
            return Stage.ENDING if stage is Stage.ENDING else Stage.VERIFYING
        case events.Comparing():
            return Stage.VERIFYING
        case events.Committing():
            return Stage.COMMITTING
        case events.Committed() | events.Finished():
            return Stage.ENDING
        case events.GroupFailed() | events.TaskEnded() | events.EngineChosen():
            return stage
        case _:
            assert_never(event)
