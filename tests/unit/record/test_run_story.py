"""The figures that events of a run leave in its record."""

from __future__ import annotations

from tests.factories.stores import make_record

from iceberg_compaction.model import events
from iceberg_compaction.model.run_figures import PlanForecast, Stage, TableFigures
from iceberg_compaction.record.run_story import RunStory

OF = {"table": "db.t", "run_id": "a"}
FORECAST = PlanForecast(files=4, bytes=400, groups=1, output_files=1)
BEFORE = TableFigures(snapshot_id=1, data_files=4, small_files=4, bytes=400)
AFTER = TableFigures(snapshot_id=2, data_files=1, small_files=0, bytes=390)


def rewriting(done: int, *, committed: int = 0, total: int = 400) -> events.Rewriting:
    counts = {"files_done": 0, "files_total": 4, "bytes_done": done, "bytes_total": total}
    return events.Rewriting(**OF, **counts, groups_committed=committed, groups_total=2)


def story_of(*steps: tuple[int, events.Event]) -> RunStory:
    story = RunStory()
    for at_ms, event in steps:
        story.take(event, at_ms)
    return story


def seconds(story: RunStory, now_ms: int) -> dict[Stage, float]:
    return {time.stage: time.seconds for time in story.stages(now_ms)}


def test_each_stage_has_the_time_until_the_next_one_begins() -> None:
    story = story_of(
        (1000, events.Planning(**OF)),
        (2000, events.Recovering(**OF, runs=1)),
        (2500, events.Planning(**OF)),
        (3000, events.Planned(**OF, sentence="", forecast=FORECAST, before=BEFORE)),
        (4000, events.Starting(**OF, engine="Spark")),
        (9000, rewriting(0)),
        (11_000, rewriting(200)),
        (12_000, rewriting(400)),
        (12_500, events.Committing(**OF, groups=2)),
        (13_000, events.Committed(**OF, snapshot_id=2, groups=2, after=AFTER)),
        (13_000, rewriting(400, committed=2)),
        (13_100, events.Finished(**OF, outcome=make_record("a").outcome)),
    )
    assert seconds(story, 13_200) == {
        Stage.PLANNING: 2.5,
        Stage.RECOVERING: 0.5,
        Stage.STARTING: 5.0,
        Stage.REWRITING: 3.0,
        Stage.VERIFYING: 0.5,
        Stage.COMMITTING: 0.5,
        Stage.ENDING: 0.2,
    }
    assert (story.forecast, story.before, story.after) == (FORECAST, BEFORE, AFTER)


def test_batches_are_added_up_and_a_clock_that_is_set_back_counts_nothing() -> None:
    story = story_of(
        (1000, rewriting(100)),
        (2000, events.Committing(**OF)),
        (2500, events.Committed(**OF, snapshot_id=2)),
        (2500, rewriting(100, committed=1)),
        (1500, rewriting(400, committed=1)),
        (2500, events.Committing(**OF)),
    )
    assert seconds(story, 3000) == {
        Stage.REWRITING: 1.0,
        Stage.VERIFYING: 1.0,
        Stage.COMMITTING: 1.0,
        Stage.ENDING: 0.0,
    }


def test_the_first_plan_is_the_forecast_and_the_last_commit_is_the_table_afterwards() -> None:
    later = FORECAST.model_copy(update={"files": 1})
    newest = AFTER.model_copy(update={"snapshot_id": 3})
    story = story_of(
        (1, events.Planned(**OF, sentence="", forecast=FORECAST)),
        (2, events.Committed(**OF, snapshot_id=2, after=AFTER)),
        (3, events.Planned(**OF, sentence="", forecast=later)),
        (4, events.Committed(**OF, snapshot_id=3, after=newest)),
        (5, events.Committed(**OF, snapshot_id=4)),
    )
    assert (story.forecast, story.after) == (FORECAST, newest)


def test_a_run_without_events_has_no_stages() -> None:
    assert RunStory().stages(100) == ()
