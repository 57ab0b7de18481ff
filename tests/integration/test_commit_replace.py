"""One replace snapshot on real tables: rows, sequence numbers, entries, summary and what lies on disk afterwards."""

from __future__ import annotations

from dataclasses import replace as changed
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
from tests.factories import manifests, rewrites, runs
from tests.factories.lake import make_table

from iceberg_compaction import errors
from iceberg_compaction.formats.avro import container
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "city", StringType()),
    NestedField(3, "at", TimestampType()),
)
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), spec_id=0)
BY_CITY_AND_TIME = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "city"),
    PartitionField(3, 1001, IdentityTransform(), "at_time"),
    spec_id=0,
)
_HOUR = 3_600_000_000


def rows(first: int, count: int = 6) -> pa.Table:
    """Two cities and the null one, three days."""
    ids = range(first, first + count)
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": pa.array([("Rome", "Oslo", None)[i % 3] for i in ids], pa.string()),
            "at": pa.array([i // 8 * 24 * _HOUR for i in ids], pa.timestamp("us")),
        }
    )


def filled(lake: Lake, name: str = "t", appends: int = 4, **options: Any) -> Table:
    table = make_table(lake.catalog, lake.name(name), SCHEMA, **options)
    for number in range(appends):
        table.append(rows(number * 6))
    return table


def content(table: Table, branch: str | None = None) -> list[dict[str, Any]]:
    scan = table.scan().use_ref(branch) if branch else table.scan()
    return sorted(scan.to_arrow().to_pylist(), key=lambda row: row["id"])


def entries(table: Table) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.inspect.entries().to_pylist()
    return found


def metadata_files(table: Table) -> set[str]:
    return {path.name for path in Path(table.location().removeprefix("file://"), "metadata").glob("*.avro")}


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("spec", [None, BY_CITY, BY_CITY_AND_TIME], ids=["flat", "city", "city-time"])
def test_r1_r10_rows_stay_and_numbers_are_right(local_lake: Lake, version: str, spec: PartitionSpec | None) -> None:
    options: dict[str, Any] = {"properties": {"format-version": version}}
    table = filled(local_lake, **(options | ({"spec": spec} if spec else {})))
    before, files, start = content(table), rewrites.live_data_files(table), rewrites.pin_of(table)
    request = rewrites.rewrite_request(table, properties={"who": "me"})
    result = replace_files.replace(table, request, runs.make_run())
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert (result.snapshot_id, result.attempts) == (snapshot.snapshot_id, 1)
    assert content(table) == before
    assert {f.file_path for f in rewrites.live_data_files(table)} == {f.file_path for f in request.added}
    assert snapshot.parent_snapshot_id == start.snapshot_id
    assert snapshot.schema_id == table.metadata.current_schema_id
    if version == "2":
        assert result.sequence_number == snapshot.sequence_number == start.sequence_number + 1
        numbers = {(e["sequence_number"], e["status"]) for e in entries(table)}
        assert numbers == {(start.sequence_number, 1), *((number, 2) for number in range(1, 5))}
        assert {e["file_sequence_number"] for e in entries(table) if e["status"] == 1} == {snapshot.sequence_number}
    assert sum(e["status"] == 2 for e in entries(table)) == len(files)
    assert {e["snapshot_id"] for e in entries(table)} == {snapshot.snapshot_id}


def test_r13_summary_counts_what_changed_and_what_there_is(local_lake: Lake) -> None:
    table = filled(local_lake, spec=BY_CITY)
    old = rewrites.live_data_files(table)
    request = rewrites.rewrite_request(table, [f for f in old if f.partition[0] != "Oslo"], properties={"who": "me"})
    replace_files.replace(table, request, runs.make_run())
    table.refresh()
    told = table.current_snapshot().summary  # type: ignore[union-attr]
    files = rewrites.live_data_files(table)
    removed = [f for f in old if f.partition[0] != "Oslo"]
    assert told.operation.value == "replace"
    assert {key: told[key] for key in sorted(told.additional_properties)} == {
        "who": "me",
        "added-data-files": "2",
        "deleted-data-files": "8",
        "added-records": "16",
        "deleted-records": "16",
        "added-files-size": str(sum(f.file_size_in_bytes for f in request.added)),
        "removed-files-size": str(sum(f.file_size_in_bytes for f in removed)),
        "changed-partition-count": "2",
        "manifests-created": "5",
        "manifests-kept": "0",
        "manifests-replaced": "4",
        "total-records": "24",
        "total-files-size": str(sum(f.file_size_in_bytes for f in files)),
        "total-data-files": str(len(files)),
        "total-delete-files": "0",
        "total-position-deletes": "0",
        "total-equality-deletes": "0",
    }


def test_r10_surviving_entries_keep_their_numbers_and_untouched_manifests_their_bytes(local_lake: Lake) -> None:
    table = filled(local_lake, appends=3)
    before = {e["data_file"]["file_path"]: (e["sequence_number"], e["file_sequence_number"]) for e in entries(table)}
    first = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    oldest = min(first, key=lambda row: row.sequence_number)
    path = oldest.fetch_manifest_entry(table.io)[0].data_file.file_path
    chosen = [f for f in rewrites.live_data_files(table) if f.file_path == path]
    replace_files.replace(table, rewrites.rewrite_request(table, chosen), runs.make_run())
    table.refresh()
    kept = {row.manifest_path for row in table.current_snapshot().manifests(table.io)}  # type: ignore[union-attr]
    assert {row.manifest_path for row in first} - {oldest.manifest_path} <= kept
    after = {e["data_file"]["file_path"]: (e["sequence_number"], e["file_sequence_number"]) for e in entries(table)}
    assert {key: after[key] for key in before} == before


def test_manifests_of_a_second_rewrite_are_existing_and_without_the_first_ones_dead(local_lake: Lake) -> None:
    table = filled(local_lake, spec=BY_CITY)
    for city in ("Rome", "Oslo"):
        chosen = [f for f in rewrites.live_data_files(table) if f.partition[0] == city]
        replace_files.replace(table, rewrites.rewrite_request(table, chosen), runs.make_run())
        table.refresh()
    found = [(e["status"], e["sequence_number"]) for e in entries(table) if e["data_file"]["partition"]["city"] is None]
    assert sorted(found) == [(0, 1), (0, 2), (0, 3), (0, 4)]
    assert sum(e["status"] == 2 for e in entries(table)) == 4  # Oslo's alone
    listed = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    assert sorted(
        (row.min_sequence_number, row.added_files_count, row.existing_files_count, row.deleted_files_count)
        for row in listed
    ) == [(1, 0, 1, 1), (2, 0, 1, 1), (3, 0, 1, 1), (4, 0, 1, 1), (4, 1, 0, 0), (5, 1, 0, 0)]
    assert len(content(table)) == 24


def test_r11_manifests_without_live_files_go_with_the_next_commit(local_lake: Lake) -> None:
    table = filled(local_lake)
    replace_files.replace(table, rewrites.rewrite_request(table), runs.make_run())
    table.refresh()
    assert len(table.current_snapshot().manifests(table.io)) == 5  # type: ignore[union-attr]
    replace_files.replace(table, rewrites.rewrite_request(table), runs.make_run())
    table.refresh()
    assert len(table.current_snapshot().manifests(table.io)) == 2  # type: ignore[union-attr]
    assert len(content(table)) == 24


def test_r11_an_evolved_spec_gets_a_manifest_of_its_own(local_lake: Lake) -> None:
    table = filled(local_lake, spec=BY_CITY)
    with table.update_spec() as update:
        update.add_identity("at")
    for number in range(4, 7):
        table.append(rows(number * 6))
    before = content(table)
    request = rewrites.rewrite_request(table)
    assert {spec_id for spec_id, _ in request.partitions} == {0, 1}
    replace_files.replace(table, request, runs.make_run())
    table.refresh()
    listed = table.current_snapshot().manifests(table.io)  # type: ignore[union-attr]
    added = [row for row in listed if row.added_files_count]
    assert sorted(row.partition_spec_id for row in added) == [0, 1]
    assert content(table) == before
    assert len(table.scan(row_filter="city = 'Rome'").to_arrow()) == sum(r["city"] == "Rome" for r in before)


def test_a_table_upgraded_from_version_1_gets_version_2_manifests(local_lake: Lake) -> None:
    table = filled(local_lake, properties={"format-version": "1"}, spec=BY_CITY)
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(100))
    before = content(table)
    chosen = [f for f in rewrites.live_data_files(table) if f.partition[0] == "Rome"]
    result = replace_files.replace(table, rewrites.rewrite_request(table, chosen), runs.make_run())
    table.refresh()
    assert content(table) == before
    for row in table.current_snapshot().manifests(table.io):  # type: ignore[union-attr]
        if row.added_snapshot_id == result.snapshot_id:
            parsed = container.parse(Path(row.manifest_path.removeprefix("file://")).read_bytes())
            names = {field["name"] for field in parsed.schema["fields"]}
            assert {"sequence_number", "file_sequence_number"} <= names
            assert (parsed.metadata["format-version"], parsed.metadata["content"]) == (b"2", b"data")
    assert {e["sequence_number"] for e in entries(table) if e["status"] == 0} == {0, 1}


def test_r46_only_the_branch_moves_and_its_retention_stays(local_lake: Lake) -> None:
    table = filled(local_lake)
    head = table.current_snapshot()
    assert head is not None
    table.manage_snapshots().create_branch(
        head.snapshot_id, "audit", max_ref_age_ms=10**12, min_snapshots_to_keep=7
    ).commit()
    table.append(rows(200))
    head, before = table.current_snapshot(), content(table, "audit")
    result = replace_files.replace(table, rewrites.rewrite_request(table, branch="audit"), runs.make_run())
    table.refresh()
    ref = table.metadata.refs["audit"]
    assert (ref.snapshot_id, ref.max_ref_age_ms, ref.min_snapshots_to_keep) == (result.snapshot_id, 10**12, 7)
    assert table.current_snapshot() == head
    assert content(table, "audit") == before
    assert len(content(table)) == 30


def test_metadata_path_and_codec_of_the_table_are_honoured(local_lake: Lake, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    options = {"write.metadata.path": elsewhere.as_uri(), "write.avro.compression-codec": "zstd"}
    table = filled(local_lake, properties=options)
    replace_files.replace(table, rewrites.rewrite_request(table), runs.make_run())
    table.refresh()
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.manifest_list.startswith(elsewhere.as_uri())
    for row in snapshot.manifests(table.io):
        assert row.manifest_path.startswith(elsewhere.as_uri())
        assert container.parse(Path(row.manifest_path.removeprefix("file://")).read_bytes()).codec == "zstandard"
    assert len(content(table)) == 24


def test_manifests_of_other_partitions_are_not_opened(local_lake: Lake) -> None:
    table = make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)
    for city in ("Aachen", "Bonn", "Chur"):
        for number in range(2):
            table.append(rows(number * 6).set_column(1, "city", pa.array([city] * 6)))
    chosen = [f for f in rewrites.live_data_files(table) if f.partition[0] == "Bonn"]
    request = rewrites.rewrite_request(table, chosen)
    for row in table.current_snapshot().manifests(table.io):  # type: ignore[union-attr]
        if row.partitions and row.partitions[0].lower_bound != b"Bonn":
            Path(row.manifest_path.removeprefix("file://")).write_bytes(b"must not be read")
    replace_files.replace(table, request, runs.make_run())
    table.refresh()
    assert table.current_snapshot().summary["manifests-kept"] == "4"  # type: ignore[union-attr,index]


def test_format_versions_beyond_2_are_refused(local_lake: Lake) -> None:
    """R39: rows of version 3 have ids, and these would be lost."""
    table = filled(local_lake, appends=1)
    request = rewrites.rewrite_request(table)
    pin = request.pin.model_copy(update={"format_version": 3})
    with pytest.raises(errors.UnsupportedError, match="version 3"):
        replace_files.replace(table, changed(request, pin=pin), runs.make_run())


@pytest.mark.parametrize("case", ["nothing", "twice", "records", "partition"])
def test_r8_r9_requests_that_would_change_the_table_are_refused(local_lake: Lake, case: str) -> None:
    table = filled(local_lake)
    request = rewrites.rewrite_request(table)
    file = request.added[0]
    wrong = {
        "nothing": {"removed": request.removed.slice(0, 0)},
        "twice": {"removed": pa.concat_tables([request.removed, request.removed.slice(0, 1)])},
        "records": {"added": (file.model_copy(update={"record_count": 23}),)},
        "partition": {"added": (file.model_copy(update={"partition": '{"city":"Rome"}'}),)},
    }[case]
    before = metadata_files(table)
    with pytest.raises(errors.CommitError):
        replace_files.replace(table, rewrites.changed(request, **wrong), runs.make_run())
    assert metadata_files(table) == before


def test_a_file_listed_twice_in_the_table_is_refused(local_lake: Lake) -> None:
    table = filled(local_lake, appends=2)
    file = rewrites.live_data_files(table)[0]
    table = manifests.add_files(table, [file])
    request = rewrites.rewrite_request(table, [file])
    before = metadata_files(table)
    with pytest.raises(errors.MetadataError, match="listed twice"):
        replace_files.replace(table, request, runs.make_run())
    assert metadata_files(table) == before


def test_a_damaged_manifest_is_named_and_nothing_is_left(local_lake: Lake) -> None:
    table = filled(local_lake)
    request = rewrites.rewrite_request(table)
    row = table.current_snapshot().manifests(table.io)[0]  # type: ignore[union-attr]
    path = Path(row.manifest_path.removeprefix("file://"))
    path.write_bytes(path.read_bytes()[:-40])
    before = metadata_files(table)
    with pytest.raises(errors.MetadataError, match=path.name):
        replace_files.replace(table, request, runs.make_run())
    assert metadata_files(table) == before
