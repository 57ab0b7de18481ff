"""Commits of rewrites that applied deletes, rule by rule on real tables: which delete files leave with the replaced
files, which never may, and which deletes that came meanwhile stand against the commit."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.manifest import ManifestContent, ManifestEntryStatus
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.table.snapshots import SnapshotSummaryCollector
from pyiceberg.transforms import IdentityTransform
from tests.factories import manifests, racing, rewrites, runs
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.delete_tables import ROWS, DeleteTable, delete_table
from tests.factories.lake import make_table

from iceberg_compaction import errors
from iceberg_compaction.commit import snapshot_summary
from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata.deletes import delete_paths
from iceberg_compaction.metadata.manifest import snapshot_manifests
from iceberg_compaction.operations.rewrite_files.change import concurrent_deletes, replace_files

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from tests.factories.lake import Lake


@pytest.fixture
def t(local_lake: Lake) -> DeleteTable:
    return delete_table(local_lake)


def commit(t: DeleteTable, request: replace_files.ReplaceRequest) -> replace_files.CommitResult:
    before = len(t.deletes())
    result = replace_files.replace(t.table, request, runs.make_run())
    assert before - len(t.deletes()) == result.removed_delete_files
    return result


def refused(t: DeleteTable, request: replace_files.ReplaceRequest, match: str) -> None:
    before = avro_files(t)
    with pytest.raises(errors.ConflictError, match=match):
        replace_files.replace(t.table, request, runs.make_run())
    assert avro_files(t) == before


def avro_files(t: DeleteTable) -> set[str]:
    return {path.name for path in Path(t.table.location().removeprefix("file://"), "metadata").glob("*.avro")}


def delete_manifests(t: DeleteTable) -> list[tuple[ManifestFile, list[ManifestEntry]]]:
    table = t.refresh().table
    listed = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    return [
        (row, row.fetch_manifest_entry(table.io, discard_deleted=False))
        for row in listed
        if row.content == ManifestContent.DELETES
    ]


# ---- what leaves


def test_rows_and_the_deletes_of_other_files_stay(local_lake: Lake) -> None:
    """R8, R17: real files, read by PyIceberg before and after."""
    table = make_table(local_lake.catalog, local_lake.name("real"), pa.schema([("id", pa.int64())]))
    for first in (0, 10, 20):
        table.append(pa.table({"id": range(first, first + 10)}))
    other, *chosen = rewrites.live_data_files(table)
    table = manifests.add_position_delete(table, {file.file_path: [1, 3] for file in chosen}, file_scoped=False)
    table = manifests.add_position_delete(table, {other.file_path: [0]})
    before = table.scan().to_arrow().sort_by("id")
    live = before["id"].to_pylist()
    result = replace_files.replace(table, rewrites.rewrite_request(table, chosen, keep=live), runs.make_run())
    table.refresh()
    assert table.scan().to_arrow().sort_by("id") == before
    assert (result.removed_delete_files, len(live)) == (1, 25)
    told = table.current_snapshot().summary  # type: ignore[union-attr]
    assert (told["total-delete-files"], told["total-records"], told["deleted-records"]) == ("1", "26", "20")


def test_r17_a_position_delete_for_one_file_leaves_with_it(t: DeleteTable) -> None:
    mine, oslo = t.data("Rome", "Oslo")
    t.position("Rome", mine, scoped=True)
    theirs = t.position("Oslo", oslo, scoped=True)
    commit(t, t.request(mine, deleted=1))
    assert t.deletes() == {theirs}


def test_r17_a_position_delete_for_a_partition_is_opened(t: DeleteTable) -> None:
    """Its number and the new file's are the same, so only the paths in it tell that it is of no use."""
    first, second, third = t.data("Rome", "Rome", "Rome")
    t.position("Rome", first, second)
    half = t.position("Rome", second, third)
    request = t.request(first, second, deleted=2)
    assert request.pin.sequence_number == 3
    commit(t, request)
    assert t.deletes() == {half}
    commit(t, t.request(third, deleted=1))
    assert not t.deletes()


def test_r17_a_position_delete_older_than_all_of_its_partition_need_not_be_opened(t: DeleteTable) -> None:
    (first,) = t.data("Rome")
    delete = t.position("Rome", first)
    Path(delete.removeprefix("file://")).unlink()
    t.data("Rome")
    request = t.request(first, deleted=1)
    assert request.pin.sequence_number == 3
    commit(t, request)
    assert not t.deletes()


def test_r17_a_position_delete_that_cannot_be_read_stays(t: DeleteTable) -> None:
    (first,) = t.data("Rome")
    delete = t.position("Rome", first)
    Path(delete.removeprefix("file://")).write_bytes(b"PAR1 no longer")
    commit(t, t.request(first, deleted=1))
    assert t.deletes() == {delete}


def test_r17_an_equality_delete_stays_while_an_older_file_is_in_its_partition(t: DeleteTable) -> None:
    first, second, oslo = t.data("Rome", "Rome", "Oslo")
    delete = t.equality("Rome")
    theirs = t.equality("Oslo")
    commit(t, t.request(first, deleted=3))
    assert t.deletes() == {delete, theirs}
    assert t.applying(second) == {delete}
    commit(t, t.request(second, deleted=ROWS))
    assert t.deletes() == {theirs}
    assert t.applying(oslo) == {theirs}


def test_r18_a_global_equality_delete_stays_while_any_partition_needs_it(local_lake: Lake) -> None:
    """No data is left in its own spec, and it is still needed: looking at its partition alone would revive rows."""
    t = delete_table(local_lake, spec=UNPARTITIONED_PARTITION_SPEC)
    with t.table.update_spec() as update:
        update.add_identity("city")
    rome, oslo = t.refresh().data("Rome", "Oslo")
    delete = t.equality(None, spec_id=0)
    commit(t, t.request(rome, deleted=1))
    assert t.deletes() == {delete}
    assert t.applying(oslo) == {delete}
    commit(t, t.request(oslo, deleted=1))
    assert not t.deletes()


def test_4127_8933_deletes_of_the_planned_snapshot_itself_leave(t: DeleteTable) -> None:
    (file,) = t.data("Rome")
    t.equality("Rome")
    t.position("Rome", file, scoped=True)
    t.equality("Rome")
    commit(t, t.request(file, deleted=4))
    assert not t.deletes()


def test_17203_a_position_delete_for_a_file_that_is_long_gone_leaves(t: DeleteTable) -> None:
    rome, oslo = t.data("Rome", "Oslo")
    t.position("Rome", "file:///long/gone.parquet", scoped=True)
    elsewhere = t.position("Oslo", "file:///long/gone.parquet", scoped=True)
    commit(t, t.request(rome))
    assert t.deletes() == {elsewhere}  # not a partition that was rewritten
    assert t.applying(oslo) == set()


def test_16668_an_equality_delete_without_partition_values_may_be_meant_for_all(t: DeleteTable) -> None:
    """R18: in a partitioned spec it is one of the null partition; it stays until it could not apply as a global one."""
    none, rome = t.data(None, "Rome")
    delete = t.equality(None)
    commit(t, t.request(none, deleted=1))
    assert t.deletes() == {delete}
    commit(t, t.request(rome, deleted=1))
    (last,) = [row["file_path"] for row in t.live() if row["partition"] == t.place(None)[1] and not row["content"]]
    commit(t, t.request(last))
    assert not t.deletes()


def test_r9_a_rewrite_may_leave_no_rows(t: DeleteTable) -> None:
    rome, _ = t.data("Rome", "Oslo")
    t.equality("Rome")
    request = t.request(rome, deleted=ROWS)
    assert not request.added
    commit(t, request)
    assert [row["partition"] for row in t.live()] == [t.place("Oslo")[1]]
    told = t.summary()
    assert "added-data-files" not in told
    assert (told["total-records"], told["total-data-files"], told["manifests-created"]) == ("10", "1", "2")


def test_r8_rows_may_only_be_missing_where_deletes_took_them(t: DeleteTable) -> None:
    (file,) = t.data("Rome")
    request = t.request(file, deleted=3)
    for deleted in (0, 2, 4, -3):
        with pytest.raises(errors.CommitError, match="7 records would replace 10"):
            replace_files.replace(t.table, rewrites.changed(request, deleted_records=deleted), runs.make_run())


# ---- how it is written down


def test_r10_entries_of_a_rewritten_delete_manifest(t: DeleteTable) -> None:
    rome, _ = t.data("Rome", "Rome")
    gone = t.position("Rome", rome, more=["file:///kept.parquet"])
    (kept,) = t.deletes() - {gone}
    t.data("Rome")
    Path(kept.removeprefix("file://")).unlink()  # so that it stays
    result = commit(t, t.request(rome, deleted=1))
    ((row, entries),) = delete_manifests(t)
    found = {
        e.data_file.file_path: (int(e.status), e.snapshot_id, e.sequence_number, e.file_sequence_number)
        for e in entries
    }
    added_by = t.table.snapshots()[1].snapshot_id
    assert found == {gone: (2, result.snapshot_id, 2, 2), kept: (0, added_by, 2, 2)}
    assert (row.added_files_count, row.existing_files_count, row.deleted_files_count) == (0, 1, 1)
    assert (row.sequence_number, row.min_sequence_number, row.partition_spec_id) == (4, 2, 0)
    parsed = container.parse(Path(row.manifest_path.removeprefix("file://")).read_bytes())
    assert parsed.metadata["content"] == b"deletes"


def test_r11_a_delete_manifest_without_live_entries_goes_with_the_next_commit(t: DeleteTable) -> None:
    rome, oslo = t.data("Rome", "Oslo")
    t.equality("Rome")
    commit(t, t.request(rome, deleted=1))
    ((row, entries),) = delete_manifests(t)
    assert [(int(e.status), e.sequence_number) for e in entries] == [(2, 2)]
    assert (row.deleted_files_count, row.min_sequence_number) == (1, 3)
    commit(t, t.request(oslo))
    assert not delete_manifests(t)


def test_r13_summary_counts_removed_delete_files(t: DeleteTable) -> None:
    first, second, _ = t.data("Rome", "Rome", "Oslo")
    t.equality("Rome")
    t.position("Rome", first, scoped=True)
    shared = t.position("Rome", first, second)
    t.equality("Oslo")
    size = Path(shared.removeprefix("file://")).stat().st_size
    result = commit(t, t.request(first, second, deleted=5))
    assert result.removed_delete_files == 3
    assert t.summary() == {
        "added-data-files": "1",
        "deleted-data-files": "2",
        "added-records": "15",
        "deleted-records": "20",
        "added-files-size": "500",
        "removed-files-size": str(4000 + size),
        "removed-delete-files": "3",
        "removed-position-delete-files": "2",
        "removed-equality-delete-files": "1",
        "removed-position-deletes": "3",
        "removed-equality-deletes": "3",
        "changed-partition-count": "1",
        "manifests-created": "5",
        "manifests-kept": "1",
        "manifests-replaced": "4",
        "total-records": "25",
        "total-files-size": "2500",
        "total-data-files": "2",
        "total-delete-files": "1",
        "total-position-deletes": "0",
        "total-equality-deletes": "3",
    }


@pytest.mark.parametrize(("limit", "told"), [("2", True), ("1", False), (None, False)])
def test_r13_partitions_are_told_where_the_table_asks_for_it(local_lake: Lake, limit: str | None, told: bool) -> None:
    """As PyIceberg's own writer would tell it."""
    asked = {} if limit is None else {snapshot_summary.PARTITION_LIMIT: limit}
    table = make_table(local_lake.catalog, local_lake.name("asked"), SCHEMA, spec=BY_CITY, properties=asked)
    for first in (0, 10):
        table.append(pa.table({"id": range(first, first + 4), "city": ["Rome", "Oslo / Ø"] * 2}))
    rome = [file.file_path for file in rewrites.live_data_files(table) if file.partition[0] == "Rome"]
    table = manifests.add_position_delete(table, {path: [0] for path in rome}, file_scoped=False)
    request = rewrites.rewrite_request(table, keep=table.scan().to_arrow()["id"].to_pylist(), apart=True)
    result = replace_files.replace(table, request, runs.make_run())
    table.refresh()
    head = table.current_snapshot()
    assert head is not None
    collector = SnapshotSummaryCollector(int(limit or 0))
    for row in head.manifests(table.io):
        for entry in row.fetch_manifest_entry(table.io, discard_deleted=False):
            if entry.snapshot_id == result.snapshot_id:
                removed = entry.status == ManifestEntryStatus.DELETED
                (collector.remove_file if removed else collector.add_file)(entry.data_file, SCHEMA, BY_CITY)
    found = head.summary.additional_properties if head.summary else {}
    expected = collector.build()
    assert told == ("partition-summaries-included" in expected)
    assert {name for name in expected if name not in found} == set()
    assert [name for name in found if name.startswith("partition") and name not in expected] == []
    for name, value in expected.items():
        assert sorted(found[name].split(",")) == sorted(value.split(",")), name


# ---- what comes meanwhile


def test_r3_10312_a_newer_equality_delete_survives_although_no_old_file_is_left(t: DeleteTable) -> None:
    """R1, R3: the new file counts with its own number, so that the delete is still newer than something."""
    (file,) = t.data("Rome")
    request = t.request(file)
    delete = t.equality("Rome")
    t.data("Rome")
    commit(t, request)
    (new,) = request.added
    assert t.deletes() == {delete}
    assert t.applying(new.file_path) == {delete}
    numbers = {row["file_path"]: (row["sequence_number"], row["file_sequence_number"]) for row in t.live()}
    assert numbers[new.file_path] == (1, 4)
    t.data("Rome")
    commit(t, t.request(new.file_path, deleted=1))
    assert not t.deletes()


def test_r6_a_position_delete_for_a_partition_is_a_conflict_only_if_it_names_an_input(t: DeleteTable) -> None:
    """A streaming writer deletes from files that it has just written."""
    (mine,) = t.data("Rome")
    request = t.request(mine)
    (theirs,) = t.data("Rome")
    delete = t.position("Rome", theirs)
    commit(t, request)
    assert t.deletes() == {delete}
    again = t.request(*(file.file_path for file in request.added))
    t.position("Rome", theirs, *(file.file_path for file in again.added), request.added[0].file_path)
    refused(t, again, "were deleted since the plan was made")


def test_r6_a_position_delete_that_cannot_be_opened_ends_the_commit(t: DeleteTable) -> None:
    (mine,) = t.data("Rome")
    request = t.request(mine)
    delete = t.position("Rome", "file:///other.parquet")
    head = snapshot_manifests.read(t.table.io, t.table.current_snapshot())
    conflicts = concurrent_deletes.conflicts(t.table, head, request, delete_paths.NamedPaths(budget=10))
    assert "encrypted or too large to read" in conflicts[0]
    Path(delete.removeprefix("file://")).unlink()
    with pytest.raises(errors.MetadataError, match="is missing"):
        replace_files.replace(t.table, request, runs.make_run())


@pytest.mark.parametrize("where", ["input", "output"])
def test_r4_an_equality_delete_beside_a_change_of_spec_is_a_conflict(local_lake: Lake, where: str) -> None:
    t = delete_table(local_lake)
    with t.table.update_spec() as update:
        update.remove_field("city").add_field("city", IdentityTransform(), "town")
    (spec_id,) = set(t.refresh().table.specs()) - {0}
    (file,) = t.data("Rome", spec_id=0)
    request = t.request(file, into=t.place("Rome", spec_id))
    t.equality("Oslo", spec_id=0)
    t.equality("Oslo", spec_id=spec_id)
    replaced = t.request(file, into=t.place("Rome", spec_id))
    t.equality("Rome", spec_id=0 if where == "input" else spec_id)
    refused(t, request, "moves rows into or out of its partition")
    refused(t, replaced, "moves rows into or out of its partition")


def test_r4_a_change_of_spec_lands_beside_other_deletes_and_keeps_global_ones(local_lake: Lake) -> None:
    t = delete_table(local_lake, spec=UNPARTITIONED_PARTITION_SPEC)
    (file,) = t.data(None)
    older = t.equality(None)
    with t.table.update_spec() as update:
        update.add_identity("city")
    request = t.refresh().request(file, deleted=2, into=t.place("Rome", 1))
    newer = t.equality(None, spec_id=0)
    other = t.equality("Oslo")
    commit(t, request)
    assert t.deletes() == {newer, other}
    assert older not in t.deletes()
    assert t.applying(request.added[0].file_path) == {newer}
    assert t.summary()["changed-partition-count"] == "2"


def test_a_file_in_a_spec_that_the_table_has_not_is_refused(t: DeleteTable) -> None:
    (file,) = t.data("Rome")
    refused(t, t.request(file, into=(7, "{}")), "spec 7 was removed")


def test_r23_a_newer_equality_delete_of_a_column_that_was_not_written_is_a_conflict(t: DeleteTable) -> None:
    rome, oslo = t.data("Rome", "Oslo")
    request, elsewhere = t.request(rome), t.request(oslo)
    t.equality("Rome", 1, 99)
    refused(t, request, "not have all columns")
    commit(t, elsewhere)
    everything = t.request(rome, deleted=ROWS)
    t.equality("Rome", 99)
    commit(t, everything)  # no new file needs the column


def test_r17_what_dangles_is_decided_anew_at_every_attempt(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the first attempt another partition needs the global delete; who wins the race rewrites that partition."""
    t = delete_table(local_lake, spec=UNPARTITIONED_PARTITION_SPEC)
    with t.table.update_spec() as update:
        update.add_identity("city")
    rome, oslo = t.refresh().data("Rome", "Oslo")
    t.equality(None, spec_id=0)
    request = t.request(rome, deleted=1)
    theirs = DeleteTable(t.table)
    racing.before_publishing(monkeypatch, lambda: commit(theirs, theirs.request(oslo, deleted=1)))
    result = replace_files.replace(t.table, request, runs.make_run())
    assert (result.attempts, result.removed_delete_files) == (2, 1)
    assert not t.deletes()


def test_a_retry_uses_rewritten_delete_manifests_again(t: DeleteTable, monkeypatch: pytest.MonkeyPatch) -> None:
    (rome,) = t.data("Rome")
    t.equality("Rome")
    request = t.request(rome, deleted=1)
    before = avro_files(t)
    theirs = DeleteTable(t.table)
    racing.before_publishing(monkeypatch, lambda: theirs.data("Rome"))
    result = commit(t, request)
    assert result.attempts == 2
    # Ours: two manifests rewritten, one of new files, one list that landed. Theirs: a manifest and a list.
    assert len(avro_files(t) - before) == 6


def test_an_append_of_deletes_in_the_race_changes_nothing_for_older_ones(
    t: DeleteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    (rome,) = t.data("Rome")
    t.equality("Rome")
    request = t.request(rome, deleted=1)
    theirs, added = DeleteTable(t.table), []
    racing.before_publishing(monkeypatch, lambda: added.append(theirs.equality("Rome")))
    result = replace_files.replace(t.table, request, runs.make_run())
    assert (result.attempts, result.removed_delete_files) == (2, 1)
    assert t.deletes() == set(added)


def test_a_manifest_that_loses_more_at_the_next_attempt_is_written_again(
    t: DeleteTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two delete files in one manifest, the second is needed until who wins the race rewrites the other file."""
    mine, other = t.data("Rome", "Rome")
    t.position("Rome", mine, more=[mine, other])
    request = t.request(mine, deleted=1)
    theirs = DeleteTable(t.table)
    racing.before_publishing(monkeypatch, lambda: commit(theirs, theirs.request(other, deleted=1)))
    result = replace_files.replace(t.table, request, runs.make_run())
    assert (result.attempts, result.removed_delete_files) == (2, 2)
    assert not t.deletes()
