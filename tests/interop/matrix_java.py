"""Iceberg Java as the other writer of the conflict matrix: the tables that the lines of the matrix play on, each with
a plan that was made for it, and what Java does to them in the meantime."""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.factories import java_deletes, java_rows, rewrites

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa
    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table
    from pyspark.sql import SparkSession
    from tests.factories.java_deletes import JavaTable

    from iceberg_compaction.operations.rewrite_files.change.replace_files import ReplaceRequest

CITIES = ("Rome", "Oslo", "Bonn", "Lima")  # the city of an id is its remainder; Lima is rewritten by nobody
OURS = frozenset(CITIES) - {"Lima"}
CREATE = "create table {t} (id bigint, city string, size int, note string) using iceberg partitioned by (city)"
UNSHUFFLED = ", ".join(  # a shuffle of a few rows takes longer than all the rest
    f"'write.{verb}distribution-mode'='none'" for verb in ("", "delete.", "update.", "merge.")
)
MODES = ", ".join(f"'write.{verb}.mode'='merge-on-read'" for verb in ("delete", "update", "merge"))
Inputs: TypeAlias = dict[str, list[str]]


def some(ids: Iterable[int]) -> list[dict[str, Any]]:
    return [{"id": i, "city": CITIES[i % 4], "size": i, "note": f"n{i}"} for i in ids]


# ---- the tables, each made once; every test gets one under a name of its own


@dataclass(frozen=True)
class Template:
    location: str  # of metadata
    request: ReplaceRequest
    earlier: int  # the first snapshot
    planned: int
    inputs: Inputs  # the data files of each city, in the order of the appends


@dataclass(frozen=True)
class Lake:
    session: SparkSession
    catalog: Catalog

    def sql(self, name: str, *statements: str) -> None:
        for statement in statements:
            self.session.sql(statement.replace("{t}", f"lake.{name}").replace("{name}", name)).collect()

    def made(self, *, version: int = 2, appends: int = 3, after: Sequence[str] = ()) -> tuple[str, Inputs]:
        """A table of eight rows per append, and its data files by city."""
        name = f"db.made{uuid.uuid4().hex}"
        self.sql(name, f"{CREATE} tblproperties ('format-version'='{version}', {UNSHUFFLED})")
        java = java_deletes.load(self.session, name)
        inputs: Inputs = {city: [] for city in CITIES}
        for number in range(appends):
            for file in java_rows.append(java, some(range(number * 8, number * 8 + 8))):
                inputs[java.table.spec().partitionToPath(file.partition()).removeprefix("city=")].append(
                    str(file.location())
                )
        self.sql(name, *after)
        return name, inputs

    def template(self, *, cities: Iterable[str] = OURS, keep: Iterable[int] | None = None, **how: Any) -> Template:
        """Such a table, and the request to rewrite some of its cities. `keep`: the ids that deletes have left."""
        name, inputs = self.made(**how)
        table = self.catalog.load_table(name)
        chosen = [file for file in rewrites.live_data_files(table) if file.partition[0] in cities]
        request = rewrites.rewrite_request(table, chosen, apart=True, keep=None if keep is None else set(keep))
        return Template(
            location=table.metadata_location,
            request=request,
            earlier=table.snapshots()[0].snapshot_id,
            planned=request.pin.snapshot_id,
            inputs=inputs,
        )

    def changed(self, made: Template, *statements: str) -> Template:
        """The same plan on a table whose properties differ."""
        table, writer = self.register(made)
        writer.sql(*statements)
        return dataclasses.replace(made, location=table.refresh().metadata_location)

    def register(self, made: Template) -> tuple[Table, Writer]:
        """The table under a new name, and Java's hand on it."""
        name = f"db.t{uuid.uuid4().hex}"
        return self.catalog.register_table(name, made.location), Writer(self, name, made)


def moved(made: Template) -> Template:
    """R4: the rewrite takes rows from the partitions of the old spec to the new one, which has none."""
    groups = tuple(
        dataclasses.replace(
            group, added=tuple(file.model_copy(update={"spec_id": 1, "partition": "{}"}) for file in group.added)
        )
        for group in made.request.groups
    )
    assert all(group.moved for group in groups)
    return dataclasses.replace(made, request=dataclasses.replace(made.request, groups=groups))


# ---- what Java does


@dataclass(frozen=True)
class Writer:
    """Iceberg Java at work on one table."""

    lake: Lake
    name: str
    made: Template

    def sql(self, *statements: str) -> None:
        known = {"{earlier}": self.made.earlier, "{planned}": self.made.planned}
        for statement in statements:
            for key, snapshot_id in known.items():
                statement = statement.replace(key, str(snapshot_id))
            self.lake.sql(self.name, statement)

    def load(self) -> JavaTable:
        return java_deletes.load(self.lake.session, self.name)

    def read(self) -> pa.Table:
        return self.lake.session.table(f"lake.{self.name}").toArrow()

    def head(self) -> int:
        found: int = self.load().table.currentSnapshot().snapshotId()
        return found


Act: TypeAlias = Callable[[Writer], object]
NEW = "(100, 'Rome', 100, 'new'), (101, 'Oslo', 101, 'new'), (102, 'Bonn', 102, 'new'), (103, 'Lima', 103, 'new')"
INSERT = f"insert into {{t}} values {NEW}"
COMPACT = "call lake.system.rewrite_data_files(table => '{name}', options => map('rewrite-all', 'true')"
REWRITE_POSITIONS = "call lake.system.rewrite_position_delete_files('{name}', map('rewrite-all', 'true'))"
MERGE = (
    "merge into {t} t using (select id, 'Oslo' city from values (1), (101) as v(id)) s on t.id = s.id"
    " when matched then delete when not matched then insert (id, city) values (s.id, s.city)"
)
PICK = "call lake.system.cherrypick_snapshot('{name}', {snapshot})"


def sql(*statements: str) -> Act:
    return lambda writer: writer.sql(*statements)


def then(*acts: Act) -> Act:
    def every(writer: Writer) -> None:
        for act in acts:
            act(writer)

    return every


def equality(*ids: int, city: str | None = "Oslo", column: str = "id", spec_id: int = 0) -> Act:
    """An equality delete by a row delta, as Flink writes them; without a city it is for all of the table."""

    def act(writer: Writer) -> None:
        java = writer.load()
        keys: list[dict[str, Any]] = [{column: i if column == "id" else f"n{i}"} for i in ids]
        place = f"city={city}" if city else ""
        delete = java_rows.equality_delete(java, keys, [column], partition=place, spec_id=spec_id)
        java_deletes.commit(java, deletes=[delete])

    return act


def upsert(writer: Writer) -> None:
    """One commit of a streaming writer: rows, an equality delete of their old versions, and a position delete of what
    it has written twice."""
    java = writer.load()
    first, second = (java_rows.data_files(java, some(ids))[0] for ids in ((1, 5), (1, 101)))
    old = java_rows.equality_delete(java, [{"id": 1}, {"id": 5}], ["id"], partition="city=Oslo")
    again = java_rows.position_delete(java, [(str(first.location()), 0)], partition="city=Oslo")
    java_deletes.commit(java, rows=[first, second], deletes=[old, again])


def partition_positions(*, of_an_input: bool) -> Act:
    """A position delete for a partition: of rows just written (#4996), and perhaps of one of ours."""

    def act(writer: Writer) -> None:
        java = writer.load()
        files = [java_rows.data_files(java, some(ids))[0] for ids in ((101, 105), (109, 113))]
        positions = [(str(file.location()), 0) for file in files]
        if of_an_input:
            positions.append((writer.made.inputs["Oslo"][0], 0))
        delete = java_rows.position_delete(java, positions, partition="city=Oslo")
        assert not java.iceberg.util.ContentFileUtil.isFileScoped(delete)
        java_deletes.commit(java, rows=files, deletes=[delete])

    return act


def out_and_in_again(writer: Writer) -> None:
    """An input leaves, the row is deleted, and the same file comes back with a newer number: the row is back too."""
    java = writer.load()
    path = writer.made.inputs["Oslo"][0]
    tasks = java.table.newScan().planFiles()
    listed = java.iceberg.relocated.com.google.common.collect.Lists.newArrayList(tasks)
    tasks.close()
    (file,) = (task.file().copy() for task in listed if str(task.file().location()) == path)
    java_deletes.remove(java, [path])
    equality(1, 9)(writer)
    java.table.refresh()
    java.table.newFastAppend().appendFile(file).commit()


def expire(which: str) -> Act:
    """One snapshot, with all files that only it refers to."""
    return lambda w: w.load().table.expireSnapshots().expireSnapshotId(getattr(w.made, which)).commit()


def expire_all_but_the_head(writer: Writer) -> None:
    """And the specs that nothing is left of."""
    expiry = writer.load().table.expireSnapshots().expireOlderThan(2**62).retainLast(1)
    expiry.cleanExpiredMetadata(True).commit()


def cherry_pick(change: str, *ids: int) -> Act:
    """Staged beside the branch, which goes on; then picked on top of it."""

    def act(writer: Writer) -> None:
        java = writer.load()
        staged = getattr(java.table, change)()
        for file in java_rows.data_files(java, some(ids)):
            staged = staged.appendFile(file) if change == "newFastAppend" else staged.addFile(file)
        staged.stageOnly().commit()
        java.table.refresh()
        snapshot_id = max(java.table.snapshots(), key=lambda snapshot: snapshot.sequenceNumber()).snapshotId()
        writer.sql("insert into {t} values (107, 'Lima', 107, 'new')", PICK.replace("{snapshot}", str(snapshot_id)))

    return act
