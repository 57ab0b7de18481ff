"""The report of a run: its record, events and the health of its table come in from the store, one value goes out.
Nothing else is read, so that it works for tables and catalogs that are gone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.model import events
from iceberg_compaction.model.run_figures import PlanForecast
from iceberg_compaction.model.run_listing import RunState
from iceberg_compaction.model.run_report import FollowingRun, ReportedCommit, ReportedTasks, RunReport
from iceberg_compaction.record import event_log, health_log, past_runs, run_story

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.events import LoggedEvent
    from iceberg_compaction.model.outcome import Outcome
    from iceberg_compaction.model.run_record import RunRecord, UnfinishedRun
    from iceberg_compaction.record.store import RunStore

_LATER_RUNS = 20
_LOOKS = 200  # at the health of the table


def report(store: RunStore, run_id: str, now_ms: int) -> RunReport:
    """The report of a run that the store has; ConfigError: it has no such run."""
    logged = event_log.EventLog(entries=store.entries).events(run_id)
    record = store.run(run_id)
    if record is not None:
        return _of_record(store, record, logged)
    journal = next((run for run in store.unfinished() if run.start.run_id == run_id), None)
    if journal is None:
        raise errors.ConfigError(f"There is no run {run_id!r} in the run store.")
    return _of_unfinished(store, journal, logged, now_ms)


def _of_record(store: RunStore, record: RunRecord, logged: Sequence[LoggedEvent]) -> RunReport:
    outcome = record.outcome
    return RunReport(
        run_id=record.run_id,
        table=record.table,
        state=RunState.ENDED,
        sentence=outcome.sentence,
        started_ms=record.started_ms,
        finished_ms=record.finished_ms,
        record=record,
        stages=record.stages,
        forecast=record.forecast,
        actual=_actual(outcome),
        before=record.before,
        after=record.after,
        commits=_commits(outcome.snapshot_ids, logged),
        tasks=_tasks(logged),
        events=_without_tasks(logged),
        health=tuple(
            reversed(health_log.HealthLog(entries=store.entries).of_table(record.catalog, record.table, limit=_LOOKS))
        ),
        followed_by=_followed_by(store, record),
        unknown=_unknown(record, logged),
    )


def _of_unfinished(store: RunStore, journal: UnfinishedRun, logged: Sequence[LoggedEvent], now_ms: int) -> RunReport:
    listing = past_runs.listing(journal, store, now_ms)
    story = run_story.RunStory()
    for each in logged:
        story.take(each.event, each.at_ms)
    progress = event_log.EventLog(entries=store.entries).progress(listing.run_id)
    if progress is not None:
        story.take(progress.event, progress.at_ms)
    until = now_ms if listing.state is RunState.RUNNING else listing.heartbeat_ms
    landed = journal.attempt.landed if journal.attempt else ()
    looks = health_log.HealthLog(entries=store.entries).of_table(journal.start.catalog, listing.table, limit=_LOOKS)
    return RunReport(
        run_id=listing.run_id,
        table=listing.table,
        state=listing.state,
        sentence=listing.sentence,
        command=listing.command,
        started_ms=listing.started_ms,
        finished_ms=None,
        record=None,
        stages=story.stages(until),
        forecast=story.forecast,
        before=story.before,
        after=story.after,
        commits=_commits(landed, logged),
        tasks=_tasks(logged),
        events=_without_tasks(logged),
        health=tuple(reversed(looks)),
        unknown=("The run has no outcome, so that its proof, its requests and the ends of its groups are not known.",),
    )


def _actual(outcome: Outcome) -> PlanForecast | None:
    """The figures of the forecast as they became."""
    if outcome.plan_id is None or not outcome.groups:
        return None
    effort = outcome.effort
    return PlanForecast(
        files=outcome.files_removed,
        bytes=outcome.bytes_removed,
        groups=outcome.groups_landed,
        output_files=outcome.files_added,
        copied_bytes=effort.copied_bytes,
        core_seconds=effort.copy_seconds + effort.join_seconds + effort.encode_seconds,
        measured=True,
    )


def _commits(snapshot_ids: Sequence[int], logged: Sequence[LoggedEvent]) -> tuple[ReportedCommit, ...]:
    committed = {each.event.snapshot_id: each for each in logged if isinstance(each.event, events.Committed)}
    commits = []
    for snapshot_id in dict.fromkeys((*snapshot_ids, *committed)):
        each = committed.get(snapshot_id)
        if each is None or not isinstance(each.event, events.Committed):
            commits.append(ReportedCommit(snapshot_id=snapshot_id))
            continue
        figures = {"at_ms": each.at_ms, "groups": each.event.groups, "attempts": each.event.attempts}
        commits.append(ReportedCommit(snapshot_id=snapshot_id, **figures))
    return tuple(commits)


def _tasks(logged: Sequence[LoggedEvent]) -> ReportedTasks | None:
    ends = [each.event for each in logged if isinstance(each.event, events.TaskEnded)]
    if not ends:
        return None
    return ReportedTasks(
        tasks=len(ends),
        failed=sum(end.failed for end in ends),
        seconds=sum(end.seconds for end in ends),
        longest_seconds=max(end.seconds for end in ends),
        files=sum(len(end.file_sizes) for end in ends),
        bytes_read=sum(end.bytes_read for end in ends),
        bytes_written=sum(end.bytes_written for end in ends),
    )


def _without_tasks(logged: Sequence[LoggedEvent]) -> tuple[LoggedEvent, ...]:
    return tuple(each for each in logged if not isinstance(each.event, events.TaskEnded))


def _followed_by(store: RunStore, record: RunRecord) -> tuple[FollowingRun, ...]:
    later = store.history(record.table, None, record.finished_ms, None, _LATER_RUNS)
    return tuple(
        FollowingRun(
            run_id=each.run_id,
            started_ms=each.started_ms,
            kind=each.outcome.kind,
            sentence=each.outcome.sentence,
            snapshot_ids=each.outcome.snapshot_ids,
        )
        for each in reversed(later)
        if each.run_id != record.run_id
    )


def _unknown(record: RunRecord, logged: Sequence[LoggedEvent]) -> tuple[str, ...]:
    outcome = record.outcome
    parts = {
        "The time of each stage": bool(record.stages),
        "The table before and after the run": not outcome.groups or record.before is not None,
        "The forecast of the plan": not outcome.groups or record.forecast is not None,
    }
    unknown = [
        f"{part}: the record, of version {record.version}, does not have it."
        for part, is_there in parts.items()
        if not is_there
    ]
    if not logged:
        unknown.append("Single events: the store has none of this run, or they were removed because of their age.")
    if outcome.groups > len(outcome.group_outcomes):
        unknown.append("The ends of all groups: a record lists a thousand, those that were not committed first.")
    if outcome.snapshot_ids:
        unknown.append(
            "Commits of other programs since the run: only the table has them, and `doctor` shows its writers."
        )
    return tuple(unknown)
