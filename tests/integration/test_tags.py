"""Tags on a real table: made once, never moved, removed by `expire` when their time is over."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import runs

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.interfaces import upkeep_operations, wiring
from iceberg_compaction.model.snapshot_retention import RetentionGoal
from iceberg_compaction.operations import upkeep_file
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.outcome import Outcome

DAY = 86_400_000


def make(lake: Lake, appends: int = 2) -> Table:
    table = lakes.make_table(lake.catalog, lake.name("t"), properties={"commit.retry.min-wait-ms": "1"})
    for number in range(appends):
        table.append(lakes.rows(table.schema().as_arrow(), 4, first=4 * number))
    return table


def perform(operation: Any, table: Table, days: float) -> Outcome:
    now = wiring.now_ms() + round(days * DAY)
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    return operate.operate(operation, house, runs.make_run(clock=lambda: now))


def tags_of(table: Table) -> dict[str, Any]:
    refs = table.catalog.load_table(table.name()).metadata.refs
    return {name: ref for name, ref in refs.items() if name != "main"}


def test_tags_are_made_once_and_expire_when_their_time_is_over(lake: Lake) -> None:
    table = make(lake)
    head = table.metadata.snapshots[-1].snapshot_id
    operation = upkeep_operations.tags(lake.name("t"), upkeep_operations.tag_goal(keep="3d"))
    result = perform(operation, table, 2)
    assert result.kind is Kind.MAINTAINED, result.sentence
    made = tags_of(table)
    assert len(made) == 2
    assert {ref.snapshot_id for ref in made.values()} == {head}
    assert perform(operation, table, 2).kind is Kind.HEALTHY
    assert tags_of(table) == made
    table.refresh().append(lakes.rows(table.schema().as_arrow(), 4, first=90))
    expiry = upkeep_operations.expire(lake.name("t"), RetentionGoal())
    assert perform(expiry, table, 2.9).kind is Kind.HEALTHY
    assert len(tags_of(table)) == 2
    assert perform(expiry, table, 30).kind is Kind.MAINTAINED
    assert tags_of(table) == {}


def test_a_tag_that_somebody_made_first_is_not_moved(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from iceberg_compaction.operations.tags import tag_change

    table = make(local_lake)
    first = table.metadata.snapshots[0].snapshot_id
    operation = upkeep_operations.tags("db.t", upkeep_operations.tag_goal())
    real, stages = tag_change.TagChange.stage, []

    def stage(change: Any, given: Table, now_ms: int) -> Any:
        staged = real(change, given, now_ms)
        stages.append(staged)
        if len(stages) == 1:
            given.catalog.load_table("db.t").manage_snapshots().create_tag(first, staged.tags[0].name).commit()
        return staged

    monkeypatch.setattr(tag_change.TagChange, "stage", stage)
    result = perform(operation, table, 2)
    assert (result.kind, len(stages)) == (Kind.MAINTAINED, 2), result.sentence
    assert tags_of(table)[stages[0].tags[0].name].snapshot_id == first
    assert len(tags_of(table)) == 2


def test_a_saved_plan_makes_no_other_tags(local_lake: Lake, tmp_path: Path) -> None:
    table = make(local_lake)
    compactor = Compactor(local_lake.settings, engine="inline")
    plan = compactor.plan_tags("db.t", every="hour")
    assert plan.tags == ()
    house = operate.House(catalog=table.catalog, engines=wiring.engine_factory("inline"))
    now = wiring.now_ms() + 2 * DAY
    made = operate.plan_only(
        upkeep_operations.tags("db.t", upkeep_operations.tag_goal()), house, runs.make_run(clock=lambda: now)
    )
    upkeep_file.save(made, tmp_path / "tags.json")
    result = perform(upkeep_file.load_operation(tmp_path / "tags.json"), table, 4)
    assert result.kind is Kind.MAINTAINED, result.sentence
    assert set(tags_of(table)) == {each.name for each in made.tags}


def test_an_empty_table_has_no_tags_and_wrong_words_are_refused(local_lake: Lake) -> None:
    table = make(local_lake, appends=0)
    assert perform(upkeep_operations.tags("db.t", upkeep_operations.tag_goal()), table, 3).kind is Kind.HEALTHY
    for wrong in ({"every": "week"}, {"at": "25:00"}, {"at": "noon"}, {"keep": "long"}):
        with pytest.raises(errors.ConfigError):
            upkeep_operations.tag_goal(**wrong)
