"""Reports of runs for tests."""

from __future__ import annotations

from typing import Any

from iceberg_compaction.model import events
from iceberg_compaction.model.outcome import Compacted, GroupEnd, GroupOutcome, Kind
from iceberg_compaction.model.run_figures import HealthEntry, PlanForecast, Stage, StageTime, TableFigures
from iceberg_compaction.model.run_listing import RunState
from iceberg_compaction.model.run_record import RunRecord
from iceberg_compaction.model.run_report import FollowingRun, ReportedCommit, ReportedTasks, RunReport
from iceberg_compaction.model.table_health import SizeBucket

NOON = 1_769_860_800_000  # 2026-01-31 12:00 UTC
RUN_ID = "3f2a91bc" * 4


def figures(files: int, **more: Any) -> TableFigures:
    """A table whose files are small, but for one."""
    buckets = (("< 10%", files - 1), ("10%-75%", 0), ("near target (75%-180%)", 1), ("> 180%", 0))
    histogram = tuple(SizeBucket(label=label, upto=None, files=count, bytes=count) for label, count in buckets)
    return TableFigures(
        **{
            "snapshot_id": 7,
            "data_files": files,
            "small_files": files - 1,
            "bytes": files * 10**6,
            "records": 10**9,
            "delete_files": files // 2,
            "snapshots": 3,
            "histogram": histogram,
            "row_groups": files * 2,
            **more,
        }
    )


def report(table: str = "shop.events", **more: Any) -> RunReport:
    """The report of a run that compacted most of a table."""
    run = {"table": table, "run_id": RUN_ID}
    groups = (
        GroupOutcome(id=0, partition='{"day": "2026-01-30"}', outcome=GroupEnd.COMMITTED, snapshot_id=8),
        GroupOutcome(id=1, partition='{"day": "2026-01-31"}', outcome=GroupEnd.FAILED, sentence="It is damaged."),
    )
    outcome = Compacted(
        **run,
        sentence="Done.",
        snapshot_id=8,
        snapshot_ids=(8,),
        plan_id="p",
        groups=2,
        groups_landed=1,
        groups_failed=1,
        group_outcomes=groups,
        seconds=75.5,
    )
    before, after = figures(5000), figures(40)
    record = RunRecord(
        **run, version="1", started_ms=NOON, finished_ms=NOON + 75_500, outcome=outcome, before=before, after=after
    )
    steps: list[events.Event] = [
        events.Planning(**run),
        events.Planned(**run, sentence="5,000 files become 40."),
        events.Committed(**run, snapshot_id=8, groups=1),
        events.Finished(**run, outcome=outcome),
    ]
    looks = [(0, before), (75_500, after), (10**8, figures(70))]
    fields = {
        **run,
        "state": RunState.ENDED,
        "sentence": outcome.sentence,
        "started_ms": NOON,
        "finished_ms": NOON + 75_500,
        "record": record,
        "stages": tuple(StageTime(stage=stage, seconds=10.5) for stage in Stage),
        "forecast": PlanForecast(files=5000, bytes=10**10, groups=2, output_files=40, core_seconds=60),
        "actual": PlanForecast(files=4990, bytes=10**10, groups=1, output_files=39, core_seconds=700),
        "before": before,
        "after": after,
        "commits": (ReportedCommit(snapshot_id=8, at_ms=NOON + 70_000, groups=1, attempts=2),),
        "tasks": ReportedTasks(
            tasks=9, failed=1, seconds=70, longest_seconds=20, files=39, bytes_read=10**10, bytes_written=10**9
        ),
        "events": tuple(
            events.LoggedEvent(number=at, at_ms=NOON + 1000 * at, event=step) for at, step in enumerate(steps)
        ),
        "health": tuple(HealthEntry(at_ms=NOON + at, catalog="c", table=table, figures=of) for at, of in looks),
        "followed_by": (
            FollowingRun(run_id="b" * 32, started_ms=NOON + 10**8, kind=Kind.HEALTHY, sentence="Nothing to do."),
        ),
        "unknown": ("Commits of other programs since the run: only the table has them.",),
    }
    return RunReport(**{**fields, **more})
