"""Which equality deletes a compaction removes, which it must leave, and those that come meanwhile or later."""

from __future__ import annotations

from tests.factories import racing
from tests.interop.scenarios.scene import EQUALITY, Play, Scene, rows, scenario

from iceberg_compaction import Kind

_BY_P = {"partitioned_by": "p"}


@scenario("R18_a_global_delete_stays_while_any_partition_needs_it", left=(0, 1), settled=False,
          options={"rewrite-all": True, "where": "p = 'a'"})  # fmt: skip
def global_stays(scene: Scene) -> Play:
    """The hazard of removing dangling deletes by (spec, partition): no data lie in the delete's own spec."""
    scene.sql("alter table {t} add partition field p")
    scene.append([*rows(1, 2), *rows(1, 2, p="b")], rows(3))
    scene.delete([{"id": 1}], spec_id=0)
    yield
    assert sorted(scene.ids()) == [2, 2, 3]


@scenario("R17_a_delete_stays_while_an_older_file_is_left", **_BY_P, left=(0, 1), settled=False,
          options={"rewrite-all": True, "where": "id < 10"})  # fmt: skip
def older_left(scene: Scene) -> Play:
    scene.append(rows(1, 2, 15), rows(20, 21))
    scene.delete([{"id": 1}, {"id": 20}], partition="p=a")
    yield
    assert sorted(scene.ids()) == [2, 15, 21]


@scenario("R17_a_delete_goes_when_only_younger_files_are_left", **_BY_P, left=(0, 0), settled=False,
          options={"rewrite-all": True, "where": "id < 10"})  # fmt: skip
def younger_left(scene: Scene) -> Play:
    scene.append(rows(1, 2))
    scene.delete([{"id": 1}], partition="p=a")
    scene.append(rows(20, 21))
    yield
    assert sorted(scene.ids()) == [2, 20, 21]


@scenario("R17_deletes_are_judged_by_partition", **_BY_P, left=(0, 1), settled=False,
          options={"rewrite-all": True, "where": "p = 'a'"})  # fmt: skip
def by_partition(scene: Scene) -> Play:
    """Bug 9383: the minimum of the table would keep both, that of the partition only one."""
    scene.append(rows(1, 2), rows(1, 2, p="b"))
    scene.commit(scene.equality([{"id": 1}], partition="p=a"), scene.equality([{"id": 1}], partition="p=b"))
    yield
    assert [file.partition[0] for file in scene.files(EQUALITY)] == ["b"]


@scenario("bug_8933_a_delete_of_the_planned_snapshot_itself_goes")
def at_start(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3))
    scene.delete([{"id": 1}])
    yield
    assert sorted(scene.ids()) == [2, 3]


@scenario("R9_every_row_deleted_by_equality")
def all_deleted(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3))
    scene.delete([{"p": "a"}])
    outcome = yield
    assert (outcome.files_added, scene.files()) == (0, [])


@scenario("R24_later_deletes_find_the_rows_that_we_wrote", columns="id bigint, v string, d double, s struct<a:int>")
def later_deletes(scene: Scene) -> Play:
    """Java skips a delete where bounds or null counts rule it out, so wrong metrics of ours would revive rows."""
    texts = ["", "a" * 40, "\U0010ffff" * 20, "\ud7ff" * 20, None]
    scene.append([{"id": n, "v": text, "d": n / 2, "s": None} for n, text in enumerate(texts)])
    scene.append([{"id": 10, "v": "m", "d": float("nan"), "s": {"a": 4}}, {"id": 11, "v": "n", "d": -0.0, "s": {}}])
    yield
    scene.delete([{"v": text} for text in texts])
    scene.delete([{"id": 10}])
    assert sorted(scene.ids()) == [11]
    scene.commit(scene.equality([{"s": {"a": None}}], "s.a"))
    assert scene.ids() == []


@scenario("R2_R3_bug_10312_deletes_meanwhile_apply_to_what_we_wrote", settled=False, left=None)
def meanwhile(scene: Scene) -> Play:
    """A delete between plan and commit, and an append after it, so that an older minimum is forgotten."""
    scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    scene.delete([{"id": 1}, {"id": 4}])
    scene.append(rows(1))
    compactor = scene.compactor()
    outcome = racing.apply_as_planned(compactor, plan)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert sorted(scene.ids()) == [1, 2, 3]
    assert len(scene.files(EQUALITY)) == 1
    yield
    assert not scene.files(EQUALITY)


@scenario("R4_a_delete_meanwhile_stops_a_rewrite_into_another_spec", **_BY_P, settled=False)
def meanwhile_respec(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, 4))
    scene.sql("alter table {t} drop partition field p")
    plan = scene.plan()
    scene.delete([{"id": 1}], partition="p=a", spec_id=0)
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.CONFLICT
    assert sorted(scene.ids()) == [2, 3, 4]
    yield


@scenario("R6_a_position_delete_meanwhile_stops_the_rewrite", settled=False)
def meanwhile_position(scene: Scene) -> Play:
    path, _ = scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    scene.commit(scene.positions([(path, 0)]))
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.CONFLICT
    assert sorted(scene.ids()) == [2, 3, 4]
    yield


@scenario("R5_an_input_removed_meanwhile_stops_the_rewrite", settled=False)
def meanwhile_removed(scene: Scene) -> Play:
    path, _ = scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    scene.remove(path)
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.CONFLICT
    assert sorted(scene.ids()) == [3, 4]
    scene.append(rows(5))
    yield
    assert sorted(scene.ids()) == [3, 4, 5]


@scenario("R7_a_planned_snapshot_that_is_no_ancestor_any_more_stops_the_rewrite", settled=False)
def meanwhile_rolled_back(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    before = scene.loaded().snapshots()[0].snapshot_id
    scene.sql(f"call lake.system.rollback_to_snapshot('{{name}}', {before})")
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.CONFLICT
    assert sorted(scene.ids()) == [1, 2]
    scene.append(rows(5))
    yield
    assert sorted(scene.ids()) == [1, 2, 5]


@scenario("R7_a_planned_snapshot_that_is_expired_stops_the_rewrite", settled=False)
def meanwhile_expired(scene: Scene) -> Play:
    scene.append(rows(1, 2), rows(3, 4))
    plan = scene.plan()
    scene.append(rows(5))
    scene.table.table.expireSnapshots().expireOlderThan(2**42).retainLast(1).commit()
    assert racing.apply_as_planned(scene.compactor(), plan).kind is Kind.CONFLICT
    assert sorted(scene.ids()) == [1, 2, 3, 4, 5]
    yield


@scenario("R15_batches_share_the_planned_sequence_number", **_BY_P, settled=False, left=None)
def batches(scene: Scene) -> Play:
    """A commit for each partition; a delete that comes between them reaches the rows of all."""
    for p in ("a", "b", "c"):
        scene.append(rows(1, 2, p=p), rows(3, p=p))
    planned = scene.loaded().current_snapshot()
    assert planned is not None
    outcome = scene.compact(**{"rewrite-all": True, "partial-progress": True, "partial-progress.max-commits": 3})
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    numbers = [(entry.sequence_number, entry.file_sequence_number) for entry in scene.entries() if entry.status != 2]
    first = planned.sequence_number or 0
    assert sorted(numbers) == [(first, first + batch) for batch in (1, 2, 3)]
    scene.delete([{"id": 1}], partition="p=b")
    assert sorted(scene.ids()) == [1, 1, 2, 2, 2, 3, 3, 3]
    yield


@scenario("R22_delete_files_strategy_counts_equality_deletes", strategy="delete-files", settled=False,
          options={"delete-file-threshold": 2}, left=(0, 1))  # fmt: skip
def strategy_of_deletes(scene: Scene) -> Play:
    old, *_ = scene.append(rows(*range(10)))
    scene.delete([{"id": 1}])
    (young,) = scene.append(rows(*range(20, 30)))
    scene.delete([{"id": 2}])
    yield
    now = {file.file_path for file in scene.files()}
    assert old not in now
    assert young in now


SCENARIOS = [
    global_stays, older_left, younger_left, by_partition, at_start, all_deleted, later_deletes, meanwhile,
    meanwhile_respec, meanwhile_position, meanwhile_removed, meanwhile_rolled_back, meanwhile_expired, batches,
    strategy_of_deletes,
]  # fmt: skip
