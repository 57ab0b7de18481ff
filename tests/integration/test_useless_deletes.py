"""Delete files that apply to nothing leave, wherever in the table they are, and never one that may still apply."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from tests.factories import racing, storage, work
from tests.factories.delete_tables import DeleteTable, delete_table

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.operations.rewrite_files import plan_file

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.factories.lake import Lake

    from iceberg_compaction import Outcome

STRATEGIES = ["small-files", "full", "delete-files"]


def compactor(t: DeleteTable, strategy: str = "small-files", **options: Any) -> Compactor:
    options = {"delete-file-threshold": 9, "delete-ratio-threshold": 1} | {
        name.replace("_", "-"): value for name, value in options.items()
    }
    return Compactor(t.table.catalog, strategy, engine="inline", options=options)


def compact(t: DeleteTable, strategy: str = "small-files") -> Outcome:
    """Without an engine: nothing is rewritten."""

    def no_engine() -> Any:
        raise AssertionError("an engine was started")

    run = wiring.new_run()
    return work.compact_table(t.table.catalog, name(t), compactor(t, strategy).policy, no_engine, run)


def name(t: DeleteTable) -> str:
    return ".".join(t.table.name())


@pytest.fixture
def t(local_lake: Lake) -> DeleteTable:
    return delete_table(local_lake)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_r17_a_table_whose_only_trouble_they_are_gets_a_commit(t: DeleteTable, strategy: str) -> None:
    rome, _ = t.data("Rome", "Bonn")
    applies = t.position("Rome", rome, scoped=True)
    t.equality("Oslo")  # no data was ever there
    t.position("Rome", "file:///gone.parquet", scoped=True)
    t.position("Milan", "file:///gone.parquet")
    t.data("Paris")
    paris = t.equality("Paris")
    t.data("Kiel")
    before = t.live()

    plan = compactor(t, strategy).plan_table(name(t))
    assert (plan.sentence, plan.empty) == ("3 delete files apply to nothing and are dropped.", False)
    assert plan_file.load(plan_file.dump(plan)) == plan
    outcome = compact(t, strategy)

    assert (outcome.kind, outcome.ok, outcome.delete_files_removed) == (Kind.COMPACTED, True, 3), outcome.sentence
    head = t.refresh().table.current_snapshot()
    assert head is not None
    assert outcome.sentence == (f"3 delete files that applied to nothing were removed in snapshot {head.snapshot_id}.")
    assert t.deletes() == {applies, paris}
    assert [row for row in before if not row["content"]] == [row for row in t.live() if not row["content"]]
    summary = t.summary()
    assert (summary["removed-delete-files"], summary["total-delete-files"]) == ("3", "2")
    assert (summary["total-records"], summary["total-data-files"]) == ("40", "4")
    assert compact(t, strategy).kind is Kind.HEALTHY


def test_they_leave_with_a_rewrite_of_other_partitions(t: DeleteTable) -> None:
    for number in range(2):
        t.table.append(pa.table({"id": [number], "city": ["Rome"]}))
    rows = storage.row_multiset(t.table.scan().to_arrow())
    t.equality("Oslo")
    work_on = compactor(t, min_input_files=2)

    plan = work_on.plan_table(name(t))
    assert plan.sentence == "2 files in 1 group become about 1; 1 delete file applies to nothing and is dropped."
    outcome = work_on.apply(plan)

    assert (outcome.kind, outcome.files_added, outcome.delete_files_removed) == (Kind.COMPACTED, 1, 1)
    assert storage.row_multiset(t.refresh().table.scan().to_arrow()) == rows
    assert work_on.plan_table(name(t)).empty


def test_r18_a_global_delete_stays_although_its_own_spec_has_no_data(local_lake: Lake) -> None:
    """Whoever compares partitions only would drop it, and revive rows."""
    t = delete_table(local_lake, spec=UNPARTITIONED_PARTITION_SPEC)
    with t.table.update_spec() as update:
        update.add_identity("city")
    t.refresh().data("Rome")
    t.equality(None, spec_id=0)
    assert compactor(t).plan_table(name(t)).empty


def test_16668_what_may_be_meant_for_all_is_no_reason_to_plan_again(t: DeleteTable) -> None:
    t.data("Rome")
    t.equality(None)
    assert compactor(t).plan_table(name(t)).empty
    assert compact(t).kind is Kind.HEALTHY


def appended(t: DeleteTable) -> None:
    """Data that is newer than the deletes."""
    t.data("Oslo")


def rewritten(t: DeleteTable) -> None:
    """Data that is older, as the output of a compaction that was planned before."""
    t.data("Oslo", sequence_number=1)


@pytest.mark.parametrize(("act", "stays"), [(appended, False), (rewritten, True)])
def test_r17_what_arrives_meanwhile_is_asked_anew(
    t: DeleteTable, act: Callable[[DeleteTable], None], stays: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    t.data("Rome")
    oslo, paris = t.equality("Oslo"), t.equality("Paris")
    theirs = DeleteTable(t.table)
    racing.before_publishing(monkeypatch, lambda: act(theirs))
    outcome = compact(t)
    assert (outcome.kind, outcome.attempts, outcome.delete_files_removed) == (Kind.COMPACTED, 2, 1 if stays else 2)
    assert t.deletes() == ({oslo} if stays else set())
    assert paris not in t.deletes()


def test_whoever_comes_second_finds_nothing_left_to_do(t: DeleteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    t.data("Rome")
    t.equality("Oslo")
    metadata = {path for path in storage.files_under(t.table) if path.endswith(".avro")}
    theirs = DeleteTable(t.table)
    racing.before_publishing(monkeypatch, lambda: compact(theirs))
    outcome = compact(t)
    assert (outcome.kind, outcome.sentence) == (
        Kind.HEALTHY,
        "Nothing is left to do: the delete files that applied to nothing are gone already.",
    )
    left = {path for path in storage.files_under(t.table) if path.endswith(".avro")} - metadata
    assert sum("snap-" in path for path in left) == 1  # theirs; what we wrote is gone


def test_a_plan_of_a_file_drops_them_later(t: DeleteTable) -> None:
    t.data("Rome")
    t.equality("Oslo")
    plan = compactor(t).plan_table(name(t))
    needed = t.data("Oslo", sequence_number=1)  # the delete is of use again
    outcome = compactor(t).apply(plan)
    assert (outcome.kind, len(t.deletes()), len(needed)) == (Kind.HEALTHY, 1, 1)
    t.equality("Paris")
    assert compactor(t).apply(plan).delete_files_removed == 1
    assert len(t.deletes()) == 1


def test_doctor_counts_no_row_as_deleted_by_deletes_that_apply_to_nothing(t: DeleteTable) -> None:
    rome, _ = t.data("Rome", "Rome")
    t.position("Rome", rome, scoped=True)
    for number in range(5):
        t.position("Milan", *(f"file:///gone-{number}-{row}.parquet" for row in range(2)))
    t.equality("Oslo")

    health = compactor(t).inspect_table(name(t))

    assert (health.deletes.position_files, health.deletes.dangling_files) == (6, 6)
    assert (health.deletes.position_rows, health.deletes.equality_rows) == (1, 0)
    assert health.deletes.deleted_row_ratio == 0.05
    assert not any("are deleted, but still stored" in told for told in health.advice)
    assert health.sick  # a run has something to do
    compact(t)
    health = compactor(t).inspect_table(name(t))
    assert (health.deletes.dangling_files, health.sick) == (0, False)
