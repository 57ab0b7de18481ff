"""Lost races, refusals and unknown states: no row is lost or revived, and a commit that did not land leaves no file.
What others may do between plan and commit is in test_commit_matrix, line by line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.table.update import RemoveSnapshotsUpdate
from pyiceberg.types import StringType
from tests.factories import manifests, rewrites, runs
from tests.factories.cities import BY_CITY, SCHEMA, rows
from tests.factories.lake import make_table

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.commit import new_snapshot
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyiceberg.table.update import AssertRefSnapshotId
    from tests.factories.lake import Lake


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)
    for number in range(4):
        made.append(rows(number * 6))
    return made


def other(table: Table) -> Table:
    """The table as another writer has it."""
    return table.catalog.load_table(table.name())


def ids(table: Table) -> list[int]:
    return sorted(other(table).scan().to_arrow()["id"].to_pylist())


def files_on_disk(table: Table) -> set[str]:
    root = Path(table.location().removeprefix("file://"))
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.endswith(".metadata.json")}


def avro_files(table: Table) -> set[str]:
    return {f"file://{path}" for path in files_on_disk(table) if path.endswith(".avro")}


def avro_files_in_use(table: Table) -> set[str]:
    snapshots = other(table).snapshots()
    manifest_paths = {row.manifest_path for snapshot in snapshots for row in snapshot.manifests(table.io)}
    return manifest_paths | {snapshot.manifest_list for snapshot in snapshots}


def assert_refused(table: Table, request: replace_files.ReplaceRequest, match: str) -> None:
    """Refused as a conflict at the first attempt, and not a file more or less than before."""
    before = files_on_disk(table)
    with pytest.raises(errors.ConflictError, match=match):
        replace_files.replace(table, request, runs.make_run(pause=_never))
    assert files_on_disk(table) == before


def _never(seconds: float) -> None:
    raise AssertionError("a final conflict must not be retried")


def publishing(monkeypatch: pytest.MonkeyPatch, before: Callable[[], None], times: int = 1) -> None:
    """Let somebody else commit after our validation and right before our publication, so many times."""
    real, left = publish.publish, [times]

    def racing(*arguments: Any) -> None:
        if left[0]:
            left[0] -= 1
            before()
        real(*arguments)

    monkeypatch.setattr(publish, "publish", racing)


# ---- survived


def test_a_race_is_survived_on_every_kind_of_lake(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = make_table(lake.catalog, lake.name("race"), SCHEMA, spec=BY_CITY)
    for number in range(2):
        table.append(rows(number * 6))
    request = rewrites.rewrite_request(table)
    publishing(monkeypatch, lambda: other(table).append(rows(100)))
    result = replace_files.replace(table, request, runs.make_run())
    assert result.attempts == 2
    assert ids(table) == [*range(12), *range(100, 106)]
    listed = other(table).current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    assert sum(row.added_snapshot_id == result.snapshot_id for row in listed) == 3


def test_an_append_between_plan_and_commit_is_kept(table: Table) -> None:
    request = rewrites.rewrite_request(table)
    other(table).append(rows(100))
    result = replace_files.replace(table, request, runs.make_run())
    assert result.attempts == 1
    assert ids(table) == [*range(24), *range(100, 106)]
    added = [
        e
        for e in other(table).inspect.entries().to_pylist()
        if e["status"] == 1 and e["snapshot_id"] == result.snapshot_id
    ]
    assert {(e["sequence_number"], e["file_sequence_number"]) for e in added} == {(4, 6)}
    assert result.sequence_number == 6


def test_r14_appends_during_the_commit_are_survived_by_trying_again(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = rewrites.rewrite_request(table)
    first = iter((100, 200))
    publishing(monkeypatch, lambda: other(table).append(rows(next(first))), times=2)
    waits: list[float] = []
    result = replace_files.replace(table, request, runs.make_run(pause=waits.append, chance=lambda: 0.0))
    assert (result.attempts, waits) == (3, [0.1, 0.2])
    assert ids(table) == [*range(24), *range(100, 106), *range(200, 206)]
    snapshot = other(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.snapshot_id == result.snapshot_id
    assert snapshot.summary is not None
    assert snapshot.summary["total-records"] == "36"
    assert avro_files(table) == avro_files_in_use(table)  # the manifest lists of lost attempts are gone


def test_whoever_always_wins_makes_the_commit_fail_cleanly(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"commit.retry.num-retries": "2"})
    request = rewrites.rewrite_request(table)
    first = iter(range(100, 1000, 100))
    publishing(monkeypatch, lambda: other(table).append(rows(next(first))), times=99)
    waits: list[float] = []
    with pytest.raises(errors.ConflictError):
        replace_files.replace(table, request, runs.make_run(pause=waits.append))
    assert len(waits) == 2
    assert ids(table) == [*range(24), *range(100, 106), *range(200, 206), *range(300, 306)]
    assert avro_files(table) == avro_files_in_use(table)


def test_r2_a_concurrent_equality_delete_survives_and_still_applies(table: Table) -> None:
    """R2: the new file keeps the planned sequence number, so the newer delete applies to it."""
    file = next(f for f in rewrites.live_data_files(table) if f.partition[0] == "Rome")
    request = rewrites.rewrite_request(table)
    manifests.add_equality_delete(other(table), pa.table({"id": pa.array([0, 2], pa.int64())}), like=file.file_path)
    other(table).append(rows(100))
    replace_files.replace(table, request, runs.make_run())
    snapshot = other(table).current_snapshot()
    assert snapshot is not None
    entries = [entry for row in snapshot.manifests(table.io) for entry in row.fetch_manifest_entry(table.io)]
    (delete,) = [entry for entry in entries if entry.data_file.content == 2]
    rewritten = [entry for entry in entries if entry.data_file.file_path in {f.file_path for f in request.added}]
    assert delete.sequence_number == 5
    assert [entry.sequence_number for entry in rewritten] == [4, 4]
    told = snapshot.summary
    assert told is not None
    assert (told["total-delete-files"], told["total-equality-deletes"]) == ("1", "2")


def test_schema_and_properties_may_change_meanwhile(table: Table) -> None:
    request = rewrites.rewrite_request(table)
    with other(table).update_schema() as update:
        update.add_column("note", StringType())
    with other(table).update_spec() as spec:
        spec.add_identity("id")
    replace_files.replace(table, request, runs.make_run())
    assert ids(table) == list(range(24))
    snapshot = other(table).current_snapshot()
    assert snapshot is not None
    assert snapshot.schema_id == other(table).metadata.current_schema_id == 1


# ---- refused


def test_r5_the_later_of_two_compactions_loses(table: Table) -> None:
    mine, theirs = rewrites.rewrite_request(table), rewrites.rewrite_request(table)
    replace_files.replace(other(table), theirs, runs.make_run())
    assert_refused(table, mine, "and others")
    assert ids(table) == list(range(24))


@pytest.mark.parametrize("scoped", [True, False], ids=["by-path", "by-partition"])
def test_r6_a_new_position_delete_on_an_input_is_a_conflict_also_below_later_commits(
    table: Table, scoped: bool
) -> None:
    """R6."""
    file = rewrites.live_data_files(table)[0]
    request = rewrites.rewrite_request(table)
    manifests.add_position_delete(other(table), {file.file_path: [0]}, file_scoped=scoped)
    other(table).append(rows(100))
    assert_refused(table, request, "were deleted since the plan")


def test_r7_a_branch_that_is_gone_is_a_conflict(table: Table) -> None:
    other(table).manage_snapshots().create_branch(table.metadata.current_snapshot_id, "b").commit()  # type: ignore[arg-type]
    table.refresh()
    request = rewrites.rewrite_request(table, branch="b")
    other(table).manage_snapshots().remove_branch("b").commit()
    assert_refused(table, request, "branch b is gone")


def test_a_recreated_table_is_a_conflict_and_a_dropped_one_missing(table: Table) -> None:
    request = rewrites.rewrite_request(table)
    catalog, name = table.catalog, table.name()
    catalog.drop_table(name)
    with pytest.raises(errors.NoSuchTableError):
        replace_files.replace(table, request, runs.make_run())
    catalog.create_table(name, SCHEMA, location=table.location()).append(rows(0))
    assert_refused(table, request, "created anew")


# ---- unknown


def raising(
    monkeypatch: pytest.MonkeyPatch, error: BaseException, *, lands: bool, after: Callable[[], None] | None = None
) -> None:
    """A real commit whose answer gets lost, or one that never arrives."""
    real = publish.publish

    def lost(*arguments: Any) -> None:
        monkeypatch.setattr(publish, "publish", real)
        if lands:
            real(*arguments)
        if after:
            after()
        raise error

    monkeypatch.setattr(publish, "publish", lost)


@pytest.mark.parametrize("error", [errors.StateUnknownError("504"), KeyboardInterrupt()], ids=["timeout", "ctrl-c"])
def test_a_commit_that_landed_unheard_is_found(
    table: Table, monkeypatch: pytest.MonkeyPatch, error: BaseException
) -> None:
    request = rewrites.rewrite_request(table)
    raising(monkeypatch, error, lands=True)
    result = replace_files.replace(table, request, runs.make_run(pause=_never))
    assert other(table).current_snapshot().snapshot_id == result.snapshot_id  # type: ignore[union-attr]
    assert ids(table) == list(range(24))


def test_a_landed_commit_is_found_below_later_ones(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    raising(monkeypatch, errors.StateUnknownError("504"), lands=True, after=lambda: other(table).append(rows(100)))
    result = replace_files.replace(table, request, runs.make_run(pause=_never))
    assert result.snapshot_id in {s.snapshot_id for s in other(table).snapshots()}
    assert ids(table) == [*range(24), *range(100, 106)]


def test_a_landed_commit_that_has_expired_is_found_by_its_child(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Iceberg Java leaves the id of a parent that has expired in its child; PyIceberg does not."""
    request = rewrites.rewrite_request(table)
    real = publish.reload

    def others() -> None:
        ours = other(table).metadata.current_snapshot_id
        other(table).append(rows(100))

        def without_ours(table: Table) -> Table:
            found = real(table)
            left = [snapshot for snapshot in found.snapshots() if snapshot.snapshot_id != ours]
            found.metadata = found.metadata.model_copy(update={"snapshots": left})
            return found

        monkeypatch.setattr(publish, "reload", without_ours)

    raising(monkeypatch, errors.StateUnknownError("504"), lands=True, after=others)
    result = replace_files.replace(table, request, runs.make_run(pause=_never))
    assert result.snapshot_id in {s.parent_snapshot_id for s in other(table).snapshots()}
    assert ids(table) == [*range(24), *range(100, 106)]


def test_nothing_is_deleted_when_the_history_that_would_tell_has_expired(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That our inputs are gone may be our own doing, and then our files are all that is left of the rows."""
    request = rewrites.rewrite_request(table)

    def others() -> None:
        gone = [other(table).metadata.current_snapshot_id]
        other(table).append(rows(100))
        gone.append(other(table).metadata.current_snapshot_id)
        other(table).append(rows(200))
        table.catalog.commit_table(other(table), (), (RemoveSnapshotsUpdate(snapshot_ids=gone),))

    raising(monkeypatch, errors.StateUnknownError("504"), lands=True, after=others)
    with pytest.raises(errors.StateUnknownError, match="nothing was deleted"):
        replace_files.replace(table, request, runs.make_run())
    assert ids(table) == [*range(24), *range(100, 106), *range(200, 206)]


def test_an_answer_that_is_out_of_date_proves_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A catalog whose replicas lag: the branch's head is older than what we built on."""
    stale = other(table)
    other(table).append(rows(100))
    table.refresh()
    request = rewrites.rewrite_request(table)
    real = publish.reload

    def lag() -> None:
        monkeypatch.setattr(publish, "reload", lambda table: stale)

    raising(monkeypatch, errors.StateUnknownError("504"), lands=True, after=lag)
    with pytest.raises(errors.StateUnknownError, match="nothing was deleted"):
        replace_files.replace(table, request, runs.make_run())
    monkeypatch.setattr(publish, "reload", real)
    assert ids(table) == [*range(24), *range(100, 106)]


def test_a_conflict_that_nobody_can_look_into_is_unknown(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy sent our commit twice, so that it landed and was refused; then the catalog is gone."""
    request = rewrites.rewrite_request(table)
    real = publish.reload

    def unreachable(table: Table) -> Table:
        raise errors.UnreachableError("The catalog does not answer.")

    raising(
        monkeypatch,
        errors.ConflictError("409"),
        lands=True,
        after=lambda: monkeypatch.setattr(publish, "reload", unreachable),
    )
    with pytest.raises(errors.StateUnknownError, match="The catalog does not answer"):
        replace_files.replace(table, request, runs.make_run())
    monkeypatch.setattr(publish, "reload", real)
    assert ids(table) == list(range(24))


def test_r14_nothing_is_deleted_while_the_state_is_unknown(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """R14: the server may yet add the snapshot, and then every file is needed."""
    request = rewrites.rewrite_request(table)
    before = files_on_disk(table)
    kept: list[Any] = []
    real = publish.publish

    def slow(*arguments: Any) -> None:
        kept.append(arguments)
        raise errors.StateUnknownError("504")

    monkeypatch.setattr(publish, "publish", slow)
    waits: list[float] = []
    with pytest.raises(errors.StateUnknownError, match="has not appeared"):
        replace_files.replace(table, request, runs.make_run(pause=waits.append, chance=lambda: 0.0))
    assert waits == [1, 2, 4]
    assert before < files_on_disk(table)
    real(*kept[0])  # the slow server
    assert ids(table) == list(range(24))


@pytest.mark.parametrize("lost", [1, 2], ids=["once", "twice"])
def test_r58_a_commit_that_never_arrived_is_sent_again_as_it_is(
    table: Table, monkeypatch: pytest.MonkeyPatch, lost: int
) -> None:
    request = rewrites.rewrite_request(table)
    sent: list[Any] = []
    real = publish.publish

    def lossy(to: Table, *what: Any) -> None:
        sent.append(what)
        if len(sent) <= lost:
            raise errors.StateUnknownError("502")
        real(to, *what)

    monkeypatch.setattr(publish, "publish", lossy)
    result = replace_files.replace(table, request, runs.make_run())
    assert sent == [sent[0]] * (lost + 1)
    assert result.attempts == 1
    assert [snapshot.snapshot_id for snapshot in other(table).snapshots()][-1] == result.snapshot_id
    assert ids(table) == list(range(24))
    assert avro_files(table) == avro_files_in_use(table)


def test_r58_a_commit_that_lands_late_and_is_sent_again_lands_once(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is on its way while the second is sent: the second is refused, and the first is found."""
    request = rewrites.rewrite_request(table)
    sent: list[Any] = []
    real = publish.publish

    def slow(*arguments: Any) -> None:
        sent.append(arguments)
        if len(sent) == 1:
            raise errors.StateUnknownError("504")
        real(*sent[0])
        real(*arguments)

    monkeypatch.setattr(publish, "publish", slow)
    result = replace_files.replace(table, request, runs.make_run())
    assert len(sent) == 2
    landed = [snapshot.snapshot_id for snapshot in other(table).snapshots()]
    assert landed.count(result.snapshot_id) == 1
    assert ids(table) == list(range(24))
    assert avro_files(table) == avro_files_in_use(table)


def test_a_commit_that_can_no_longer_land_is_tried_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    raising(monkeypatch, errors.StateUnknownError("504"), lands=False, after=lambda: other(table).append(rows(100)))
    result = replace_files.replace(table, request, runs.make_run())
    assert result.attempts == 2
    assert ids(table) == [*range(24), *range(100, 106)]


def test_a_stopped_commit_that_did_not_land_is_not_tried_again(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    raising(monkeypatch, KeyboardInterrupt(), lands=False, after=lambda: other(table).append(rows(100)))
    with pytest.raises(KeyboardInterrupt):
        replace_files.replace(table, request, runs.make_run(pause=_never))
    assert ids(table) == [*range(24), *range(100, 106)]
    assert avro_files(table) == avro_files_in_use(table)


def test_a_conflict_with_our_own_commit_is_success(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    raising(monkeypatch, errors.ConflictError("409"), lands=True)
    result = replace_files.replace(table, request, runs.make_run())
    assert result.attempts == 1
    assert len(other(table).snapshots()) == 5
    assert ids(table) == list(range(24))


def test_a_refused_commit_is_not_retried_and_leaves_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    before = files_on_disk(table)
    raising(monkeypatch, errors.CommitError("403"), lands=False)
    with pytest.raises(errors.CommitError, match="403"):
        replace_files.replace(table, request, runs.make_run(pause=_never))
    assert files_on_disk(table) == before


def test_interrupted_before_publishing_leaves_nothing(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    request = rewrites.rewrite_request(table)
    before = files_on_disk(table)

    def interrupt(**arguments: Any) -> AssertRefSnapshotId:
        raise KeyboardInterrupt

    monkeypatch.setattr(new_snapshot, "AssertRefSnapshotId", interrupt)
    with pytest.raises(KeyboardInterrupt):
        replace_files.replace(table, request, runs.make_run())
    assert files_on_disk(table) == before


def test_of_two_attempts_the_files_of_the_one_that_landed_stay(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first was refused by a gateway while it was still under way, and lands while the second one is sent."""
    before, real, sent = ids(table), publish.publish, []

    def late(*request: Any) -> None:
        sent.append(request)
        if len(sent) == 1:
            raise errors.ConflictError("The catalog is too busy.")
        if len(sent) == 2:
            real(*sent[0])
            raise errors.StateUnknownError("502")

    monkeypatch.setattr(publish, "publish", late)
    result = replace_files.replace(table, rewrites.rewrite_request(table), runs.make_run())
    assert len(sent) == 2
    assert result.snapshot_id == other(table).metadata.current_snapshot_id
    assert ids(table) == before
    assert avro_files(table) == avro_files_in_use(table)
