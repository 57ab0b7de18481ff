"""A plan applied later: the table has moved on, and what still holds is performed on it as it is then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import lake as lakes
from tests.factories import manifests, storage

from iceberg_compaction import Compactor, Kind, Plan, load_plan, save_plan
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import GroupEnd

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

    from pyiceberg.table import Table

    from iceberg_compaction import Event, Outcome

OPTIONS = {"min-input-files": 2, "max-file-group-input-files": 2, "partial-progress": True}


class Shop:
    """A table of six files, three groups, and a compactor for it."""

    def __init__(self, lake: lakes.Lake) -> None:
        self.lake = lake
        lakes.append_small_files(lakes.make_table(lake.catalog, "db.t"), 6)
        self.compactor = Compactor(lake.catalog, engine="inline", options=OPTIONS)

    @property
    def table(self) -> Table:
        return self.lake.catalog.load_table("db.t")

    def plan(self) -> Plan:
        return self.compactor.plan_table("db.t")

    def rows(self) -> Counter[str]:
        return storage.row_multiset(self.table.scan().to_arrow())

    def append(self) -> None:
        self.table.append(lakes.rows(self.table.schema().as_arrow(), 10, first=1000))

    def apply(self, plan: Plan) -> Outcome:
        files = storage.files_under(self.table)
        outcome = self.compactor.apply(plan)
        if not outcome.groups_landed:
            assert storage.files_under(self.table) == files
        return outcome


@pytest.fixture
def shop(local_lake: lakes.Lake) -> Shop:
    return Shop(local_lake)


def ends(outcome: Outcome) -> list[GroupEnd]:
    return [one.outcome for one in outcome.group_outcomes]


@pytest.mark.parametrize("name", ["plan.json", "plan.json.gz"])
def test_a_plan_from_a_file_is_performed_like_a_run(shop: Shop, tmp_path: Path, name: str) -> None:
    before = shop.rows()
    save_plan(shop.plan(), tmp_path / name)
    outcome = shop.apply(load_plan(tmp_path / name))
    assert (outcome.kind, outcome.files_removed, outcome.files_added) == (Kind.COMPACTED, 6, 3)
    assert shop.rows() == before


def test_a_filter_that_asks_for_the_time_is_pinned_in_the_plan(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "now_ms", lambda: 1_774_933_567_000)  # 2026-03-31
    asked = "id >= 0 and current_date() - interval 7 days >= '2026-03-24'"
    compactor = Compactor(shop.lake.catalog, engine="inline", options=OPTIONS | {"where": asked})
    plan = compactor.plan_table("db.t")
    pinned = "id >= 0 and date '2026-03-24' >= '2026-03-24'"
    assert plan.policy.where == pinned
    assert plan.notes == (f"The filter {asked} was read at 2026-03-31 05:06 UTC: {pinned}.",)
    save_plan(plan, tmp_path / "plan.json")
    monkeypatch.setattr(wiring, "now_ms", lambda: 0)
    assert shop.apply(load_plan(tmp_path / "plan.json")).files_removed == 6


def test_a_table_that_moved_on_is_compacted_as_planned(shop: Shop) -> None:
    """Appends do no harm, and that the planned snapshot has expired by then neither."""
    plan = shop.plan()
    assert plan.pin is not None
    shop.append()
    before, head = shop.rows(), shop.table.current_snapshot()
    assert head is not None
    shop.table.maintenance.expire_snapshots().by_id(plan.pin.snapshot_id).commit()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.groups_landed, outcome.files_removed) == (Kind.COMPACTED, 3, 6)
    summary = shop.table.snapshots()[-1].summary
    assert summary is not None
    assert summary["compaction.planned-snapshot-id"] == str(head.snapshot_id)
    assert summary["compaction.plan-id"] == plan.id
    assert shop.rows() == before


def test_deletes_that_came_since_are_applied(shop: Shop) -> None:
    plan = shop.plan()
    manifests.add_position_delete(shop.table, {plan.files["file_path"][0].as_py(): [0, 1]})
    before = shop.rows()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.deleted_rows) == (Kind.COMPACTED, 2)
    assert shop.rows() == before


def test_groups_that_no_longer_hold_are_dropped_and_told(shop: Shop) -> None:
    plan = shop.plan()
    shop.table.delete("id < 5")  # half of the first file
    before = shop.rows()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.groups_landed, outcome.groups_conflicted) == (Kind.COMPACTED, 2, 0)
    assert ends(outcome).count(GroupEnd.DROPPED) == 1
    (dropped,) = [one for one in outcome.group_outcomes if one.outcome is GroupEnd.DROPPED]
    assert dropped.sentence.startswith("1 of its files is no longer in the table, the first is file://")
    assert f"1 of 3 groups was dropped because the table has moved on: {dropped.sentence}" in outcome.sentence
    assert shop.rows() == before


def test_a_plan_whose_files_its_own_run_replaced_is_healthy(shop: Shop) -> None:
    plan = shop.plan()
    first = shop.apply(plan)
    assert first.kind is Kind.COMPACTED
    before = shop.rows()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.ok) == (Kind.HEALTHY, True)
    assert outcome.sentence == (
        f"Nothing is left to do: all files of the plan were rewritten since by run {first.run_id} of iceberg-compact "
        f"with this very plan, in 3 snapshots, the last {shop.table.metadata.current_snapshot_id}."
    )
    assert set(ends(outcome)) == {GroupEnd.DROPPED}
    assert shop.rows() == before


def test_a_plan_whose_files_another_rewrite_replaced_is_healthy(shop: Shop) -> None:
    plan = shop.plan()
    other = shop.compactor.compact_table("db.t")
    outcome = shop.apply(plan)
    assert outcome.kind is Kind.HEALTHY
    assert f"by run {other.run_id} of iceberg-compact, in" in outcome.sentence


def test_a_plan_of_deleted_files_is_a_conflict(shop: Shop) -> None:
    plan = shop.plan()
    shop.table.delete()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.ok) == (Kind.CONFLICT, False)
    assert outcome.sentence.startswith("Nothing is left of the plan, which had 3 groups; make a new plan. 2 of its")
    assert set(ends(outcome)) == {GroupEnd.DROPPED}


def test_deletes_after_the_rewrite_do_not_hide_it(shop: Shop) -> None:
    plan = shop.plan()
    shop.compactor.compact_table("db.t")
    shop.table.refresh()
    shop.table.delete()
    assert shop.apply(plan).kind is Kind.HEALTHY


def test_a_plan_of_which_a_file_was_deleted_and_others_were_rewritten_is_a_conflict(shop: Shop) -> None:
    plan = shop.plan()
    first = shop.table.scan().to_arrow()["id"].to_pylist()[0]
    shop.table.delete(f"id = {first}")  # its file is written anew, which is no rewrite
    Compactor(shop.lake.catalog, engine="inline", options=OPTIONS | {"rewrite-all": True}).compact_table("db.t")
    assert shop.apply(plan).kind is Kind.CONFLICT


def test_a_rewrite_while_the_plan_is_applied_is_no_failure(shop: Shop) -> None:
    plan = shop.plan()
    compacted = []

    def meanwhile(event: Event) -> None:
        if event.kind == "committing" and not compacted:
            compacted.append(Compactor(shop.lake.settings, engine="inline", options=OPTIONS).compact_table("db.t"))

    outcome = Compactor(shop.lake.settings, engine="inline", on_event=meanwhile).apply(plan)
    assert (outcome.kind, compacted[0].kind) == (Kind.HEALTHY, Kind.COMPACTED), outcome.sentence
    assert compacted[0].run_id in outcome.sentence


def test_a_table_that_became_unsupported_is_refused(shop: Shop) -> None:
    plan = shop.plan()
    with shop.table.transaction() as transaction:
        transaction.set_properties({"encryption.key-id": "k1"})
    outcome = shop.apply(plan)
    assert outcome.kind is Kind.UNSUPPORTED
    assert "encryption.key-id" in outcome.sentence
    assert set(ends(outcome)) == {GroupEnd.NOT_REACHED}


def test_a_branch_that_is_gone_is_told(shop: Shop) -> None:
    head = shop.table.current_snapshot()
    assert head is not None
    shop.table.manage_snapshots().create_branch(head.snapshot_id, "audit").commit()
    plan = Compactor(shop.lake.catalog, engine="inline", options=OPTIONS, branch="audit").plan_table("db.t")
    outcome = shop.apply(plan)  # the plan says which branch
    assert (outcome.kind, shop.table.current_snapshot()) == (Kind.COMPACTED, head)
    shop.table.manage_snapshots().remove_branch("audit").commit()
    outcome = shop.apply(plan)
    assert (outcome.kind, outcome.sentence) == (
        Kind.CONFLICT,
        "The branch audit of db.t is gone since the plan was made.",
    )


def test_an_empty_plan_is_nothing_to_do(shop: Shop) -> None:
    shop.compactor.compact_table("db.t")
    plan = Compactor(shop.lake.catalog, engine="inline").plan_table("db.t")
    assert plan.empty
    assert shop.apply(plan).kind is Kind.HEALTHY


def test_apply_does_only_what_was_planned(shop: Shop) -> None:
    """A conflict after it began is told, and not planned anew: nobody has seen that plan."""
    plan, acted = shop.plan(), []

    def others(event: Any) -> None:
        if event.kind == "committing" and not acted:
            acted.append(event)
            shop.table.delete("id < 5")

    outcome = Compactor(shop.lake.catalog, engine="inline", on_event=others).apply(plan)
    assert (outcome.kind, outcome.groups, outcome.groups_conflicted) == (Kind.COMPACTED, 3, 1)


def test_what_was_dropped_is_in_the_history(shop: Shop, tmp_path: Path) -> None:
    plan = shop.plan()
    shop.table.delete("id < 5")
    outcome = Compactor(shop.lake.catalog, engine="inline", state=tmp_path / "runs.db").apply(plan)
    (record,) = wiring.run_store(tmp_path / "runs.db").history("db.t")
    assert record.outcome == outcome
    assert GroupEnd.DROPPED in ends(record.outcome)
