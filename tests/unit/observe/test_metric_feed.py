"""Events become figures: each metric by the event that it comes from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from iceberg_compaction.model import events, outcome
from iceberg_compaction.model.prices import Prices
from iceberg_compaction.model.run_figures import TableFigures
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.observe.metrics import metric_feed, metric_list, metric_values

if TYPE_CHECKING:
    from iceberg_compaction.observe.metrics.metric_list import Metric

COMPACTED = {
    "snapshot_id": 7,
    "snapshot_ids": (7,),
    "files_removed": 6,
    "files_added": 1,
    "bytes_removed": 600,
    "bytes_added": 200,
    "records": 60,
    "attempts": 3,
    "seconds": 4.0,
    "groups_conflicted": 2,
    "requests": StorageRequests(gets=1000, puts=1000),
}


class Scene:
    """A feed with a clock that the test moves."""

    def __init__(self, tables: int = 10) -> None:
        self.now = 100.0
        self.values = metric_values.MetricValues()
        self.feed = metric_feed.MetricFeed(sinks=[self.values], prices=Prices(), tables=tables, clock=lambda: self.now)

    def emit(self, kind: type[Any], table: str = "db.t", run_id: str = "r", **fields: Any) -> None:
        self.feed.enter(kind(table=table, run_id=run_id, **fields))

    def finish(
        self, kind: type[Any] = outcome.Compacted, table: str = "db.t", run_id: str = "r", **fields: Any
    ) -> None:
        end = kind(table=table, run_id=run_id, sentence="", **fields)
        self.emit(events.Finished, table, run_id, outcome=end)

    def __getitem__(self, key: Metric | tuple[Metric, ...]) -> Any:
        metric, *labels = key if isinstance(key, tuple) else (key,)
        return self.values.snapshot()[metric, tuple(labels)]  # type: ignore[index]


def test_a_run_is_active_from_its_first_event_to_its_last_and_others_are_pending() -> None:
    scene = Scene()
    scene.feed.expect(3)
    scene.emit(events.Planning)
    assert (scene[metric_list.ACTIVE], scene[metric_list.PENDING]) == (1, 2)
    scene.finish(**COMPACTED)
    assert (scene[metric_list.ACTIVE], scene[metric_list.PENDING]) == (0, 2)
    scene.feed.end()
    assert scene[metric_list.PENDING] == 0


def test_an_outcome_adds_files_bytes_requests_and_their_price() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.now = 104.0
    scene.finish(**COMPACTED)
    assert scene[metric_list.RUNS, "compacted", "db.t"] == 1
    assert scene[metric_list.RUNS, "failed", "db.t"] == 0
    assert scene[metric_list.FILES_COMPACTED, "db.t"] == 6
    assert scene[metric_list.FILES_BEFORE, "db.t"] == 6
    assert scene[metric_list.FILES_AFTER, "db.t"] == 1
    assert scene[metric_list.BYTES_COMPACTED, "db.t"] == 600
    assert scene[metric_list.CONFLICTS, "db.t"] == 2
    assert scene[metric_list.REQUESTS, "get"] == 1000
    assert scene[metric_list.COST, "db.t"] == pytest.approx(0.0004 + 0.005)
    assert scene[metric_list.LAST_COMPRESSION, "db.t"] == 3.0
    assert scene[metric_list.LAST_SUCCESS, "db.t"] == 104.0
    assert scene[metric_list.RUN_DURATION, "compacted"].total == 4.0


def test_an_undo_is_a_run_and_compacts_no_files() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.emit(events.Planned, sentence="", files=6, bytes=600)
    scene.finish(outcome.Undone, way="rollback", undone_run_id="q", head_snapshot_id=7, files_removed=1, files_added=6)
    assert scene[metric_list.RUNS, "undone", "db.t"] == 1
    assert scene[metric_list.LAST_SUCCESS, "db.t"] == 100.0
    assert scene[metric_list.RECOMMENDATIONS, "db.t"] == 0
    compacted = {metric_list.FILES_COMPACTED, metric_list.FILES_BEFORE, metric_list.FILES_ADDED}
    assert compacted.isdisjoint(metric for metric, _ in scene.values.snapshot())


def test_a_failed_run_moves_no_time_of_success() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.finish(outcome.Failed)
    assert scene[metric_list.RUNS, "failed", "db.t"] == 1
    assert scene[metric_list.LAST_RUN, "db.t"] == 100.0
    assert (metric_list.LAST_SUCCESS, ("db.t",)) not in scene.values.snapshot()


def test_a_run_that_an_error_broke_off_has_failed() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.feed.end()
    assert scene[metric_list.RUNS, "failed", "db.t"] == 1
    assert scene[metric_list.ACTIVE] == 0


def test_a_command_that_an_error_ends_is_counted_though_no_run_began() -> None:
    scene = Scene()
    scene.feed.begin("1")
    assert scene[metric_list.COMMAND_ERRORS] == 0
    scene.feed.end(failed=True)
    assert scene[metric_list.COMMAND_ERRORS] == 1


def test_a_plan_that_is_only_shown_is_a_look_and_no_run() -> None:
    scene = Scene()
    scene.emit(events.Planning, performs=False)
    scene.emit(events.Planned, sentence="", files=4, groups=1)
    scene.emit(events.Planning, table="db.u", run_id="s", performs=False)
    scene.emit(events.Planned, table="db.u", run_id="s", sentence="")
    scene.feed.end()
    assert scene[metric_list.EXAMINATIONS, "db.t"] == 1
    assert scene[metric_list.RECOMMENDATIONS, "db.t"] == 1
    assert scene[metric_list.RECOMMENDATIONS, "db.u"] == 0
    assert not any(metric is metric_list.RUNS for metric, _ in scene.values.snapshot())


def test_progress_that_comes_late_and_an_end_that_comes_twice_are_no_other_run() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.finish(**COMPACTED)
    scene.emit(events.Rewriting, files_done=4, files_total=4, bytes_done=4, bytes_total=4)
    scene.finish(outcome.Failed)
    scene.feed.end()
    assert scene[metric_list.RUNS, "compacted", "db.t"] == 1
    assert scene[metric_list.RUNS, "failed", "db.t"] == 0
    assert scene[metric_list.ACTIVE] == 0


def test_the_end_of_a_task_adds_its_seconds_bytes_sizes_and_retries() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    done = {"task_id": 0, "group_id": 0, "seconds": 36.0, "bytes_read": 500, "bytes_written": 200}
    scene.emit(events.TaskEnded, **done, file_sizes=(90, 3 << 20), attempts=2)
    scene.emit(events.TaskEnded, task_id=1, group_id=0, failed=True)
    assert scene[metric_list.TASKS, "done"] == scene[metric_list.TASKS, "failed"] == 1
    assert scene[metric_list.RETRIES, "task"] == 1
    assert scene[metric_list.TASK_SECONDS, "db.t"] == 36.0
    assert scene[metric_list.COST, "db.t"] == pytest.approx(0.0005)
    assert scene[metric_list.BYTES_READ, "db.t"] == 500
    sizes = scene[metric_list.FILE_SIZE]
    assert (sizes.counts[0], sizes.counts[2], sum(sizes.counts)) == (1, 1, 2)


def test_groups_that_are_not_committed_are_the_queue() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.emit(events.Planned, sentence="", files=4, bytes=400, groups=3)
    assert (scene[metric_list.QUEUED_GROUPS], scene[metric_list.QUEUED_BYTES]) == (3, 400)
    progress = {"files_done": 2, "files_total": 4, "bytes_done": 300, "bytes_total": 400}
    scene.emit(events.Rewriting, **progress, groups_committed=1, groups_total=3)
    assert (scene[metric_list.QUEUED_GROUPS], scene[metric_list.QUEUED_BYTES]) == (2, 100)
    scene.finish(**COMPACTED)
    assert (scene[metric_list.QUEUED_GROUPS], scene[metric_list.QUEUED_BYTES]) == (0, 0)


def test_a_table_has_its_small_files_before_and_after_a_commit() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    before = TableFigures(snapshot_id=1, data_files=10, small_files=8, bytes=100)
    scene.emit(events.Planned, sentence="", files=8, before=before)
    assert (scene[metric_list.TABLE_FILES, "db.t"], scene[metric_list.SMALL_FILES, "db.t"]) == (10, 8)
    after = TableFigures(snapshot_id=2, data_files=3, small_files=1, bytes=100)
    scene.emit(events.Committed, snapshot_id=2, attempts=3, after=after)
    assert (scene[metric_list.TABLE_FILES, "db.t"], scene[metric_list.SMALL_FILES, "db.t"]) == (3, 1)
    assert scene[metric_list.RETRIES, "commit"] == 2


def test_stages_have_the_time_between_their_events() -> None:
    scene = Scene()
    scene.emit(events.Planning)
    scene.now = 103.0
    scene.emit(events.Starting, engine="Spark")
    scene.now = 108.0
    scene.emit(events.Committing)
    scene.finish(**COMPACTED)
    assert scene[metric_list.STAGE_DURATION, "planning"].total == 3.0
    assert scene[metric_list.STAGE_DURATION, "starting"].total == 5.0


def test_ten_thousand_tables_have_as_many_series_as_the_limit_allows() -> None:
    scene = Scene(tables=100)
    for number in range(10_000):
        scene.emit(events.Planning, f"db.t{number}", f"r{number}")
        scene.finish(table=f"db.t{number}", run_id=f"r{number}", **COMPACTED)
    assert scene[metric_list.RUNS, "compacted", metric_list.OTHER] == 9_900
    assert len(scene.values.snapshot()) < 3_000
    assert (metric_list.LAST_RUN, (metric_list.OTHER,)) not in scene.values.snapshot()


def test_counters_are_the_same_whatever_the_limit() -> None:
    scenes = [Scene(tables=limit) for limit in (0, 1, 10)]
    for scene in scenes:
        for table in "abc":
            scene.emit(events.Planning, table, table)
            scene.finish(table=table, run_id=table, **COMPACTED)
    sums = [
        sum(figure for (metric, _), figure in scene.values.snapshot().items() if metric is metric_list.FILES_COMPACTED)
        for scene in scenes
    ]
    assert sums == [18, 18, 18]
