"""The delete index gives every data file the delete files that Iceberg Java's scan gives it, on random tables with
deletes of every kind, specs that come and go, and data and deletes of the same commit."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from tests.factories import java_deletes

from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.metadata.deletes import delete_index, delete_scopes
from iceberg_compaction.metadata.manifest import live_files, snapshot_manifests
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop

Applied = dict[str, set[tuple[str, "int | None"]]]
PARTITIONS = ("a", "b")
HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"  # how Java writes a null in a partition path


@pytest.fixture(scope="module")
def catalog(java: SparkSession, java_lake: Path) -> Catalog:
    return connect.connect(
        CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    )


def create(java: SparkSession, name: str, *, version: int, partitioned_by: str = "p") -> java_deletes.JavaTable:
    java.sql(
        f"create table lake.db.{name} (id bigint, p string) using iceberg partitioned by ({partitioned_by})"
        f" tblproperties ('format-version'='{version}', 'write.delete.mode'='merge-on-read')"
    )
    return java_deletes.load(java, f"db.{name}")


def ours(catalog: Catalog, name: str) -> tuple[Applied, Applied]:
    """For each data file its delete files, and for each delete file its data files, by the index. Both are checked
    against the counts."""
    table = load_tables.load_table(catalog, name)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    files = live_files.live_files(table, snapshot_manifests.read(table.io, snapshot))
    index = delete_index.build(files, unpartitioned_specs=delete_scopes.unpartitioned(table.specs()))
    names = list(zip(files["file_path"].to_pylist(), files["content_offset"].to_pylist(), strict=True))
    counts, targets = index.counts_per_data_file(), index.live_targets()
    by_data: Applied = {}
    found = index.for_data_files(counts["row"].to_numpy()).to_pylist()
    for each, count in zip(found, counts.to_pylist(), strict=True):
        rows = [*each["position"], *each["equality"], *([] if each["dv"] is None else [each["dv"]])]
        assert len(set(rows)) == len(rows) == count["position"] + count["equality"] + count["dv"]
        by_data[names[each["row"]][0]] = {names[row] for row in rows}
    by_delete: Applied = {}
    listed = index.for_delete_files(targets["row"].to_numpy()).to_pylist()
    for each, count in zip(listed, targets["targets"].to_pylist(), strict=True):
        assert len(set(each["targets"])) == len(each["targets"]) == count
        by_delete[str(names[each["row"]])] = {names[row] for row in each["targets"]}
    return by_data, by_delete


def check(table: java_deletes.JavaTable, catalog: Catalog) -> Applied:
    """Java's answer, which is ours, both ways."""
    theirs = java_deletes.applied(table)
    by_data, by_delete = ours(catalog, table.name)
    assert by_data == theirs
    inverse: Applied = {delete: set() for delete in by_delete}
    for data, deletes in theirs.items():
        for delete in deletes:
            inverse[str(delete)].add((data, None))
    assert by_delete == inverse
    return theirs


class Writer:
    """Writes to a table at random. Every file lies in a spec and partition of its own choice among the table's."""

    def __init__(self, table: java_deletes.JavaTable, seed: int) -> None:
        self.table, self.random = table, random.Random(seed)
        self.written: list[tuple[str, str, int]] = []  # path, partition, spec of each data file
        self.count = 0

    def place(self) -> tuple[str, int]:
        """A partition path and its spec: the table's own now and then, else an older one."""
        specs = {spec.specId(): spec for spec in self.table.table.specs().values()}
        spec = specs[self.random.choice(sorted(specs))]
        values = {
            "identity": (*PARTITIONS, HIVE_NULL),
            "bucket[2]": ("0", "1"),
        }
        fields = [] if spec.isUnpartitioned() else spec.fields()  # void fields have no place in a path
        parts = [f"{field.name()}={self.random.choice(values[field.transform().toString()])}" for field in fields]
        return "/".join(parts), spec.specId()

    def data(self) -> object:
        partition, spec = self.place()
        self.count += 10
        rows = pa.table({"id": range(self.count, self.count + 10), "p": ["x"] * 10})
        file = java_deletes.data_file(self.table, rows, partition=partition, spec_id=spec)
        self.written.append((str(file.location()), partition, spec))
        return file

    def delete(self) -> object:
        kind = self.random.choice(["equality", "equality", "partition", "reference", "bounds"])
        if kind == "equality":
            partition, spec = self.place()
            keys = pa.table({"id": self.random.sample(range(self.count + 1), 1)})
            return java_deletes.equality_delete(self.table, keys, partition=partition, spec_id=spec)
        path, partition, spec = self.random.choice(self.written)
        where = {"partition": partition, "spec_id": spec}
        positions = [(path, position) for position in self.random.sample(range(10), 2)]
        if kind == "partition":
            positions += [(other, 1) for other, *place in self.written if place == [partition, spec] and other != path]
        return java_deletes.position_delete(self.table, positions, scoped=kind, **where)  # type: ignore[arg-type]

    def step(self) -> None:
        rows = [self.data() for _ in range(self.random.randint(0 if self.written else 1, 3))]
        deletes = [self.delete() for _ in range(self.random.randint(0, 5))]
        if rows or deletes:
            java_deletes.commit(self.table, rows=rows, deletes=deletes)


EVOLUTIONS = {
    4: "drop partition field p",
    7: "add partition field bucket(2, id)",
    10: "add partition field p",
}


@pytest.mark.parametrize("seed", range(3))
def test_random_tables(java: SparkSession, catalog: Catalog, seed: int) -> None:
    """Identity, unpartitioned, bucket, and bucket with identity specs; their equality deletes are global or not."""
    name = f"deletes_{seed}"
    writer = Writer(create(java, name, version=2), seed)
    for step in range(14):
        if change := EVOLUTIONS.get(step):
            java.sql(f"alter table lake.db.{name} {change}")
            writer.table.table.refresh()
        writer.step()
    found = check(writer.table, catalog)
    assert len(found) >= 10
    assert sum(map(len, found.values())) >= 20
    # Once more after data files are gone: what was theirs is dangling.
    java_deletes.remove(writer.table, [path for path, *_ in writer.written[::2]])
    assert len(java_deletes.applied(writer.table)) == len(found) // 2
    check(writer.table, catalog)


def test_a_dropped_field_of_version_1_makes_equality_deletes_global(java: SparkSession, catalog: Catalog) -> None:
    """Version 1 keeps the field as void, so that the spec has a field and is unpartitioned all the same."""
    table = create(java, "deletes_void", version=1)
    rows = pa.table({"id": [1, 2], "p": ["a", "a"]})
    table.table.newAppend().appendFile(java_deletes.data_file(table, rows, partition="p=a")).commit()
    java.sql("alter table lake.db.deletes_void drop partition field p")
    java.sql("alter table lake.db.deletes_void set tblproperties ('format-version'='2')")
    table.table.refresh()
    assert table.table.spec().fields().size() == 1
    writer = Writer(table, seed=1)
    for _ in range(5):
        writer.step()
    keys = pa.table({"id": [1]})
    java_deletes.commit(table, deletes=[java_deletes.equality_delete(table, keys)])
    assert all(check(table, catalog).values())  # the last one is everywhere


def test_deletion_vectors_supersede_position_deletes(java: SparkSession, catalog: Catalog) -> None:
    """R19: version 2 with partition-scoped position deletes, which stay when version 3 writes vectors beside them."""
    writer = Writer(create(java, "deletes_vectors", version=2), seed=5)
    for _ in range(4):
        java_deletes.commit(writer.table, rows=[writer.data(), writer.data()])
    shared = {}
    for path, partition, spec in writer.written:
        shared.setdefault((partition, spec), []).append((path, 0))
    deletes = [
        java_deletes.position_delete(writer.table, positions, partition=partition, spec_id=spec)
        for (partition, spec), positions in shared.items()
    ]
    java_deletes.commit(writer.table, deletes=deletes)
    java_deletes.commit(
        writer.table, deletes=[java_deletes.equality_delete(writer.table, pa.table({"id": [14]}), partition="p=a")]
    )
    check(writer.table, catalog)
    java.sql("alter table lake.db.deletes_vectors set tblproperties ('format-version'='3')")
    java.sql("delete from lake.db.deletes_vectors where id between 15 and 37").collect()
    java.sql("insert into lake.db.deletes_vectors select id, 'a' from range(200, 210)").collect()
    java.sql("delete from lake.db.deletes_vectors where id in (16, 18, 202)").collect()
    found = check(writer.table, catalog)
    vectors = {path for path, deletes in found.items() if any(offset is not None for _, offset in deletes)}
    assert len(vectors) >= 3
    beside = [path for path in found if path not in vectors and any("/pos-" in delete for delete, _ in found[path])]
    assert beside  # position deletes still apply where there is no vector
    assert not any("/pos-" in delete for path in vectors for delete, _ in found[path])


def test_bounds_let_java_skip_more(java: SparkSession, catalog: Catalog) -> None:
    """R24: with metrics on both sides Java leaves out an equality delete that cannot match; the index keeps it."""
    table = create(java, "deletes_bounds", version=2)
    for start in (0, 100):
        java.sql(
            f"insert into lake.db.deletes_bounds select /*+ coalesce(1) */ id, 'a' from range({start}, {start} + 9)"
        )
    near = java_deletes.equality_delete(table, pa.table({"id": [3]}), partition="p=a", metrics=True)
    java_deletes.commit(table, deletes=[near])
    theirs, (mine, _) = java_deletes.applied(table), ours(catalog, table.name)
    assert sorted(map(len, theirs.values())) == [0, 1]
    assert sorted(map(len, mine.values())) == [1, 1]
    assert all(theirs[path] <= mine[path] for path in theirs)
