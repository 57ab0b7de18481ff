"""`undo` after each kind of later commit: the rows stay the same and the replaced files are back, or it is refused with
the reason and nothing has changed. Rows are read by a plain reader of ours, which shares no code with the product."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from pyiceberg.table.update import RemoveSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType
from tests.factories import manifests, racing, reader, rewrites
from tests.factories.cities import rows
from tests.factories.city_runs import again, city_table, compact, compactor, delete_id, expire, files_of, local
from tests.factories.lake import close, file_lake

from iceberg_compaction import Compactor, Kind
from iceberg_compaction.model.undo_plan import UndoWay

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction import Outcome


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    made = file_lake(tmp_path)
    yield made
    close(made)


def rows_of(table: Table, branch: str = "main") -> Counter[Any]:
    table = again(table)
    return reader.Reader().rows(table, table.metadata.snapshot_by_name(branch))


def data_of(table: Table, branch: str = "main") -> set[str]:
    return {file.file_path for file in rewrites.live_data_files(again(table), branch)}


def live_deletes(table: Table) -> set[tuple[str, int]]:
    table = again(table)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    live = reader.Reader().live(table, snapshot)
    return {(file["file_path"], file["sequence_number"]) for file in live if file["content"]}


def undo(lake: Lake, run_id: str, **more: Any) -> Outcome:
    return compactor(lake).undo(run_id, "db.t", **more)


# ---- commits of others


def append(table: Table) -> None:
    table.append(rows(100))


def delete_other_partition(table: Table) -> None:
    table.append(rows(100, ("Bonn",)))
    delete_id(again(table), 100, "Bonn")


def delete_own_new_rows(table: Table) -> None:
    """A streaming writer: appends to our partition and deletes from what it has just written."""
    before = data_of(table)
    table.append(rows(100))
    new = next(path for path in files_of(again(table), "Oslo") if path not in before)
    manifests.add_position_delete(again(table), {new: [0]}, file_scoped=False)


def overwrite_other_partition(table: Table) -> None:
    table.append(rows(100, ("Bonn",)))
    again(table).delete(EqualTo("city", "Bonn"))


def add_column(table: Table) -> None:
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
    again(table).append(pa.table({"id": [100], "city": ["Oslo"], "size": pa.array([3], pa.int32())}))


def change_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_field("id", IdentityTransform(), "id_part")
    again(table).append(rows(100))


def rewrite_manifests(table: Table) -> None:
    for first in (100, 106):
        again(table).append(rows(first))
    outcome = Compactor(table.catalog, engine="inline").rewrite_manifests("db.t", target_size="1MiB")
    assert outcome.kind is Kind.COMPACTED, outcome.sentence


def compact_new_files(table: Table) -> None:
    """Another run of ours, on files that came later."""
    for first in (100, 106):
        again(table).append(rows(first, ("Bonn",)))
    options = {"min-input-files": 2, "where": "city = 'Bonn'"}
    outcome = Compactor(table.catalog, engine="inline", options=options).compact_table("db.t")
    assert outcome.kind is Kind.COMPACTED, outcome.sentence


UNTOUCHED = [
    append,
    delete_other_partition,
    delete_own_new_rows,
    overwrite_other_partition,
    add_column,
    change_spec,
    rewrite_manifests,
    compact_new_files,
]


def delete_rows_by_position(table: Table) -> None:
    manifests.add_position_delete(table, {files_of(table, "Oslo")[0]: [0]})


def delete_rows_by_position_of_partition(table: Table) -> None:
    manifests.add_position_delete(table, {files_of(table, "Oslo")[0]: [0]}, file_scoped=False)


def delete_rows_by_equality(table: Table) -> None:
    delete_id(table, 3, "Oslo")


def delete_rows_that_are_not_there(table: Table) -> None:
    """Nobody can tell from metadata that it matches nothing."""
    delete_id(table, 999, "Oslo")


def overwrite(table: Table) -> None:
    table.overwrite(rows(0, ("Oslo",)), EqualTo("city", "Oslo"))


def delete_partition(table: Table) -> None:
    table.delete(EqualTo("city", "Oslo"))


def update_row(table: Table) -> None:
    """Copy on write: the file is written anew with another row in it."""
    table.overwrite(pa.table({"id": [777], "city": ["Oslo"]}), EqualTo("id", 3))


def compact_again(table: Table) -> None:
    table.append(rows(100))
    outcome = Compactor(table.catalog, engine="inline", options={"rewrite-all": True}).compact_table("db.t")
    assert outcome.kind is Kind.COMPACTED, outcome.sentence


def position_delete_on_a_replaced_file(table: Table) -> None:
    """A writer that does not look deletes from a file that is not live any more."""
    parent = table.metadata.snapshot_by_id(table.current_snapshot().parent_snapshot_id)  # type: ignore[union-attr]
    (gone, *_) = [file for file in reader.Reader().live(table, parent) if file["partition"] == ("Oslo",)] or [None]
    old = gone["file_path"] if gone else _replaced(table)
    like = files_of(table, "Oslo")[0]
    made = manifests.data_file_of(table, like)
    assert made.file_path == like
    manifests.add_position_delete(table, {like: [0]}) if old is None else _delete_from(table, old, like)


def _replaced(table: Table) -> str | None:
    return None


def _delete_from(table: Table, old: str, like: str) -> None:
    manifests.add_position_delete(table, {old: [0], like: []}, file_scoped=False)


TOUCHED = [
    (delete_rows_by_position, "may have been deleted since, by the position deletes"),
    (delete_rows_by_position_of_partition, "may have been deleted since, by the position deletes"),
    (delete_rows_by_equality, "may have been deleted since, by the equality deletes"),
    (delete_rows_that_are_not_there, "may have been deleted since, by the equality deletes"),
    (overwrite, "deleted or rewritten since"),
    (delete_partition, "deleted or rewritten since"),
    (update_row, "deleted or rewritten since"),
    (compact_again, "deleted or rewritten since"),
]


# ---- nothing followed: rollback


@pytest.mark.parametrize("version", ["1", "2"])
def test_a_run_that_nothing_followed_is_rolled_back(lake: Lake, version: str) -> None:
    table = city_table(lake, **{"format-version": version})
    before, content, head = data_of(table), rows_of(table), again(table).current_snapshot()
    run_id = compact(lake)
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.way, outcome.undone_run_id) == (Kind.UNDONE, "rollback", run_id), outcome.sentence
    assert (data_of(table), rows_of(table)) == (before, content)
    assert again(table).current_snapshot() == head
    assert outcome.snapshot_ids == ()


@pytest.mark.parametrize("after", ["tag", "branch", "schema"])
def test_references_and_schemas_that_came_since_are_no_commits(lake: Lake, after: str) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    done = again(table).current_snapshot()
    assert done is not None
    if after == "schema":
        with again(table).update_schema() as update:
            update.add_column("size", IntegerType())
    else:
        create = getattr(again(table).manage_snapshots(), f"create_{after}")
        create(done.snapshot_id, "kept").commit()
    content = rows_of(table)
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.way) == (Kind.UNDONE, "rollback"), outcome.sentence
    assert rows_of(table) == content
    if after != "schema":  # it still points to the run's snapshot, whose files are there
        assert again(table).refs()["kept"].snapshot_id == done.snapshot_id
        assert rows_of(table, "kept") == content


def test_all_commits_of_a_run_are_undone_at_once(lake: Lake) -> None:
    table = city_table(lake)
    before, content = data_of(table), rows_of(table)
    run_id = compact(lake, **{"partial-progress.enabled": True, "partial-progress.max-commits": 2})
    assert len(compactor(lake).plan_undo(run_id, "db.t").snapshot_ids) == 2
    assert undo(lake, run_id).way == "rollback"
    assert (data_of(table), rows_of(table)) == (before, content)


def test_a_run_with_commits_of_others_in_between_is_undone_as_a_whole(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = city_table(lake)
    before = data_of(table)
    run_id = _compact_with_an_append_in_between(lake, table, monkeypatch)
    content, between = rows_of(table), data_of(table)
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.way) == (Kind.UNDONE, "replace"), outcome.sentence
    assert rows_of(table) == content
    assert before <= data_of(table)
    assert len(data_of(table) - before) == len(between) - 2  # the files of the append


def _compact_with_an_append_in_between(lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch) -> str:
    """Two commits of one run, and an append between them."""
    from iceberg_compaction.operations.rewrite_files import commit_batch

    real, calls = commit_batch.BatchCommits.commit, []

    def commit(self: Any, *arguments: Any) -> None:
        real(self, *arguments)
        if not calls:
            again(table).append(rows(100))
        calls.append(1)

    with monkeypatch.context() as patch:
        patch.setattr(commit_batch.BatchCommits, "commit", commit)
        run_id = compact(lake, **{"partial-progress.enabled": True, "partial-progress.max-commits": 2})
    assert len(calls) == 2
    return run_id


def test_a_rewrite_of_manifests_is_rolled_back_and_later_refused(lake: Lake) -> None:
    table = city_table(lake)
    outcome = compactor(lake).rewrite_manifests("db.t", target_size="1MiB")
    assert undo(lake, outcome.run_id).kind is Kind.UNDONE
    outcome = compactor(lake).rewrite_manifests("db.t", target_size="1MiB")
    append(again(table))
    refused = undo(lake, outcome.run_id)
    assert (refused.kind, "changed metadata only" in refused.sentence) == (Kind.CONFLICT, True)


# ---- others committed: replace, or refuse


@pytest.mark.parametrize("act", UNTOUCHED, ids=lambda act: act.__name__)
@pytest.mark.parametrize("with_deletes", [False, True], ids=["plain", "with deletes"])
def test_r64_a_commit_that_touched_none_of_the_files_stays(
    lake: Lake, act: Callable[[Table], None], with_deletes: bool
) -> None:
    table = city_table(lake)
    if with_deletes:  # which leave the table with the run, and have to come back
        table = manifests.add_position_delete(table, {files_of(table, "Oslo")[0]: [0]})
        table = manifests.add_position_delete(table, {files_of(table, "Rome")[0]: [1]}, file_scoped=False)
        delete_id(table, 3, "Oslo")
    before, deletes = data_of(table), live_deletes(table)
    run_id = compact(lake, **{"delete-file-threshold": 1})
    assert not live_deletes(table)
    act(again(table))
    content, deletes_of_others = rows_of(table), live_deletes(table)
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.way) == (Kind.UNDONE, "replace"), outcome.sentence
    assert rows_of(table) == content
    assert before <= data_of(table)
    assert live_deletes(table) == deletes | deletes_of_others  # with the sequence numbers that they had
    if act in (append, delete_own_new_rows):  # the table can be compacted, and the run undone, as ever
        run_id = compact(lake, **{"rewrite-all": True})
        assert rows_of(table) == content
        assert undo(lake, run_id).way == "rollback"
        assert rows_of(table) == content


@pytest.mark.parametrize(("act", "reason"), TOUCHED, ids=[act.__name__ for act, _ in TOUCHED])
def test_r64_a_commit_that_touched_the_files_refuses_the_undo(
    lake: Lake, act: Callable[[Table], None], reason: str
) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    act(again(table))
    content, location = rows_of(table), again(table).metadata_location
    plan = compactor(lake).plan_undo(run_id, "db.t")
    assert (plan.way, reason in plan.sentence) == (UndoWay.REFUSED, True), plan.sentence
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.sentence) == (Kind.CONFLICT, plan.sentence)
    assert (again(table).metadata_location, rows_of(table)) == (location, content)


def test_r64_a_delete_file_that_would_reach_files_of_others_refuses_the_undo(lake: Lake) -> None:
    table = delete_id(city_table(lake), 3, "Oslo")
    run_id = compact(lake, **{"delete-file-threshold": 1})
    table = again(table)
    table.append(rows(100))
    # A rewrite of others that began long ago: its files are older than the delete that is gone.
    new = manifests.data_file_of(again(table), files_of(again(table), "Oslo")[-1])
    old = manifests.fake_data_file(table, "old.parquet", partition=new.partition)
    manifests.add_files(again(table), [old], sequence_number=1)
    outcome = undo(lake, run_id)
    assert (outcome.kind, "delete rows of files that came later" in outcome.sentence) == (Kind.CONFLICT, True)


@pytest.mark.parametrize("followed", [False, True], ids=["rollback", "replace"])
def test_r64_equality_deletes_on_a_column_that_was_dropped_do_not_come_back(lake: Lake, followed: bool) -> None:
    """Iceberg Java cannot read a table with such deletes."""
    table = city_table(lake)
    with table.update_schema() as update:
        update.add_column("size", IntegerType())
    keys = pa.table({"size": pa.array([1], pa.int32())})
    manifests.add_equality_delete(again(table), keys, like=files_of(again(table), "Oslo")[0])
    run_id = compact(lake)
    assert not live_deletes(table)
    if followed:
        again(table).append(pa.table({"id": [100], "city": ["Rome"], "size": pa.array([1], pa.int32())}))
    with again(table).update_schema() as update:
        update.delete_column("size")
    assert "was dropped since" in compactor(lake).plan_undo(run_id, "db.t").sentence
    head = again(table).current_snapshot()
    outcome = undo(lake, run_id)
    assert (outcome.kind, again(table).current_snapshot()) == (Kind.CONFLICT, head), outcome.sentence


def test_a_table_that_was_upgraded_since_is_rolled_back_or_refused_beforehand(lake: Lake) -> None:
    table = city_table(lake, **{"format-version": "1"})
    run_id = compact(lake)
    with again(table).transaction() as transaction:
        transaction.upgrade_table_version(2)
    assert compactor(lake).plan_undo(run_id, "db.t").way is UndoWay.ROLLBACK
    append(again(table))
    plan, content = compactor(lake).plan_undo(run_id, "db.t"), rows_of(table)
    assert "had format version 1 then" in plan.sentence
    assert (undo(lake, run_id).kind, rows_of(table)) == (Kind.CONFLICT, content)


def test_the_snapshot_before_the_run_must_not_have_expired(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    done = again(table).current_snapshot()
    assert done is not None
    expire(table, done.parent_snapshot_id)
    for act in (lambda table: None, append):
        act(again(table))
        outcome = undo(lake, run_id)
        assert (outcome.kind, "has expired, and with it the files" in outcome.sentence) == (Kind.CONFLICT, True)
    expire(table, done.snapshot_id)
    assert "the run committed none, or they expired since" in undo(lake, run_id).sentence


def test_a_branch_that_was_rolled_back_has_nothing_to_undo(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    done = again(table).current_snapshot()
    assert done is not None
    assert done.parent_snapshot_id is not None
    again(table).manage_snapshots().rollback_to_snapshot(done.parent_snapshot_id).commit()
    outcome = undo(lake, run_id)
    assert (outcome.kind, "it was rolled back" in outcome.sentence) == (Kind.CONFLICT, True)


def test_a_table_that_was_dropped_and_made_anew_has_no_such_run(lake: Lake) -> None:
    city_table(lake)
    run_id = compact(lake)
    lake.catalog.drop_table("db.t")
    city_table(lake)
    outcome = undo(lake, run_id)
    assert (outcome.kind, "has no snapshot of it" in outcome.sentence) == (Kind.CONFLICT, True)


def test_a_replaced_table_does_not_descend_from_the_run(lake: Lake) -> None:
    """CREATE OR REPLACE keeps the snapshots, and begins the branch anew."""
    table = city_table(lake)
    run_id = compact(lake)
    table = again(table)
    table.catalog.commit_table(table, (), (RemoveSnapshotRefUpdate(ref_name="main"),))
    again(table).append(rows(200))
    outcome = undo(lake, run_id)
    assert (outcome.kind, "the table was replaced" in outcome.sentence) == (Kind.CONFLICT, True)


def test_format_version_3_is_refused(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    manifests.as_v3(again(table), "db.t3")
    outcome = compactor(lake).undo(run_id, "db.t3")
    assert (outcome.kind, "format version 3" in outcome.sentence) == (Kind.CONFLICT, True), outcome.sentence


# ---- undo of an undo, branches


def test_a_run_is_undone_once_and_an_undo_can_be_undone(lake: Lake) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    compacted = data_of(table)
    append(again(table))
    content = rows_of(table)
    first = undo(lake, run_id)
    second = undo(lake, run_id)
    assert (second.kind, f"undone already, by run {first.run_id}" in second.sentence) == (Kind.CONFLICT, True)
    assert undo(lake, first.run_id).kind is Kind.UNDONE
    assert (compacted <= data_of(table), rows_of(table)) == (True, content)
    assert undo(lake, run_id).way == "replace"
    assert rows_of(table) == content


def test_the_undo_of_a_rollback_is_refused(lake: Lake) -> None:
    city_table(lake)
    rolled_back = undo(lake, compact(lake))
    outcome = undo(lake, rolled_back.run_id)
    assert (outcome.kind, "has no snapshot of it" in outcome.sentence) == (Kind.CONFLICT, True)


def test_only_the_branch_of_the_run_moves(lake: Lake) -> None:
    table = city_table(lake)
    head = again(table).current_snapshot()
    assert head is not None
    again(table).manage_snapshots().create_branch(head.snapshot_id, "dev").commit()
    content = rows_of(table)
    options = {"min-input-files": 2}
    run_id = Compactor(lake.catalog, engine="inline", options=options, branch="dev").compact_table("db.t").run_id
    append(again(table))  # to main
    outcome = undo(lake, run_id)  # the table knows that the run was on dev
    assert (outcome.kind, outcome.way) == (Kind.UNDONE, "rollback"), outcome.sentence
    assert again(table).refs()["dev"].snapshot_id == head.snapshot_id
    assert rows_of(table, "dev") == content
    assert rows_of(table) != content


def test_a_branch_that_is_gone_is_named(lake: Lake) -> None:
    table = city_table(lake)
    head = again(table).current_snapshot()
    assert head is not None
    again(table).manage_snapshots().create_branch(head.snapshot_id, "dev").commit()
    options = {"min-input-files": 2}
    run_id = Compactor(lake.catalog, engine="inline", options=options, branch="dev").compact_table("db.t").run_id
    again(table).manage_snapshots().remove_branch("dev").commit()
    outcome = undo(lake, run_id)
    assert (outcome.kind, "no branch dev" in outcome.sentence) == (Kind.CONFLICT, True), outcome.sentence


# ---- damage


def test_damaged_files_of_the_run_are_given_up_only_on_request(lake: Lake) -> None:
    table = city_table(lake)
    content, run_id = rows_of(table), compact(lake)
    local(files_of(again(table), "Oslo")[0]).unlink()
    location = again(table).metadata_location
    refused = undo(lake, run_id)
    assert (refused.kind, "--despite-differences" in refused.sentence) == (Kind.FAILED, True)
    assert again(table).metadata_location == location
    assert undo(lake, run_id, despite_differences=True).kind is Kind.UNDONE
    assert rows_of(table) == content


def test_replaced_files_that_are_gone_cannot_come_back(lake: Lake) -> None:
    table = city_table(lake)
    gone = files_of(table, "Oslo")[0]
    run_id = compact(lake)
    local(gone).unlink()
    location = again(table).metadata_location
    for more in ({}, {"despite_differences": True}):
        outcome = undo(lake, run_id, **more)
        assert (outcome.kind, gone in outcome.sentence) == (Kind.FAILED, True)
    assert again(table).metadata_location == location


# ---- others at the same moment


def test_an_append_in_the_last_moment_stays(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = city_table(lake)
    before, run_id = data_of(table), compact(lake)
    racing.before_publishing(monkeypatch, lambda: append(again(table)))
    outcome = undo(lake, run_id)
    assert (outcome.kind, outcome.way) == (Kind.UNDONE, "replace"), outcome.sentence
    assert before <= data_of(table)
    assert sum(rows_of(table).values()) == 24


@pytest.mark.parametrize("act", [delete_rows_by_equality, overwrite], ids=lambda act: act.__name__)
def test_a_delete_in_the_last_moment_refuses_the_undo(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, act: Callable[[Table], None]
) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    racing.before_publishing(monkeypatch, lambda: act(again(table)))
    outcome = undo(lake, run_id)
    head = again(table).current_snapshot()
    assert (outcome.kind, "cannot be undone any more" in outcome.sentence) == (Kind.CONFLICT, True)
    assert head is not None
    assert not {path for path in _metadata_files(table) if outcome.run_id in path}


def _metadata_files(table: Table) -> list[str]:
    return [path.name for path in local(f"{table.location()}/metadata").iterdir()]


@pytest.mark.parametrize("after", [lambda table: None, append], ids=["rollback", "replace"])
def test_r65_the_snapshot_that_keeps_the_files_must_be_there_when_the_commit_lands(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, after: Callable[[Table], None]
) -> None:
    table = city_table(lake)
    run_id = compact(lake)
    parent = again(table).current_snapshot().parent_snapshot_id  # type: ignore[union-attr]
    after(again(table))
    head = again(table).metadata.current_snapshot_id
    racing.before_publishing(monkeypatch, lambda: expire(table, parent))
    outcome = undo(lake, run_id)
    assert (outcome.kind, "has expired, and with it the files" in outcome.sentence) == (Kind.CONFLICT, True), (
        outcome.sentence
    )
    assert again(table).metadata.current_snapshot_id == head
    assert not {path for path in _metadata_files(table) if outcome.run_id in path}


def test_the_undo_is_a_run_in_the_history(lake: Lake, tmp_path: Path) -> None:
    city_table(lake)
    remembering = Compactor(lake.catalog, engine="inline", options={"min-input-files": 2}, state=tmp_path / "state.db")
    run = remembering.compact_table("db.t")
    undone = remembering.undo(run.run_id)  # the store knows its table
    store = remembering._store
    assert store is not None
    assert [record.run_id for record in store.history()] == [undone.run_id, run.run_id]
    assert store.history()[0].outcome == undone
    assert store.unfinished() == []
