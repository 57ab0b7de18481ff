"""`delete-files` does in each partition what costs least, says why, and leaves every row as it was."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given
from hypothesis import strategies as st
from tests.factories import manifests, racing, reader, storage
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.examples import examples
from tests.factories.lake import make_table
from tests.integration import test_clean_deletes_races as races
from tests.integration import test_random_deletes as randoms

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.model import plan_cost
from iceberg_compaction.model.policies import Policy
from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan, from_json
from iceberg_compaction.operations.deletes import perform_deletes, replace_deletes
from iceberg_compaction.workflow import diagnose

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake


def rows(*ids: int, city: str = "Rome") -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64()), "city": pa.array([city] * len(ids))}).cast(SCHEMA.as_arrow())


def keys(*ids: int) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int64())})


def compactor(table: Table, **options: Any) -> Compactor:
    """Storage is dear and readers are few, so that files of some KB are treated as others of some GB."""
    given = {"strategy": "delete-files", "scans-per-day": 2, "prices": "gb-month=10", **options}
    return Compactor(table.catalog, engine="inline", options=given)


def name(table: Table) -> str:
    return ".".join(table.name())


def fresh(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def files(table: Table, content: int, city: str | None = None) -> list[str]:
    return [
        file["file_path"]
        for file in fresh(table).inspect.files().to_pylist()
        if file["content"] == content and city in (None, file["partition"].get("city"))
    ]


@pytest.fixture
def table(local_lake: Lake) -> Table:
    return make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)


def three_cities(table: Table) -> Table:
    """Rome is best rewritten, Oslo merged, Bonn converted: by how large their files are, and how many rows are left."""
    table.append(rows(*range(40)))
    (rome,) = files(table, 0, "Rome")
    table.append(rows(*range(30_000), city="Oslo"))
    (oslo,) = files(table, 0, "Oslo")
    table.append(rows(*range(30_000), city="Bonn"))
    (bonn,) = files(table, 0, "Bonn")
    table = manifests.add_position_delete(fresh(table), {rome: list(range(35))})
    for positions in ([1], [2], [3]):
        table = manifests.add_position_delete(fresh(table), {oslo: positions})
    for number in range(4):
        table = manifests.add_equality_delete(fresh(table), keys(number, number + 50), like=bonn)
    return table


WAYS = {"Rome": "apply", "Oslo": "merge", "Bonn": "convert"}


def ways(plan: Plan | EmptyPlan) -> dict[str, str]:
    return {json.loads(each.partition)["city"]: each.way.value for each in plan.deletes}


def test_each_partition_gets_what_costs_least(table: Table) -> None:
    table = three_cities(table)
    before, large = reader.rows(table), {*files(table, 0, "Oslo"), *files(table, 0, "Bonn")}
    plan = compactor(table).plan_table(name(table))
    assert ways(plan) == WAYS
    assert plan.sentence == (
        "1 file in 1 group becomes about 1; 3 delete files are merged in 1 partition; 4 delete files are replaced by "
        "position deletes in 1 partition."
    )
    for each in plan.deletes:  # it says why
        cheapest = min(each.costs, key=lambda cost: cost.total)
        assert each.way is cheapest.way
        assert all(plan_cost.dollars(cost.cost) in each.sentence for cost in each.costs)
    assert {left.reason.value: left.files for left in plan.left_out} == {"deletes-exchanged": 2}
    assert from_json(plan.model_dump_json()) == plan
    exchanges = [next(cost for cost in each.costs if cost.way is each.way) for each in plan.exchanges]
    assert plan.cost.exchange_cost == pytest.approx(sum(cost.cost for cost in exchanges))
    assert plan.cost.cost > plan.cost.exchange_cost

    outcome = compactor(table).compact_table(name(table))

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert len(outcome.snapshot_ids) == 2
    assert outcome.delete_files_removed == 8
    assert outcome.cost > 0
    assert reader.rows(fresh(table)) == before
    assert large < set(files(table, 0))  # no data file of Oslo and Bonn was written
    assert [len(files(table, 1, city)) for city in ("Rome", "Oslo", "Bonn")] == [0, 1, 1]
    assert not files(table, 2)
    assert not storage.files_under(table) - reader.known_files(fresh(table))
    again = compactor(table).plan_table(name(table))
    assert again.empty, again.sentence
    assert ways(again) == {"Oslo": "leave", "Bonn": "leave"}


@pytest.mark.parametrize(
    ("action", "expected"),
    [
        ("apply", {}),
        ("merge", {"Rome": "leave", "Oslo": "merge", "Bonn": "leave"}),
        ("convert", {"Rome": "leave", "Oslo": "leave", "Bonn": "convert"}),
    ],
)
def test_an_action_can_be_asked_for(table: Table, action: str, expected: dict[str, str]) -> None:
    table = three_cities(table)
    before = reader.rows(table)
    asking = compactor(table, **{"delete-action": action})
    plan = asking.plan_table(name(table))
    assert ways(plan) == expected
    assert (len(plan.groups) == 3) == (action == "apply")
    outcome = asking.compact_table(name(table))
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert reader.rows(fresh(table)) == before
    assert asking.plan_table(name(table)).empty
    assert bool(files(table, 1)) == (action != "apply")


def test_a_partition_that_a_filter_divides_is_not_merged(table: Table) -> None:
    table = three_cities(table)
    fresh(table).append(rows(*range(30_000, 60_000), city="Oslo"))
    newer = next(path for path in files(table, 0, "Oslo") if path not in files(table, 0, "Rome"))
    assert newer
    plan = compactor(table, where="id >= 40000").plan_table(name(table))
    assert plan.empty
    assert not plan.deletes
    whole = compactor(table, where="city = 'Oslo'").plan_table(name(table))
    assert ways(whole) == {"Oslo": "merge"}


def test_partitions_that_a_global_delete_reaches_are_decided_together(table: Table) -> None:
    for city in ("Rome", "Oslo"):
        table.append(rows(*range(20_000), city=city))
    with table.update_spec() as update:
        update.remove_field("city")
    for number in range(4):
        table = manifests.add_equality_delete(fresh(table), keys(number, number + 50))
    before = reader.rows(table)
    plan = compactor(table).plan_table(name(table))
    assert ways(plan) == {"Rome": "convert", "Oslo": "convert"}
    assert all("all 2 partitions that one equality delete reaches" in each.sentence for each in plan.deletes)
    one = compactor(table, partition="city=Rome", **{"delete-action": "convert"}).plan_table(name(table))
    assert not one.exchanges  # it could not leave

    assert compactor(table).compact_table(name(table)).kind is Kind.COMPACTED

    assert not files(table, 2)
    assert reader.rows(fresh(table)) == before
    assert compactor(table).plan_table(name(table)).empty


def test_a_key_that_takes_most_rows_leads_to_a_rewrite_in_the_same_run(table: Table) -> None:
    """Before the conversion nobody can know how many rows a key takes."""
    table.append(rows(*range(30_000), city="Bonn"))
    (bonn,) = files(table, 0)
    for deleted in (keys(1), keys(2), keys(3), pa.table({"city": ["Bonn"]})):
        table = manifests.add_equality_delete(fresh(table), deleted, like=bonn)
    fresh(table).append(rows(5, city="Bonn"))
    before = reader.rows(fresh(table))
    assert before.total() == 1
    assert ways(compactor(table).plan_table(name(table))) == {"Bonn": "convert"}
    outcome = compactor(table).compact_table(name(table))
    assert (outcome.groups_landed, len(outcome.snapshot_ids)) == (1, 2), outcome.sentence
    assert not files(table, 1)
    assert not files(table, 2)
    assert reader.rows(fresh(table)) == before
    assert compactor(table).plan_table(name(table)).empty


def test_a_budget_pays_for_delete_files_first(table: Table) -> None:
    table = three_cities(table)
    full = compactor(table).plan_table(name(table))
    less = full.cost.exchange_cost * 1.01
    plan = compactor(table, **{"max-cost": less}).plan_table(name(table))
    assert len(plan.exchanges) == 2
    assert not len(plan.groups)
    assert plan.cost.cost <= less
    assert {left.reason.value for left in plan.left_out} == {"deletes-exchanged", "over-budget"}
    least = min(cost.cost for each in full.exchanges for cost in each.costs if cost.way is each.way)
    one = compactor(table, **{"max-cost": least * 1.01}).plan_table(name(table))
    assert len(one.exchanges) == 1
    assert "wait for another run, because max-cost is" in " ".join(each.sentence for each in one.deletes)
    nothing = compactor(table, **{"max-cost": 1e-9}).plan_table(name(table))
    assert nothing.empty


def test_a_saved_plan_exchanges_what_it_was_made_on(table: Table) -> None:
    table = three_cities(table)
    plan = compactor(table).plan_table(name(table))
    (oslo,) = files(table, 0, "Oslo")
    table = manifests.add_position_delete(fresh(table), {oslo: [9]})
    before, later = reader.rows(table), set(files(table, 1, "Oslo"))
    outcome = compactor(table).apply(plan)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert reader.rows(fresh(table)) == before
    assert len(set(files(table, 1, "Oslo")) & later) == 1  # the delete that came later
    again = compactor(table).apply(plan)
    assert again.snapshot_id is None
    assert reader.rows(fresh(table)) == before


def test_a_run_is_verified_and_undone(table: Table, tmp_path: Path) -> None:
    table = three_cities(table)
    before, old = reader.rows(table), set(files(table, 1)) | set(files(table, 2))
    options = {"strategy": "delete-files", "scans-per-day": 2, "prices": "gb-month=10"}
    kept = Compactor(table.catalog, engine="inline", options=options, state=tmp_path / "runs.db")
    outcome = kept.compact_table(name(table))
    assert kept.verify(outcome.run_id).verdict.value == "proved"
    assert kept.undo(outcome.run_id).kind is Kind.UNDONE
    assert set(files(table, 1)) | set(files(table, 2)) == old
    assert reader.rows(fresh(table)) == before


def test_what_was_rewritten_stays_if_the_exchange_fails(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table = three_cities(table)
    before, old = reader.rows(table), {*files(table, 1, "Oslo"), *files(table, 2)}
    with monkeypatch.context() as patch:
        patch.setattr(replace_deletes, "replace", refuse)
        outcome = compactor(table).compact_table(name(table))
    assert outcome.kind is Kind.FAILED
    assert "the store is away" in outcome.sentence
    assert "1 of 1 group landed and stay" in outcome.sentence
    assert {*files(table, 1), *files(table, 2)} == old
    assert reader.rows(fresh(table)) == before
    assert not storage.files_under(table) - reader.known_files(fresh(table))
    outcome = compactor(table).compact_table(name(table))
    assert outcome.sentence.startswith("7 delete files became 2 in snapshot"), outcome.sentence
    assert reader.rows(fresh(table)) == before
    assert compactor(table).plan_table(name(table)).empty


def refuse(*_: object) -> None:
    raise errors.CommitError("the store is away.")


def test_an_exchange_whose_tasks_fail_is_no_conflict(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    table.append(rows(*range(30_000), city="Bonn"))
    (bonn,) = files(table, 0, "Bonn")
    for number in range(4):
        table = manifests.add_equality_delete(fresh(table), keys(number, number + 50), like=bonn)
    end = perform_deletes.DeletesEnd(result=None, failures={0: "The worker has no memory left."})
    monkeypatch.setattr(perform_deletes, "perform", lambda *_: end)
    outcome = compactor(table).compact_table(name(table))
    assert (outcome.kind, "no memory left" in outcome.sentence) == (Kind.FAILED, True)


def test_explain_and_doctor_say_the_same(table: Table) -> None:
    table = three_cities(table)
    explained = compactor(table).explain(name(table))
    assert any(line.startswith("city=Oslo: 3 delete files are merged") for line in explained.reasons)
    policy = Policy(strategy="delete-files", scans_per_day=2, prices="gb-month=10")
    found = diagnose.diagnose(table.catalog, name(table), policy)
    assert found.sick
    assert "This rewrites 1 of 3 data files (1007 B) and merges or converts 7 delete files." in found.advice
    compactor(table).compact_table(name(table))
    assert not diagnose.diagnose(table.catalog, name(table), policy).sick


OTHERS = {act.__name__: act for act in (*races.HARMLESS, races.remove_data_file, races.compact, races.same_by_others)}


@pytest.mark.parametrize("act", OTHERS)
def test_others_at_work_on_the_same_files(local_lake: Lake, act: str, monkeypatch: pytest.MonkeyPatch) -> None:
    table = races.contested(make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY))
    racing.before_publishing(monkeypatch, lambda: OTHERS[act](table))
    outcome = compactor(table, **{"delete-action": "convert"}).compact_table(name(table))
    assert outcome.ok, outcome.sentence  # what conflicts is chosen again
    table = fresh(table)
    mine = [
        each
        for each in table.snapshots()
        if each.summary.additional_properties.get("compaction.run-id") == outcome.run_id
    ]
    for snapshot in mine:
        assert reader.rows(table, snapshot) == reader.rows(table, table.snapshot_by_id(snapshot.parent_snapshot_id))
    assert not storage.files_under(table) - reader.known_files(table)
    before = reader.rows(table)
    assert compactor(table).compact_table(name(table)).ok
    assert reader.rows(fresh(table)) == before


_NUMBERS = itertools.count()


@examples(
    12, phases=(Phase.generate,), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    steps=st.lists(
        randoms.APPEND | randoms.POSITION | randoms.EQUALITY | randoms.REMOVE | randoms.RESPEC, min_size=3, max_size=9
    ),
    action=st.sampled_from(["cheapest", "cheapest", "merge", "convert", "apply"]),
    scans=st.sampled_from([0, 0.5, 2, 24, 1000]),
    storage_price=st.sampled_from([0.023, 10, 1000]),
    threshold=st.sampled_from([None, 2]),
)
def test_rows_stay_whatever_is_chosen_and_a_second_run_is_empty(
    local_lake: Lake, steps: list[Any], action: str, scans: float, storage_price: float, threshold: int | None
) -> None:
    table = make_table(local_lake.catalog, local_lake.name(f"t{next(_NUMBERS)}"), SCHEMA, spec=BY_CITY)
    for step in steps:
        table = randoms.perform(table, step)
    before = reader.rows(table)
    options: dict[str, Any] = {"delete-action": action, "scans-per-day": scans, "prices": f"gb-month={storage_price}"}
    options |= {} if threshold is None else {"delete-file-threshold": threshold}
    choosing = compactor(table, **options)
    plan = choosing.plan_table(name(table))
    rewritten = set(plan.partitions)
    assert not rewritten & {each.key for each in plan.exchanges}

    outcome = choosing.compact_table(name(table))

    assert outcome.ok, outcome.sentence
    assert (outcome.kind is Kind.HEALTHY) == plan.empty
    table = fresh(table)
    assert reader.rows(table) == before
    assert not storage.files_under(table) - reader.known_files(table)
    again = choosing.plan_table(name(table))
    assert again.empty, (again.sentence, again.deletes)
