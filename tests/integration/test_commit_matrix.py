"""The conflict matrix, line by line: what another writer does between our plan and our commit, or in the middle of the
commit, and what becomes of the groups, of which each is a city. Rows are compared with a plain reader of ours that
applies every delete; PyIceberg's does not know equality deletes. Inputs that are gone are R5, new position deletes R6,
histories that do not lead to the plan R7, upgrades R39.

Lines that need a table of their own are elsewhere: equality deletes beside a change of spec, global ones and those on a
dropped column in test_commit_deletes; a branch that is gone, a table dropped and made anew in test_commit_conflicts."""

from __future__ import annotations

import uuid
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.manifest import ManifestEntry, ManifestEntryStatus, write_manifest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.refs import SnapshotRefType
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import RemovePartitionSpecsUpdate, RemoveSnapshotsUpdate, SetSnapshotRefUpdate
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, LongType, NestedField, StringType
from tests.factories import manifests, racing, rewrites, runs
from tests.factories.lake import close, file_lake, make_table

from iceberg_compaction import errors
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "city", StringType()),
    NestedField(3, "size", IntegerType()),
    NestedField(4, "note", StringType()),
)
BY_CITY = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "city"), spec_id=0)
CITIES = ("Rome", "Oslo", "Bonn")  # a group each; Lima is rewritten by nobody
PLANNED, EARLIER = "planned", "earlier"  # tags


def rows(first: int, cities: tuple[str, ...] = (*CITIES, "Lima")) -> pa.Table:
    ids = range(first, first + 2 * len(cities))
    return pa.table(
        {
            "id": pa.array(ids, pa.int64()),
            "city": [cities[i % len(cities)] for i in ids],
            "size": pa.array(ids, pa.int32()),
            "note": [f"n{i}" for i in ids],
        }
    )


# ---- the table, made once; each test gets it under a name of its own


@dataclass(frozen=True)
class Template:
    catalog: Catalog
    location: str  # of metadata
    request: replace_files.ReplaceRequest

    def table(self) -> Table:
        return self.catalog.register_table(f"db.t{uuid.uuid4().hex}", self.location)


def template(catalog: Catalog, version: int) -> Template:
    table = make_table(
        catalog, f"db.template{version}", SCHEMA, spec=BY_CITY, properties={"format-version": str(version)}
    )
    for number in range(3):
        table.append(rows(number * 8))
    first, planned = table.snapshots()[0].snapshot_id, table.snapshots()[-1].snapshot_id
    table.manage_snapshots().create_tag(first, EARLIER).create_tag(planned, PLANNED).commit()
    ours = [file for file in rewrites.live_data_files(table) if file.partition[0] != "Lima"]
    request = rewrites.rewrite_request(table, ours, apart=True)
    return Template(catalog=catalog, location=table.metadata_location, request=request)


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Template]]:
    lake = file_lake(tmp_path_factory.mktemp("matrix"))
    yield {version: template(lake.catalog, version) for version in (1, 2)}
    close(lake)


# ---- what others do


def files_of(table: Table, city: str) -> list[str]:
    return [file.file_path for file in rewrites.live_data_files(table) if file.partition[0] == city]


def again(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def delete_new_rows(table: Table) -> None:
    """A streaming writer: appends to our partition and deletes from what it has just written (#4996)."""
    before = set(files_of(table, "Oslo"))
    table.append(rows(100, ("Oslo",)))
    (new,) = set(files_of(again(table), "Oslo")) - before
    manifests.add_position_delete(again(table), {new: [0]}, file_scoped=False)


def delete_from_both(table: Table) -> None:
    before = set(files_of(table, "Oslo"))
    table.append(rows(100, ("Oslo",)))
    (new,) = set(files_of(again(table), "Oslo")) - before
    manifests.add_position_delete(again(table), {new: [0], min(before): [1]}, file_scoped=False)


def equality_delete(table: Table) -> None:
    manifests.add_equality_delete(
        table, pa.table({"id": pa.array([1, 9], pa.int64())}), like=files_of(table, "Oslo")[0]
    )


def equality_delete_then_append(table: Table) -> None:
    equality_delete(table)
    again(table).append(rows(100))


def out_and_in_again(table: Table) -> None:
    """Rows are deleted, their files leave, and come back with newer numbers: the rows are back, too."""
    files = [file for file in rewrites.live_data_files(table) if file.partition[0] == "Oslo"]
    equality_delete(table)
    again(table).delete("city = 'Oslo'")
    manifests.add_files(again(table), files)


def compact(table: Table, city: str) -> None:
    chosen = [file for file in rewrites.live_data_files(table) if file.partition[0] == city]
    replace_files.replace(table, rewrites.rewrite_request(table, chosen), runs.make_run())


def rewrite_manifests(table: Table) -> None:
    """All manifests as one, by PyIceberg's writer."""
    head = table.current_snapshot()
    assert head is not None
    snapshot_id = table.metadata.new_snapshot_id()
    output = table.io.new_output(f"{table.location()}/metadata/{uuid.uuid4()}-m0.avro")
    with write_manifest(2, table.spec(), table.schema(), output, snapshot_id, "gzip") as writer:
        for row in head.manifests(table.io):
            for entry in row.fetch_manifest_entry(table.io):
                writer.existing(
                    ManifestEntry.from_args(
                        status=ManifestEntryStatus.EXISTING,
                        snapshot_id=entry.snapshot_id,
                        sequence_number=entry.sequence_number,
                        file_sequence_number=entry.file_sequence_number,
                        data_file=entry.data_file,
                    )
                )
    manifests.commit_manifests(
        table, snapshot_id, [writer.to_manifest_file()], operation=Operation.REPLACE, keep_head=False
    )


def update_schema(table: Table, change: Callable[[Any], object]) -> None:
    with table.update_schema(allow_incompatible_changes=True) as update:
        change(update)


def add_with_default(table: Table) -> None:
    update_schema(table, lambda u: u.add_column("more", StringType(), default_value="x"))
    assert again(table).schema().find_field("more").initial_default == "x"


def change_spec(table: Table) -> None:
    with table.update_spec() as update:
        update.add_identity("size")
    again(table).append(rows(100))


def remove_old_spec(table: Table) -> None:
    """What `clean_expired_metadata` would do if no file of the spec were left."""
    with table.update_spec() as update:
        update.remove_field("city")
    _commit(again(table), RemovePartitionSpecsUpdate(spec_ids=[0]))


def change_order(table: Table) -> None:
    with table.update_sort_order() as update:
        update.asc("id", IdentityTransform())


def upgrade(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)


def set_properties(table: Table) -> None:
    with table.transaction() as transaction:
        transaction.set_properties({"owner": "them"})


def snapshot_of(table: Table, tag: str) -> int:
    return table.metadata.refs[tag].snapshot_id


def expire(table: Table, *, planned: bool) -> None:
    """PyIceberg expires metadata only, and not what a tag holds."""
    table.append(rows(100))
    table = again(table)
    tag = PLANNED if planned else EARLIER
    gone = snapshot_of(table, tag)
    table.manage_snapshots().remove_tag(tag).commit()
    _commit(again(table), RemoveSnapshotsUpdate(snapshot_ids=[gone]))


def roll_back(table: Table) -> None:
    table.manage_snapshots().rollback_to_snapshot(snapshot_of(table, EARLIER)).commit()


def set_current(table: Table) -> None:
    """A snapshot beside ours: of a branch that left ours earlier."""
    table.manage_snapshots().create_branch(snapshot_of(table, EARLIER), "b").commit()
    again(table).append(rows(100), branch="b")
    table = again(table)
    head = table.metadata.snapshot_by_name("b")
    assert head is not None
    table.manage_snapshots().set_current_snapshot(head.snapshot_id).commit()


def other_branch(table: Table) -> None:
    table.manage_snapshots().create_branch(snapshot_of(table, PLANNED), "b").commit()
    again(table).append(rows(500), branch="b")
    again(table).delete("city = 'Oslo'", branch="b")


def tag(table: Table) -> None:
    table.manage_snapshots().create_tag(snapshot_of(table, PLANNED), "v").commit()


def fast_forward(table: Table, work: Callable[[Table], object]) -> None:
    """The work of a branch becomes ours: what it brought counts as if it had been done here."""
    table.manage_snapshots().create_branch(snapshot_of(table, PLANNED), "b").commit()
    work(again(table))
    table = again(table)
    head = table.metadata.snapshot_by_name("b")
    assert head is not None
    _commit(table, SetSnapshotRefUpdate(snapshot_id=head.snapshot_id, ref_name="main", type=SnapshotRefType.BRANCH))


def _commit(table: Table, *updates: Any) -> None:
    table.catalog.commit_table(table, (), updates)


# ---- the matrix


@dataclass(frozen=True)
class Line:
    name: str
    act: Callable[[Table], object]
    lost: frozenset[str] = frozenset()  # cities
    why: str = ""  # in the sentence of each of these
    refused: str = ""  # in the error, where nothing can land
    version: int = 2


OSLO = frozenset({"Oslo"})
GONE, DELETED = "no longer in the table", "were deleted since the plan"

LINES = [
    Line("append", lambda t: t.append(rows(100))),
    Line("overwrite of an input", lambda t: t.overwrite(rows(1, ("Oslo",)), "id = 1"), OSLO, GONE),
    Line("overwrite elsewhere", lambda t: t.overwrite(rows(3, ("Lima",)), "id = 3")),
    Line("copy-on-write delete of an input", lambda t: t.delete("id = 1"), OSLO, GONE),
    Line("copy-on-write delete of two", lambda t: t.delete("id in (1, 2)"), OSLO | {"Bonn"}, GONE),
    Line("partition drop of an input", lambda t: t.delete("city = 'Oslo'"), OSLO, GONE),
    Line("partition drop elsewhere", lambda t: t.delete("city = 'Lima'")),
    Line(
        "position delete of an input",
        lambda t: manifests.add_position_delete(t, {files_of(t, "Oslo")[0]: [0]}),
        OSLO,
        DELETED,
    ),
    Line("position delete elsewhere", lambda t: manifests.add_position_delete(t, {files_of(t, "Lima")[0]: [0]})),
    Line("position delete of a partition, naming an input", delete_from_both, OSLO, DELETED),
    Line("position delete of a partition, naming others", delete_new_rows),
    Line("equality delete", equality_delete),
    Line("equality delete, then append", equality_delete_then_append),
    Line("compaction of an input", lambda t: compact(t, "Oslo"), OSLO, GONE),
    Line("compaction of others", lambda t: compact(t, "Lima")),
    Line("inputs removed and added again", out_and_in_again, OSLO, "left the table and came back"),
    Line("rewrite of manifests", rewrite_manifests),
    Line("column added", lambda t: update_schema(t, lambda u: u.add_column("more", StringType()))),
    Line("column with a default added", add_with_default),
    Line("column renamed", lambda t: update_schema(t, lambda u: u.rename_column("note", "remark"))),
    Line("columns reordered", lambda t: update_schema(t, lambda u: u.move_first("note"))),
    Line("column promoted", lambda t: update_schema(t, lambda u: u.update_column("size", LongType()))),
    Line("column dropped", lambda t: update_schema(t, lambda u: u.delete_column("note"))),
    Line("partition spec changed", change_spec),
    Line("partition spec removed", remove_old_spec, refused="Partition spec 0 was removed"),
    Line("sort order changed", change_order),
    Line("properties set", set_properties),
    Line("format upgraded", upgrade, refused="from format version 1 to 2", version=1),
    Line("other snapshots expired", lambda t: expire(t, planned=False)),
    Line("planned snapshot expired", lambda t: expire(t, planned=True), refused="has expired"),
    Line("rollback", roll_back, refused="no longer descends"),
    Line("set-current elsewhere", set_current, refused="no longer descends"),
    Line("commit to another branch", other_branch),
    Line("tag", tag),
    Line("fast-forward by an append", lambda t: fast_forward(t, lambda b: b.append(rows(100), branch="b"))),
    Line(
        "fast-forward by a delete",
        lambda t: fast_forward(t, lambda b: b.delete("id = 1", branch="b")),
        OSLO,
        GONE,
    ),
]


@pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
@pytest.mark.parametrize("line", LINES, ids=[line.name.replace(" ", "-") for line in LINES])
def test_matrix(templates: dict[int, Template], monkeypatch: pytest.MonkeyPatch, line: Line, during: bool) -> None:
    made = templates[line.version]
    table, request = made.table(), made.request
    left = avro_files(table)
    seen: list[list[int]] = []

    def act() -> None:
        line.act(again(table))
        seen.append(visible(again(table)))

    if during:
        racing.before_publishing(monkeypatch, act)
    else:
        act()
    if line.refused:
        with pytest.raises(errors.ConflictError, match=line.refused):
            replace_files.replace(table, request, runs.make_run())
    else:
        result = replace_files.replace(table, request, runs.make_run())
        assert names(request, result.landed) == frozenset(CITIES) - line.lost
        assert names(request, tuple(result.conflicts)) == line.lost
        assert all(line.why in sentence for sentence in result.conflicts.values())
        assert again(table).metadata.snapshot_by_name("main").snapshot_id == result.snapshot_id  # type: ignore[union-attr]
        live = {file.file_path for file in rewrites.live_data_files(again(table))}
        landed = {file.file_path for group in request.groups if group.id in result.landed for file in group.added}
        assert landed <= live
        assert not live & ({file.file_path for file in request.added} - landed)
    assert visible(again(table)) == seen[0]
    assert avro_files(table) - left <= avro_files_in_use(table)


# ---- a plain reader


def visible(table: Table) -> list[int]:
    """The ids of the rows of the main branch, every delete applied as the specification has it."""
    snapshot = table.metadata.snapshot_by_name("main")
    assert snapshot is not None
    entries = [
        (entry, row.partition_spec_id)
        for row in snapshot.manifests(table.io)
        for entry in row.fetch_manifest_entry(table.io)
    ]
    data = [(entry, spec_id) for entry, spec_id in entries if entry.data_file.content == 0]
    positions: dict[str, set[int]] = defaultdict(set)
    for entry, _ in entries:
        if entry.data_file.content == 1:
            for row in read(table, entry).to_pylist():
                positions[row["file_path"]].add(row["pos"])
    found: list[int] = []
    for entry, spec_id in data:
        gone = {
            deleted
            for delete, delete_spec in entries
            if delete.data_file.content == 2
            and (delete_spec, delete.data_file.partition) == (spec_id, entry.data_file.partition)
            and (delete.sequence_number or 0) > (entry.sequence_number or 0)
            for deleted in read(table, delete)["id"].to_pylist()
        }
        ids = read(table, entry)["id"].to_pylist()
        dead = positions[entry.data_file.file_path]
        found += [value for at, value in enumerate(ids) if at not in dead and value not in gone]
    return sorted(found)


def read(table: Table, entry: ManifestEntry) -> pa.Table:
    with table.io.new_input(entry.data_file.file_path).open() as stream:
        return pq.read_table(stream)


def names(request: replace_files.ReplaceRequest, chosen: tuple[int, ...]) -> frozenset[str]:
    texts = [group.partitions[0][1] for group in request.groups if group.id in chosen]
    return frozenset(city for city in CITIES if any(city in text for text in texts))


def avro_files(table: Table) -> set[str]:
    return {f"file://{path}" for path in Path(table.location().removeprefix("file://")).rglob("*.avro")}


def avro_files_in_use(table: Table) -> set[str]:
    snapshots = again(table).snapshots()
    used = {row.manifest_path for snapshot in snapshots for row in snapshot.manifests(table.io)}
    return used | {snapshot.manifest_list for snapshot in snapshots}
