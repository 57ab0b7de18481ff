"""Budgets on real tables: a run that would pass its budget stops after the groups under way, and what is done stays."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import storage
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from tests.factories.lake import make_table

from iceberg_compaction import Compactor, Kind, Policy, Strategy
from iceberg_compaction.execute import perform_task
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.model.outcome import Compacted, GroupEnd, Healthy
from iceberg_compaction.operations.rewrite_files.planning import policy_rule
from iceberg_compaction.workflow.fleet_budget import FleetBudget
from iceberg_compaction.workflow.rank_tables import RankedTable

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

CITIES = ("Bern", "Lima", "Oslo", "Pune", "Rome")  # one group each


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, "db.sales", SCHEMA, spec=BY_CITY)
    for number in range(3):
        made.append(city_rows(number * 20, CITIES, 20))
    return made


def slow_engine(seconds: float) -> InlineEngine:
    """Tasks that say that they took so long."""
    rewrite: Callable[..., Any] = perform_task.worker()
    return InlineEngine(
        rewrite=lambda *args: rewrite(*args).model_copy(update={"seconds": seconds})  # type: ignore[arg-type]
    )


def compactor(lake: Lake, seconds: float, **options: Any) -> Compactor:
    given = {"min-input-files": 2, **options}
    return Compactor(lake.catalog, engine=slow_engine(seconds), options=given, state=given.pop("state", None))


def test_the_library_example_of_the_guide_runs(local_lake: Lake, table: Table) -> None:
    before = storage.row_multiset(table.scan().to_arrow())
    with Compactor(
        local_lake.catalog, strategy=Strategy.COST_OPTIMIZED, target_file_size="1GB", engine="inline"
    ) as own:
        done = own.compact_table("sales")
        assert own.compact_table("sales").kind is Kind.HEALTHY
    assert isinstance(done, Compacted)
    assert (done.files_removed, done.files_added) == (15, 5)
    assert storage.row_multiset(local_lake.catalog.load_table("db.sales").scan().to_arrow()) == before


def test_a_run_that_would_pass_its_budget_stops_and_keeps_what_is_done(local_lake: Lake, table: Table) -> None:
    before = storage.row_multiset(table.scan().to_arrow())
    own = compactor(local_lake, 60, **{"max-cost": 0.002})  # a task costs $0.0008
    assert len(own.plan_table("sales").groups) == 5
    outcome = own.compact_table("sales")
    assert isinstance(outcome, Compacted)
    ends = [group.outcome for group in outcome.group_outcomes]
    assert ends.count(GroupEnd.COMMITTED) == 2
    assert ends.count(GroupEnd.NOT_REACHED) == 3
    assert outcome.cost == pytest.approx(2 * 60 / 3600 * 0.05, rel=0.01)
    assert "The run stopped for its budget after about $0.0017: max-cost is $0.002; 3 groups wait" in outcome.sentence
    assert storage.row_multiset(local_lake.catalog.load_table("db.sales").scan().to_arrow()) == before
    assert compactor(local_lake, 0).compact_table("sales").groups == 3  # the next run goes on


def test_an_hourly_limit_counts_the_runs_of_a_tenant(local_lake: Lake, table: Table, tmp_path: Path) -> None:
    state = {"state": tmp_path / "runs.db", "hourly-cost-limit": 0.01}
    first = compactor(local_lake, 600, tenant="a", **state).compact_table("sales")
    assert (first.tenant, first.groups_landed) == ("a", 2)
    idle = compactor(local_lake, 600, tenant="a", **state).compact_table("sales")
    assert isinstance(idle, Healthy)
    assert "hourly-cost-limit is $0.01, of which runs of the last hour have spent $0.017" in idle.sentence
    other = compactor(local_lake, 0, tenant="b", **state).compact_table("sales")
    assert other.groups_landed == 3


def test_a_plan_is_not_applied_when_the_hour_is_spent(local_lake: Lake, table: Table, tmp_path: Path) -> None:
    state = {"state": tmp_path / "runs.db", "hourly-cost-limit": 0.01}
    later = compactor(local_lake, 600, **state)
    plan = later.plan_table("sales")
    assert compactor(local_lake, 600, where="city = 'Bern'", **state).compact_table("sales").groups_landed == 1
    other = make_table(local_lake.catalog, "db.other", SCHEMA, spec=BY_CITY)
    for number in range(3):
        other.append(city_rows(number * 20, CITIES, 20))
    compactor(local_lake, 600, **state).compact_table("other")
    skipped = later.apply(plan)
    assert skipped.kind is Kind.SKIPPED
    assert "groups wait for another run" in skipped.sentence


def ranked(name: str, cost: float, saving: float, days: float = 0.0) -> RankedTable:
    return RankedTable(table=name, files=1, cost=cost, saving=saving, waited_days=days)


def test_tables_that_wait_overtake_those_that_save_more() -> None:
    rich, poor = ranked("rich", 1, 10), ranked("poor", 1, 1)
    assert rich.priority > poor.priority
    assert ranked("poor", 1, 1, days=30).priority > rich.priority
    assert ranked("useless", 1, -5, days=1).priority > 0
    assert RankedTable(table="idle").priority == 0


def test_one_budget_for_all_tables_is_never_passed(local_lake: Lake) -> None:
    own = Compactor(local_lake.catalog, engine="inline")
    tables = [ranked("db.big", 100, 500), ranked("db.a", 1, 2), ranked("db.b", 1, 2)]
    budget = FleetBudget(8.0, tables)
    parts = []
    for table in tables:
        operation = budget.fit(own._rewrite(table.table))
        assert operation is not None
        assert not isinstance(operation.policy, Policy)
        parts.append(operation.policy.policy_of(table.table, {}, 0).max_cost)
        budget.charge(Compacted(table=table.table, sentence="", run_id="r", snapshot_id=1, cost=parts[-1] or 0.0))
    assert parts == [4.0, 2.0, 2.0]  # the big one leaves half to those behind it
    modest = Compactor(local_lake.catalog, engine="inline", options={"max-cost": 0.25})
    operation = FleetBudget(8.0, tables).fit(modest._rewrite("db.big"))
    assert operation is not None
    assert policy_rule.made_of(operation.policy, "db.big", {}, 0).max_cost == 0.25  # the table's own limit is less
    late = FleetBudget(1.0, [ranked("db.a", 1, 2), ranked("db.b", 1, 2)])
    late.charge(Compacted(table="db.a", sentence="", run_id="r", snapshot_id=1, cost=1.0))
    assert late.fit(own._rewrite("db.b")) is None
    assert "1 left for the budget" in late.summary([], 30)
