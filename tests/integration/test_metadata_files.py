"""The live files of a snapshot are those that PyIceberg's own reader finds, and damage is never half a picture."""

from __future__ import annotations

import datetime
import random
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg import conversions
from pyiceberg.manifest import DataFile, FileFormat, ManifestFile, write_manifest_list
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DateType, LongType, NestedField, StringType
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch, partition_tuples
from iceberg_compaction.metadata.manifest import column_metrics, live_files, snapshot_manifests
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "region", StringType(), required=False),
    NestedField(3, "day", DateType(), required=False),
    NestedField(4, "flag", BooleanType(), required=False),
)
OPERATIONS = ("append", "append", "delete", "overwrite", "respec", "add column")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[lakes.Lake]:
    lake = lakes.file_lake(tmp_path_factory.mktemp("files"))
    yield lake
    lakes.close(lake)


def new_table(lake: lakes.Lake, columns: list[str], version: int = 2) -> Table:
    fields = [
        PartitionField(SCHEMA.find_field(name).field_id, 1000 + i, IdentityTransform(), f"{name} part")
        for i, name in enumerate(columns)
    ]
    name = lake.name(f"t{uuid.uuid4().hex}")
    properties = {"format-version": str(version)}
    return lakes.make_table(lake.catalog, name, SCHEMA, spec=PartitionSpec(*fields), properties=properties)


def rows(chance: random.Random) -> pa.Table:
    regions = ["eu", "us", None, 'a"b']
    data = {
        "id": [chance.randrange(100) for _ in range(6)],
        "region": [chance.choice(regions) for _ in range(6)],
        "day": [chance.choice([None, datetime.date(2026, 1, chance.randrange(1, 4))]) for _ in range(6)],
        "flag": [chance.choice([True, False]) for _ in range(6)],
    }
    return pa.table(data, schema=SCHEMA.as_arrow())


def operate(table: Table, operation: str, chance: random.Random) -> None:
    match operation:
        case "append":
            table.append(
                pa.concat_tables([rows(chance), table.schema().as_arrow().empty_table()], promote_options="default")
            )
        case "delete":
            table.delete(f"id < {chance.randrange(50)}")
        case "overwrite":
            table.overwrite(rows(chance), overwrite_filter="region = 'eu'")
        case "respec":
            name = chance.choice(["region", "day", "flag"])
            existing = [
                field.name for field in table.spec().fields if field.source_id == SCHEMA.find_field(name).field_id
            ]
            with table.update_spec() as update:
                if existing and table.spec().fields:
                    update.remove_field(existing[0])
                elif not existing:
                    update.add_field(name, IdentityTransform(), f"{name} {uuid.uuid4().hex[:4]}")
        case "add column":
            with table.update_schema() as update:
                update.add_column(f"c{uuid.uuid4().hex}", StringType())


def as_pyiceberg_reads(table: Table) -> list[dict[str, Any]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return [
        {
            "file_path": entry.data_file.file_path,
            "content": int(entry.data_file.content),
            "file_format": entry.data_file.file_format.value,
            "spec_id": entry.data_file.spec_id,
            "partition": partition_tuples.encode_one(
                entry.data_file.partition, table.specs()[entry.data_file.spec_id], table.schema()
            ),
            "record_count": entry.data_file.record_count,
            "file_size_in_bytes": entry.data_file.file_size_in_bytes,
            "sequence_number": entry.sequence_number,
            "file_sequence_number": entry.file_sequence_number,
            "sort_order_id": entry.data_file.sort_order_id,
            "row_groups": len(entry.data_file.split_offsets or ()) or None,
            "encrypted": entry.data_file.key_metadata is not None,
            "cluster_lower": _day(entry.data_file.lower_bounds),
            "cluster_upper": _day(entry.data_file.upper_bounds),
            "equality_ids": entry.data_file.equality_ids,
            "referenced_data_file": _one_path(entry.data_file),
            "content_offset": None,
            "content_size_in_bytes": None,
            "first_row_id": None,
        }
        for manifest in snapshot.manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def _day(bounds: dict[int, bytes] | None) -> int | None:
    """SCHEMA has one date, so this is what files are clustered by."""
    return conversions.from_bytes(DateType(), bounds[3]) if bounds and 3 in bounds else None


def _one_path(file: DataFile) -> str | None:
    lower, upper = ((bounds or {}).get(manifests.FILE_PATH_ID) for bounds in (file.lower_bounds, file.upper_bounds))
    return lower.decode() if lower is not None and lower == upper else None


def read(table: Table, **options: Any) -> pa.Table:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    return live_files.live_files(table, snapshot_manifests.read(table.io, snapshot), **options)


@examples(25)
@given(
    version=st.sampled_from([1, 2]),
    columns=st.lists(st.sampled_from(["region", "day", "flag"]), max_size=2, unique=True),
    operations=st.lists(st.sampled_from(OPERATIONS), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
)
def test_random_tables_are_read_as_pyiceberg_reads_them(
    lake: lakes.Lake, version: int, columns: list[str], operations: list[str], seed: int
) -> None:
    table, chance = new_table(lake, columns, version), random.Random(seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a delete that finds nothing
        for operation in ("append", *operations):
            operate(table, operation, chance)

    found = read(table)

    assert found.schema == table_view.FILES
    assert found.to_pylist() == as_pyiceberg_reads(table)


def test_an_upgraded_table_keeps_zero_for_what_version_1_wrote(lake: lakes.Lake) -> None:
    table = new_table(lake, [], version=1)
    table.append(rows(random.Random(1)))
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(random.Random(2)))

    assert sorted(read(table)["sequence_number"].to_pylist()) == [0, 1]
    assert read(table).to_pylist() == as_pyiceberg_reads(table)


def test_delete_files_and_file_formats_are_told_apart(lake: lakes.Lake) -> None:
    table = new_table(lake, [])
    table.append(rows(random.Random(1)))
    path = read(table)["file_path"][0].as_py()
    table = manifests.add_position_delete(table, {path: [0]})
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1], pa.int64())}))
    orc = manifests.fake_data_file(table, "a.orc", file_format=FileFormat.ORC, key_metadata=b"k", sort_order_id=7)
    table = manifests.add_files(table, [orc])

    found = {row["sequence_number"]: row for row in read(table).to_pylist()}

    assert [found[i]["content"] for i in (1, 2, 3, 4)] == [0, 1, 2, 0]
    assert [found[i]["encrypted"] for i in (1, 2, 3, 4)] == [False, False, False, True]
    assert found[4]["file_format"] == "ORC"
    assert found[4]["sort_order_id"] == 7
    assert list(found.values()) == as_pyiceberg_reads(table)


def test_row_groups_are_counted_by_split_offsets(lake: lakes.Lake) -> None:
    table = new_table(lake, [])
    told = {"a": [4], "b": [4, 100, 200], "c": [], "d": None}
    fakes = [manifests.fake_data_file(table, name, split_offsets=offsets) for name, offsets in told.items()]
    table = manifests.add_files(table, fakes)

    assert read(table)["row_groups"].to_pylist() == [1, 3, None, None]


def test_version_3_can_be_read(lake: lakes.Lake) -> None:
    table = new_table(lake, ["region"])
    file = manifests.fake_data_file(table, "a.parquet", partition=manifests.Record("eu"))
    manifest = manifests.write_manifest_of(table, [file], 5, writer_class=manifests.ManifestWriterV3)
    table = manifests.commit_manifests(table, 5, [manifest], [file])
    table = manifests.as_v3(table, lake.name("three"))

    assert table.metadata.format_version == 3
    assert read(table)["partition"].to_pylist() == ['{"region part":"eu"}']


def test_metrics_are_read_for_the_fields_asked_for(lake: lakes.Lake) -> None:
    table = new_table(lake, [])
    table.append(rows(random.Random(3)))
    table.append(rows(random.Random(4)).set_column(1, "region", pa.nulls(6, pa.string())))
    columns = [column_metrics.column(metric, 2) for metric in column_metrics.METRICS]

    found = read(table, metrics=[2])

    assert found.column_names == [*table_view.FILES.names, *columns]
    assert [list(row.values()) for row in found.select(columns).to_pylist()] == [
        [
            (getattr(entry.data_file, metric) or {}).get(2)
            for metric in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
        ]
        for manifest in table.current_snapshot().manifests(table.io)
        for entry in manifest.fetch_manifest_entry(table.io)
    ]


def local(location: str) -> Path:
    return Path(location.removeprefix("file://"))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def cut_at_a_block(path: Path) -> None:
    data = path.read_bytes()
    sync = data[-16:]
    path.write_bytes(data[: data.rindex(sync, 0, len(data) - 16) + 16])


def garble(path: Path) -> None:
    path.write_bytes(b"Obj\x01" + bytes(range(200)))


@pytest.mark.parametrize("damage", [cut, cut_at_a_block, garble, Path.unlink])
def test_a_damaged_manifest_is_named(lake: lakes.Lake, damage: Callable[[Path], None]) -> None:
    table = new_table(lake, ["region"])
    table.append(rows(random.Random(1)))
    table.append(rows(random.Random(2)))
    victim = table.current_snapshot().manifests(table.io)[1].manifest_path
    assert read(table).num_rows > 2
    damage(local(victim))

    with pytest.raises(errors.MetadataError, match="Manifest ") as caught:
        read(table)
    assert victim in str(caught.value)


@pytest.mark.parametrize("damage", [cut, garble, Path.unlink])
def test_a_damaged_manifest_list_is_named(lake: lakes.Lake, damage: Callable[[Path], None]) -> None:
    table = new_table(lake, [])
    table.append(rows(random.Random(1)))
    victim = table.current_snapshot().manifest_list
    damage(local(victim))

    with pytest.raises(errors.MetadataError, match="Manifest list ") as caught:
        read(table)
    assert victim in str(caught.value)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        (7, 2, "holds 1 entries, but the manifest list promises 2"),  # added_files_count
        (9, 1, "holds 1 entries, but the manifest list promises 2"),  # deleted_files_count
        (2, 77, "has partition spec 77, which the table has not"),
        (3, 1, "mixes data files and delete files"),
    ],
)
def test_a_manifest_that_contradicts_its_list_is_refused(
    lake: lakes.Lake, field: int, value: int, message: str
) -> None:
    table = new_table(lake, [])
    table.append(rows(random.Random(1)))
    change_manifest_list(table, field, value)

    with pytest.raises(errors.MetadataError, match=message):
        read(table)


def test_a_count_of_no_live_entries_is_believed(lake: lakes.Lake) -> None:
    table = new_table(lake, [])
    table.append(rows(random.Random(1)))
    table.delete("id >= 0")

    assert read(table).num_rows == 0


def test_a_path_that_is_live_twice_is_refused(lake: lakes.Lake) -> None:
    table = new_table(lake, [])
    for _ in range(2):
        table = manifests.add_files(table, [manifests.fake_data_file(table, "twice.parquet")])

    with pytest.raises(errors.MetadataError, match=r"twice\.parquet is live more than once"):
        read(table)


def change_manifest_list(table: Table, field: int, value: int) -> None:
    """The same manifest list but for one field of its manifest."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    (row,) = fetch.list_manifests(table.io, snapshot)
    changed = ManifestFile(*row._data)
    changed[field] = value
    local(snapshot.manifest_list).unlink()
    with write_manifest_list(
        2, table.io.new_output(snapshot.manifest_list), snapshot.snapshot_id, None, snapshot.sequence_number, "gzip"
    ) as writer:
        writer.add_manifests([changed])
