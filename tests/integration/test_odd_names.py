"""Names that are no identifiers: tables are partitioned by them, and delete files compare them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema, make_compatible_name
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform, TruncateTransform
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import delete_files, manifests, storage
from tests.factories import lake as lakes

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from pyiceberg.table import Table


def equality_delete(table: Table, value: str) -> Table:
    """In the partition of the value; in Avro, which has rules of its own for names."""
    field = table.schema().fields[1]
    rows = [{make_compatible_name(field.name): value}]
    path = Path(table.location().removeprefix("file://")) / "data" / "deletes.avro"
    made = delete_files.equality_delete(path, rows, Schema(field), [2], sequence_number=0, file_format="AVRO")
    file = DataFile.from_args(
        content=DataFileContent.EQUALITY_DELETES,
        file_path=path.as_uri(),
        file_format=FileFormat.AVRO,
        partition=Record(value),
        record_count=made.record_count,
        file_size_in_bytes=made.file_size_in_bytes,
        equality_ids=[2],
    )
    file.spec_id = table.spec().spec_id
    return manifests.add_files(table, [file], operation=Operation.DELETE)


@pytest.mark.parametrize("name", ["straße", "日本", "x.y", "a b", "1x", "a/b=c"])
def test_tables_with_odd_names(local_lake: lakes.Lake, name: str) -> None:
    schema = Schema(NestedField(1, "id", LongType()), NestedField(2, name, StringType()))
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), name))
    table = lakes.make_table(local_lake.catalog, "db.t", schema, spec=spec)
    for number in range(4):
        table.append(pa.table({"id": [number, number + 10, number + 20], name: ["ü", "b", None]}))
    expected = [row for row in table.scan().to_arrow().to_pylist() if row[name] != "b"]
    table = equality_delete(table, "b")
    compactor = Compactor(local_lake.settings, "full", engine="inline", options={"min-input-files": 2})

    outcome = compactor.compact_table("db.t")

    assert (outcome.kind, outcome.deleted_rows) == (Kind.COMPACTED, 4), outcome.sentence
    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == storage.row_multiset(pa.Table.from_pylist(expected))
    with table.update_spec() as update:
        update.add_field(name, TruncateTransform(1), f"{name} 1")
    compactor.compact_table("db.t")  # perhaps into the new spec
    assert compactor.compact_table("db.t").kind is Kind.HEALTHY
    everything = Compactor(local_lake.settings, "full", engine="inline", options={"rewrite-all": True})
    assert everything.compact_table("db.t").kind is Kind.COMPACTED
    assert everything.rewrite_manifests("db.t").kind in (Kind.COMPACTED, Kind.HEALTHY)
    table.refresh()
    assert storage.row_multiset(table.scan().to_arrow()) == storage.row_multiset(pa.Table.from_pylist(expected))


@pytest.mark.parametrize("name", ["x.y", 'say "hi"', "a/b", "..", "a+b%2Fc ü"])
def test_tables_whose_own_name_is_odd(local_lake: lakes.Lake, name: str) -> None:
    table = local_lake.catalog.create_table(("db", name), lakes.NUMBERS)
    lakes.append_small_files(table, 2)
    if name == "x.y":  # what it would be taken for
        local_lake.catalog.create_namespace(("db", "x"))
        other = lakes.append_small_files(local_lake.catalog.create_table(("db", "x", "y"), lakes.NUMBERS), 2)
    compactor = Compactor(local_lake.settings, "full", engine="inline", options={"min-input-files": 2})
    (listed,) = [one for one in compactor.list_tables() if one != "db.x.y"]

    outcome = compactor.compact_table(listed)

    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert len(local_lake.catalog.load_table(("db", name)).inspect.files()) == 1
    if name == "x.y":
        assert len(other.refresh().inspect.files()) == 2
