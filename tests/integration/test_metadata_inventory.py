"""What planning may know of a table, and why some tables must not be rewritten: all reasons, in words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import pyarrow as pa
import pytest
from pyiceberg import transforms, types
from pyiceberg.manifest import FileFormat, ManifestFile
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table, sorting
from tests.factories import lake as lakes
from tests.factories import manifests

from iceberg_compaction import errors
from iceberg_compaction.metadata import fetch, look, support
from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from pathlib import Path


def take(table: Table, **options: Any) -> table_view.TableView:
    return look.look(table, name="db.t", **options).view


def with_metadata(table: Table, **changes: Any) -> Table:
    """The table as it would look with other metadata; nothing is committed."""
    metadata = table.metadata.model_copy(update=changes)
    return Table(("db", "t"), metadata, table.metadata_location, table.io, table.catalog)


def test_a_table_without_snapshot_has_an_empty_inventory(local_lake: lakes.Lake) -> None:
    found = take(lakes.make_table(local_lake.catalog, "db.t"), where="id > 5")

    assert found.pin is None
    assert found.files.schema == table_view.FILES
    assert (found.files.num_rows, found.selected.to_pylist(), found.unsupported) == (0, [], ())
    assert (found.manifests, found.snapshots, found.refs) == (0, 0, 0)


def test_the_head_of_main_is_pinned(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t", properties={"write.target-file-size-bytes": "1000"})
    lakes.append_small_files(table, 3)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()

    found = take(table)

    assert found.pin == table_view.Pin(
        table_uuid=str(table.metadata.table_uuid),
        snapshot_id=table.current_snapshot().snapshot_id,
        sequence_number=3,
        schema_id=0,
        spec_id=0,
        format_version=2,
    )
    assert found.properties == {"write.target-file-size-bytes": "1000"}
    assert (found.table, found.files.num_rows, found.selected) == ("db.t", 3, None)
    assert (found.manifests, found.snapshots, found.refs) == (3, 3, 2)
    assert found.unsupported == ()


def test_whether_rows_are_sorted_is_known_before_anything_is_rewritten(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    assert not take(table).sorts_rows
    with table.update_sort_order() as order:
        order.asc("id", transforms.IdentityTransform())
    assert take(table).sorts_rows
    later = sorting.SortField(1, transforms.UnknownTransform("from a later version"))
    unknown = sorting.SortOrder(later, order_id=table.sort_order().order_id)
    assert not take(with_metadata(table, sort_orders=[unknown])).sorts_rows


def test_outputs_are_pinned_to_the_current_schema_and_spec(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    with table.update_schema() as schema:
        schema.add_column("more", types.StringType())
    with table.update_spec() as spec:
        spec.add_identity("name")

    found = take(table)

    assert (found.pin.schema_id, found.pin.spec_id) == (1, 1)
    assert table.current_snapshot().schema_id == 0
    assert found.files["spec_id"].to_pylist() == [0]
    assert found.unsupported == ()


def test_version_1_has_sequence_number_zero(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t", properties={"format-version": "1"})
    pin = take(lakes.append_small_files(table, 2)).pin

    assert (pin.sequence_number, pin.format_version) == (0, 1)


def test_which_manifest_lists_which_files_is_known(local_lake: lakes.Lake) -> None:
    """Files follow one another as the manifests do, the newest first; those without live files have none."""
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 3)
    table.delete("id < 5")  # half of the first file, which is written anew
    manifests.add_position_delete(table, {table.inspect.data_files()["file_path"][0].as_py(): [0]})
    table = local_lake.catalog.load_table("db.t")
    found = take(table)
    head = table.current_snapshot()
    assert head is not None
    listed = [[e.data_file.file_path for e in row.fetch_manifest_entry(table.io)] for row in head.manifests(table.io)]
    assert found.manifest_files == tuple(map(len, listed))
    assert found.files["file_path"].to_pylist() == [path for paths in listed for path in paths]
    assert 0 in found.manifest_files
    with_files = [row for row, paths in zip(head.manifests(table.io), listed, strict=True) if paths]
    assert found.manifests == len(with_files) < len(listed)  # the others are never read, and the next commit drops them
    assert found.manifest_sizes == tuple(row.manifest_length for row in with_files)


def test_manifests_need_not_tell_how_many_files_they_list(
    local_lake: lakes.Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in manifest lists of version 1."""
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)
    assert take(table).manifest_files == (1, 1)
    monkeypatch.setattr(ManifestFile, "added_files_count", property(lambda row: None))
    found = take(table)
    assert (found.files.num_rows, found.manifests, found.manifest_files) == (2, 2, ())


def test_a_branch_has_its_own_files(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    table.append(lakes.rows(lakes.NUMBERS, 5), branch="audit")

    assert take(table, branch="audit").files.num_rows == 3
    assert take(table, branch="audit").pin.branch == "audit"
    assert take(table).files.num_rows == 2


def test_an_unknown_branch_or_a_tag_is_a_wrong_argument(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    table.manage_snapshots().create_tag(table.current_snapshot().snapshot_id, "v1").commit()

    with pytest.raises(errors.ConfigError, match=r"db\.t has no branch 'mian'; there is main"):
        take(table, branch="mian")
    with pytest.raises(errors.ConfigError, match="'v1' is a tag"):
        take(table, branch="v1")
    with pytest.raises(errors.ConfigError, match="has no branch 'x'; there are none"):
        take(lakes.make_table(local_lake.catalog, "db.empty"), branch="x")


def test_deletes_are_counted_for_every_file(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)
    assert (take(table).delete_files, take(table).deleted_rows) == (None, None)
    first, second = sorted(take(table).files["file_path"].to_pylist())
    table = manifests.add_position_delete(table, {first: [0, 1, 2]})
    table = manifests.add_position_delete(table, {first: [4], second: [5]}, file_scoped=False)
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1, 2, 3, 4], pa.int64())}))
    found = take(table)
    assert found.unsupported == ()
    assert found.delete_files is not None
    assert found.deleted_rows is not None
    figures = zip(
        found.files["file_path"].to_pylist(),
        found.delete_files.to_pylist(),
        found.deleted_rows.to_pylist(),
        strict=True,
    )
    known = {path: counts for path, *counts in figures}
    # Deletes of its own in full, a half of the two that it shares with the other file, which has as many rows.
    assert (known[first], known[second]) == ([3, 6], [2, 3])
    assert sum(sum(counts) for counts in known.values()) == 14  # nothing applies to delete files
    assert found.useless_deletes == 0


def test_deletes_that_cannot_be_applied_are_not_supported(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1], pa.int64())}))
    files = take(table).files
    delete = files["content"].to_pylist().index(table_view.EQUALITY_DELETES)

    def changed(**values: Any) -> pa.Table:
        row = {**files.slice(delete, 1).to_pylist()[0], **values}
        return pa.concat_tables([files, pa.Table.from_pylist([row], schema=table_view.FILES)])

    assert support.unsupported(table, changed(file_format="ORC")) == ()
    assert support.unsupported(table, changed(file_format="AVRO")) == ()
    assert support.unsupported(table, changed(equality_ids=[1, 99])) == (
        "Equality deletes compare fields that no schema of the table knows: [99].",
    )
    assert support.unsupported(table, changed(equality_ids=None)) == (
        "1 live equality delete file without the fields to compare.",
    )
    assert support.unsupported(table, changed(encrypted=True)) == ("1 live file with encryption keys.",)
    assert support.unsupported(table, changed(content=1, file_format="PUFFIN")) == (
        "1 live deletion vector; vectors are not applied yet.",
    )
    assert support.unsupported(table, changed(file_format="LANCE")) == (
        "1 live delete file in format LANCE, which cannot be read here.",
    )


def test_equality_deletes_on_a_dropped_column_are_supported(local_lake: lakes.Lake) -> None:
    """R23: the field is looked up in older schemas."""
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    table = manifests.add_equality_delete(table, pa.table({"name": pa.array(["a"])}))
    with table.update_schema() as update:
        update.delete_column("name")
    assert take(table).unsupported == ()


def test_other_formats_and_encrypted_files_are_not_supported(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    table = manifests.add_files(
        table,
        [
            manifests.fake_data_file(table, "a.orc", file_format=FileFormat.ORC),
            manifests.fake_data_file(table, "b.avro", file_format=FileFormat.AVRO),
            manifests.fake_data_file(table, "c.avro", file_format=FileFormat.AVRO),
            manifests.fake_data_file(table, "d.parquet", key_metadata=b"key"),
        ],
    )

    assert take(table).unsupported == (
        "1 live file with encryption keys.",
        "2 live data files in format AVRO, not Parquet.",
        "1 live data file in format ORC, not Parquet.",
    )


def test_version_3_is_not_supported_but_read(local_lake: lakes.Lake) -> None:
    """R39."""
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 2)

    found = take(manifests.as_v3(table, "db.three"))

    assert found.unsupported == ("The table has format version 3; versions 1 and 2 can be rewritten.",)
    assert found.files.num_rows == 2


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"write.format.default": "orc"}, "writes ORC files"),
        ({"encryption.key-id": "k1"}, "is encrypted"),
        ({"write.location-provider.impl": "com.example.Paths"}, r"Java class com\.example\.Paths"),
        (
            {
                "write.format.default": "PARQUET",
                "write.py-location-provider.impl": "pyiceberg.table.locations.SimpleLocationProvider",
                "write.data.path": "s3://x",
            },
            None,
        ),
        ({"write.py-location-provider.impl": "no.such.Class"}, r"Python class no\.such\.Class"),
        ({"write.object-storage.enabled": "true"}, None),
    ],
)
def test_properties_may_rule_a_rewrite_out(
    local_lake: lakes.Lake, properties: dict[str, str], reason: str | None
) -> None:
    table = with_metadata(lakes.make_table(local_lake.catalog, "db.t"), properties=properties)

    found = take(table).unsupported

    if reason is None:
        assert found == ()
    else:
        assert len(found) == 1
        assert pytest.RaisesExc(Exception, match=reason).matches(Exception(found[0]))


def test_manifests_of_an_encrypted_table_need_not_be_readable(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t", properties={"encryption.key-id": "k1"})
    lakes.append_small_files(table, 1)
    path = table.current_snapshot().manifest_list.removeprefix("file://")
    with open(path, "wb") as stream:
        stream.write(b"AGS1" + bytes(100))

    found = take(table)

    assert found.unsupported == ("The table is encrypted (encryption.key-id is set).",)
    assert found.files.num_rows == 0


def test_types_that_cannot_be_rewritten_are_named(local_lake: lakes.Lake) -> None:
    """R33."""
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    inner = types.StructType(types.NestedField(8, "shape", types.GeometryType(), required=False))
    schema = Schema(
        types.NestedField(1, "id", types.LongType(), required=False),
        types.NestedField(6, "at", types.TimestampNanoType(), required=False),
        types.NestedField(7, "place", inner, required=False),
        types.NestedField(9, "nothing", types.UnknownType(), required=False),
        schema_id=0,
    )

    found = take(with_metadata(table, schemas=[schema])).unsupported

    assert found == (
        "Columns of types that cannot be rewritten: at (timestamp_ns), place.shape (geometry), nothing (unknown).",
    )


def test_partition_fields_that_cannot_be_computed_are_named(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 1)
    specs = [
        PartitionSpec(spec_id=0),
        PartitionSpec(PartitionField(1, 1000, transforms.UnknownTransform("zorder"), "z"), spec_id=1),
        PartitionSpec(PartitionField(77, 1001, transforms.IdentityTransform(), "gone"), spec_id=2),
        PartitionSpec(PartitionField(78, 1002, transforms.IdentityTransform(), "unused"), spec_id=3),
    ]
    changed = with_metadata(table, partition_specs=specs, default_spec_id=1)
    live = take(table).files
    old = live.set_column(
        live.schema.get_field_index("spec_id"), live.schema.field("spec_id"), pa.array([2], pa.int32())
    )

    assert support.unsupported(changed, live) == (
        "Partition field z of spec 1 has a transform that is not known here: UnknownTransform(transform='zorder').",
    )
    # Files of an older spec whose column is gone can move to the current spec, but nothing can be added to theirs.
    assert support.unsupported(changed, old) == support.unsupported(changed, live)
    assert support.unwritable_specs(changed) == {2, 3}
    assert support.unsupported(with_metadata(table, partition_specs=specs, default_spec_id=2), live) == (
        "Partition spec 2 is derived from a column that the table no longer has.",
    )


def test_all_reasons_are_told_at_once(local_lake: lakes.Lake) -> None:
    table = lakes.append_small_files(
        lakes.make_table(local_lake.catalog, "db.t", properties={"encryption.key-id": "k1"}), 1
    )
    table = manifests.add_files(table, [manifests.fake_data_file(table, "a.orc", file_format=FileFormat.ORC)])
    table = manifests.add_equality_delete(table, pa.table({"id": pa.array([1], pa.int64())}))

    assert len(take(manifests.as_v3(table, "db.three")).unsupported) == 3


def test_a_dropped_partition_column_still_has_partitions(local_lake: lakes.Lake) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    with table.update_spec() as update:
        update.add_field("name", transforms.IdentityTransform(), "name")
    table.append(pa.table({"id": [1, 2], "name": ["a", None], "amount": [1.0, 2.0]}, schema=lakes.NUMBERS))
    with table.update_spec() as update:
        update.remove_field("name")
    with table.update_schema() as update:
        update.delete_column("name")

    found = take(table)

    assert sorted(found.files["partition"].to_pylist()) == ['{"name":"a"}', '{"name":null}']
    assert found.unsupported == ()
    assert found.unwritable_specs == {1}


def test_storage_that_refuses_is_not_called_damage(local_lake: lakes.Lake, tmp_path: Path) -> None:
    class Refusing:
        properties: ClassVar[dict[str, str]] = {}

        def __init__(self, error: Exception) -> None:
            self.error = error

        def new_input(self, location: str) -> Any:
            raise self.error

    for error, expected in (
        (PermissionError(13, "no"), errors.UnauthorizedError),
        (OSError("timeout"), errors.UnreachableError),
        (FileNotFoundError(2, "gone"), errors.MetadataError),
    ):
        with pytest.raises(expected, match=r"Manifest x\.avro"):
            fetch.read_bytes(Refusing(error), "x.avro", where="Manifest x.avro")
