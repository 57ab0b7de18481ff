"""The checkpoint of a run, as it looks to people."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING

from rich.markup import escape

from iceberg_compaction.interfaces.cli.screens.grid import figures, grid, sentences
from iceberg_compaction.model import plurals
from iceberg_compaction.model.byte_size import format_size

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from iceberg_compaction.model.resume_view import ResumeView

_MOST = 30  # groups
_HOUR, _DAY = 3600, 86_400


def story(view: ResumeView, *, command: str) -> Iterator[RenderableType]:
    """How far the run has come, what of it can be used, and the command that goes on with it."""
    saved = datetime.fromtimestamp(view.saved_ms / 1000, timezone.utc)
    yield f"Run {view.run_id} on {view.table}, branch {view.branch}"
    yield f"  Plan {view.plan_id}, by version {view.version}, for {plurals.count(view.cores, 'core')}"
    yield f"  Stored since {saved:%Y-%m-%d %H:%M:%S} UTC, {_age(view.age_seconds)} ago"
    yield f"  {view.stored:,} results of {plurals.count(view.tasks, 'task')}, {format_size(view.bytes)} of input"
    yield ""
    if view.groups:
        groups = grid("Partition", figures("Tasks"), figures("Done"), "State", sentences("Why", drop=1))
        for group in view.groups[:_MOST]:
            done = len(group.completed)
            state = "left out" if group.reason else "ready" if group.ready else "to do"
            tasks = done + len(group.pending)
            groups.add_row(escape(group.partition), f"{tasks:,}", f"{done:,}", state, escape(group.reason))
        yield groups
        if len(view.groups) > _MOST:
            yield f"... and {len(view.groups) - _MOST:,} groups more; --output json has all"
        yield ""
    yield view.sentence
    if not view.reason:
        yield f"To go on with it: {command}"


def _age(seconds: float) -> str:
    if seconds < 120:
        return plurals.count(round(seconds), "second")
    if seconds < 2 * _HOUR:
        return plurals.count(round(seconds / 60), "minute")
    return plurals.count(round(seconds / _HOUR), "hour") if seconds < 2 * _DAY else f"{seconds / _DAY:.0f} days"
