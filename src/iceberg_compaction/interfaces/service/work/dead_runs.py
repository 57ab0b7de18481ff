"""A run whose process died before it could say how it ended: the table has its snapshots, and the store its events. A
record of what it did comes out, for the history; its events stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import version
from iceberg_compaction.model import events
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.operations.past_runs import run_commits
from iceberg_compaction.record.event_log import EventLog
from iceberg_compaction.record.run_story import RunStory

if TYPE_CHECKING:
    from iceberg_compaction.model.events import LoggedEvent
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.operations.past_runs.run_commits import RunCommits
    from iceberg_compaction.record.store import RunStore

# Figures of an outcome by the names that summaries of snapshots have for them.
_FIGURES = {
    "files_added": "added-data-files",
    "files_removed": "deleted-data-files",
    "bytes_added": "added-files-size",
    "bytes_removed": "removed-files-size",
    "records": "added-records",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadRun:
    """What is there of the run. `groups`: how many it had planned; None: that is not known."""

    commits: RunCommits
    logged: tuple[LoggedEvent, ...] = ()

    @property
    def run_id(self) -> str:
        return self.commits.run_id

    @property
    def figures(self) -> dict[str, Any]:
        """The figures of its outcome, from the summaries of its snapshots."""
        summaries = [run_commits.properties(snapshot) for snapshot in self.commits.snapshots]
        sums = {name: sum(_whole(summary.get(key)) for summary in summaries) for name, key in _FIGURES.items()}
        ids = tuple(snapshot.snapshot_id for snapshot in self.commits.snapshots)
        return {**sums, "snapshot_id": ids[-1], "snapshot_ids": ids, "groups_landed": self.committed}

    @property
    def groups(self) -> int | None:
        planned = [each.event.groups for each in self.logged if isinstance(each.event, events.Planned)]
        return planned[-1] if planned else None

    @property
    def committed(self) -> int:
        """How many groups are in the table. Of a last commit that no event tells of, the event of its begin does."""
        commits = [each.event for each in self.logged if isinstance(each.event, events.Committed)]
        begun = [each.event.groups for each in self.logged if isinstance(each.event, events.Committing)]
        count = sum(each.groups for each in commits)
        is_silent = bool(self.commits.ids - {each.snapshot_id for each in commits})
        return count + (begun[-1] if is_silent and len(begun) > len(commits) else 0)

    @property
    def is_whole(self) -> bool:
        """Whether all of the plan is surely in the table."""
        return self.groups is not None and self.committed >= self.groups

    @property
    def words(self) -> str:
        """What is known of it."""
        if self.is_whole:
            return f"Run {self.run_id} has committed its work; its worker died before it could say so."
        part = f"{self.committed} of {self.groups} file groups" if self.groups else "some of its work"
        return f"Run {self.run_id} had committed {part} when its worker died."


def find(store: RunStore, commits: RunCommits) -> DeadRun | None:
    """What is there of the run that these commits are of; None: it has committed nothing, or has told how it ended."""
    if not commits.snapshots or store.run(commits.run_id) is not None:
        return None
    return DeadRun(commits=commits, logged=tuple(EventLog(entries=store.entries).events(commits.run_id)))


def remember(store: RunStore, dead: DeadRun, outcome: Outcome, now_ms: int, catalog: str) -> Outcome:
    """Enter the run into the history, as far as its events tell of it."""
    story = RunStory()
    for each in dead.logged:
        story.take(each.event, each.at_ms)
    first_ms, last_ms = (dead.logged[0].at_ms, dead.logged[-1].at_ms) if dead.logged else (now_ms, now_ms)
    ended = outcome.model_copy(update={"seconds": max(0, last_ms - first_ms) / 1000})
    record = RunRecord(
        run_id=dead.run_id,
        table=ended.table,
        version=version.__version__,
        started_ms=first_ms,
        finished_ms=now_ms,
        outcome=ended.brief(),
        catalog=catalog,
        stages=story.stages(last_ms),
        forecast=story.forecast,
        before=story.before,
        after=story.after,
    )
    store.save(record)
    return ended


def _whole(text: str | None) -> int:
    return int(text) if text is not None and text.isascii() and text.isdigit() else 0
