"""What a run leaves in the store beside its outcome: events, the time of each stage, the forecast, and the table before
and after it. The table afterwards is computed, never read, so these tests look at the real one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import manifests, work

from iceberg_compaction import Policy
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.metadata import look
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.run_figures import Stage
from iceberg_compaction.operations.rewrite_files import table_figures
from iceberg_compaction.plan import plan_request
from iceberg_compaction.record import event_log, health_log

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table

    from iceberg_compaction.model.run_figures import TableFigures
    from iceberg_compaction.model.run_record import RunRecord
    from iceberg_compaction.record.store import RunStore

POLICY = {"min-input-files": 2}


@pytest.fixture
def store(tmp_path: Path) -> RunStore:
    return wiring.run_store(tmp_path / "runs.db")


def compact(catalog: Any, name: str, store: RunStore, **policy: Any) -> RunRecord:
    run = wiring.new_run(store=store)
    options = POLICY | {key.replace("_", "-"): value for key, value in policy.items()}
    work.compact_table(catalog, name, Policy.model_validate(options), wiring.engine_factory("inline"), run)
    record = store.run(run.run_id)
    assert record is not None
    return record


def figures_now(table: Table, name: str) -> TableFigures:
    view = look.look(table.refresh(), name=name).view
    return table_figures.before(view, plan_request.resolve(view, Policy.model_validate(POLICY)).sizes)


def test_a_run_leaves_its_events_its_stages_and_its_forecast(local_lake: lakes.Lake, store: RunStore) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4)
    record = compact(local_lake.catalog, "db.t", store)
    story = event_log.EventLog(entries=store.entries)
    kinds = [each.event.kind for each in story.events(record.run_id)]
    assert kinds == ["planning", "planned", "rewriting", "task-ended", "committing", "committed", "finished"]
    progress = story.progress(record.run_id)
    assert progress is not None
    assert progress.event.bytes_done == progress.event.bytes_total
    assert {each.stage for each in record.stages} >= {Stage.PLANNING, Stage.COMMITTING}
    assert sum(each.seconds for each in record.stages) == pytest.approx(record.outcome.seconds, abs=0.2)
    assert record.forecast is not None
    assert (record.forecast.files, record.forecast.groups, record.forecast.output_files) == (4, 1, 1)


def test_the_table_after_a_run_is_the_one_that_the_next_look_sees(local_lake: lakes.Lake, store: RunStore) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    lakes.append_small_files(table, 5)
    before = figures_now(table, "db.t")
    record = compact(local_lake.catalog, "db.t", store)
    assert record.before == before
    assert record.after == figures_now(table, "db.t")
    assert record.after is not None
    assert (record.after.data_files, record.after.row_groups) == (1, 1)


@pytest.mark.parametrize("strategy", ["full", "delete-files"])
def test_deletes_that_a_run_applies_are_gone_from_its_figures(
    local_lake: lakes.Lake, store: RunStore, strategy: str
) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    lakes.append_small_files(table, 4)
    first = table.inspect.data_files()["file_path"][0].as_py()
    table = manifests.add_position_delete(table, {first: [0]})
    record = compact(local_lake.catalog, "db.t", store, strategy=strategy, delete_file_threshold=1)
    assert record.before is not None
    assert record.before.delete_files == 1
    assert record.after == figures_now(table, "db.t")


def test_the_health_of_the_table_is_kept_before_and_after(local_lake: lakes.Lake, store: RunStore) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4)
    record = compact(local_lake.catalog, "db.t", store)
    health = health_log.HealthLog(entries=store.entries)
    looks = health.of_table(record.catalog, "db.t")
    assert [each.figures for each in looks] == [record.after, record.before]
    assert {each.run_id for each in looks} == {record.run_id}
    assert [each.figures for each in health.latest()] == [record.after]


def test_a_run_with_nothing_to_do_keeps_the_table_as_it_is(local_lake: lakes.Lake, store: RunStore) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    record = compact(local_lake.catalog, "db.t", store)
    assert record.outcome.kind is Kind.HEALTHY
    assert record.after is None
    assert [each.figures for each in health_log.HealthLog(entries=store.entries).latest()] == [record.before]


def test_making_a_plan_writes_nothing(local_lake: lakes.Lake, tmp_path: Path) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 4)
    run = wiring.new_run(store=wiring.run_store(tmp_path / "runs.db"))
    work.plan_table(local_lake.catalog, "db.t", Policy.model_validate(POLICY), run)
    assert not (tmp_path / "runs.db").exists()


def test_manifests_have_no_figures_but_their_stages(local_lake: lakes.Lake, store: RunStore) -> None:
    lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6)
    run = wiring.new_run(store=store)
    work.rewrite_manifests(local_lake.catalog, "db.t", run)
    record = store.run(run.run_id)
    assert record is not None
    assert (record.before, record.forecast) == (None, None)
    assert record.stages
