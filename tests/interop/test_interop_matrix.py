"""The conflict matrix, line by line, with Iceberg Java as the other writer: what it does between our plan and our
commit, or in the middle of the commit, and what becomes of the groups, of which each is a city. Java also says what the
table holds: after our commit it must read the rows that it read after its own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from tests.factories import java_rows, racing, rewrites, runs
from tests.interop import matrix_java as java_acts
from tests.interop.matrix_java import CITIES, COMPACT, INSERT, MERGE, NEW, REWRITE_POSITIONS, equality, sql, then

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect
from iceberg_compaction.operations.rewrite_files.change import replace_files
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.interop.matrix_java import Act, Lake, Template, Writer

pytestmark = pytest.mark.interop

DELETED_BEFORE = (1, 3, 5, 9, 11)  # ids that deletes have taken before the plan, in the template `deletes`


@pytest.fixture(scope="module")
def lake(java: SparkSession, java_lake: Path) -> Iterator[Lake]:
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    catalog = connect.connect(settings)
    before = str(java.conf.get("spark.sql.shuffle.partitions"))
    java.conf.set("spark.sql.shuffle.partitions", "1")
    yield java_acts.Lake(java, catalog)
    java.conf.set("spark.sql.shuffle.partitions", before)
    catalog.close()


@pytest.fixture(scope="module")
def templates(lake: Lake) -> dict[str, Template]:
    plain = lake.template()
    gone = ", ".join(map(str, DELETED_BEFORE))
    by_partition = f"alter table {{t}} set tblproperties ({java_acts.MODES}, 'write.delete.granularity'='partition')"
    return {
        "plain": plain,
        "merge-on-read": lake.changed(plain, f"alter table {{t}} set tblproperties ({java_acts.MODES})"),
        "by partition": lake.changed(plain, by_partition),
        "version 1": lake.template(version=1),
        "deletes": lake.template(
            after=(by_partition, f"delete from {{t}} where id in ({gone})"), keep=set(range(24)) - set(DELETED_BEFORE)
        ),
        "whole": lake.template(appends=1, cities=CITIES),
        "moved": java_acts.moved(lake.template(after=("alter table {t} drop partition field city",))),
    }


@dataclass(frozen=True)
class Line:
    name: str
    act: Act
    lost: frozenset[str] = frozenset()  # cities
    why: str = ""  # in the sentence of each of these
    refused: str = ""  # in the error, where nothing can land
    on: str = "plain"  # the template
    gone: tuple[int, ...] = ()  # ids that the act deletes
    own: bool = False  # Java removes files from storage, so that the table must be the test's own


OSLO = frozenset({"Oslo"})
GONE, DELETED, ANEW = "no longer in the table", "were deleted since the plan", "created anew"
MOVES, LACKS = "moves rows into or out of its partition", "do not have all columns that it compares"
AWAY, EXPIRED = "no longer descends", "has expired"
READ = "merge-on-read"

ROWS = [
    Line("insert", sql(INSERT)),
    Line(
        "insert overwrite of an input",
        sql("insert overwrite {t} partition (city = 'Oslo') values (101, 101, 'new')"),
        OSLO,
        GONE,
        gone=(1, 5, 9),
    ),
    Line(
        "insert overwrite elsewhere",
        sql("insert overwrite {t} partition (city = 'Lima') values (103, 103, 'new')"),
        gone=(3,),
    ),
    Line(
        "insert overwrite of all",
        sql("insert overwrite {t} values (101, 'Oslo', 101, 'new')"),
        refused=GONE,
        gone=tuple(range(24)),
    ),
    Line("copy-on-write delete of an input", sql("delete from {t} where id = 1"), OSLO, GONE, gone=(1,)),
    Line("copy-on-write delete elsewhere", sql("delete from {t} where id = 3"), gone=(3,)),
    Line("copy-on-write update of an input", sql("update {t} set note = 'new' where id = 1"), OSLO, GONE),
    Line("copy-on-write merge into an input", sql(MERGE), OSLO, GONE, gone=(1,)),
    Line("partition drop of an input", sql("delete from {t} where city = 'Oslo'"), OSLO, GONE, gone=(1, 5, 21)),
    Line("partition drop elsewhere", sql("delete from {t} where city = 'Lima'"), gone=(3, 7, 23)),
    Line("truncate", sql("truncate table {t}"), refused=GONE, gone=tuple(range(24))),
    Line("merge-on-read delete of an input", sql("delete from {t} where id = 1"), OSLO, DELETED, on=READ, gone=(1,)),
    Line(
        "merge-on-read delete of two",
        sql("delete from {t} where id in (1, 2)"),
        OSLO | {"Bonn"},
        DELETED,
        on=READ,
        gone=(1, 2),
    ),
    Line("merge-on-read delete elsewhere", sql("delete from {t} where id = 3"), on=READ, gone=(3,)),
    Line(
        "merge-on-read delete of a whole file",
        sql("delete from {t} where city = 'Oslo' and id < 6"),
        OSLO,
        GONE,
        on=READ,
        gone=(1, 5),
    ),
    Line(
        "merge-on-read delete by partition",
        sql("delete from {t} where id in (1, 9)"),
        OSLO,
        DELETED,
        on="by partition",
        gone=(1, 9),
    ),
    Line(
        "merge-on-read delete by partition of new rows",
        sql(INSERT, INSERT, "delete from {t} where id in (100, 101)"),
        on="by partition",
        gone=(100, 101),
    ),
    Line("merge-on-read update of an input", sql("update {t} set note = 'new' where id = 1"), OSLO, DELETED, on=READ),
    Line("merge-on-read merge into an input", sql(MERGE), OSLO, DELETED, on=READ, gone=(1,)),
    Line("insert in version 1", sql(INSERT), on="version 1"),
    Line("delete in version 1", sql("delete from {t} where id = 1"), OSLO, GONE, on="version 1", gone=(1,)),
]

STREAMS = [
    Line(
        "position delete of a partition, naming others",
        java_acts.partition_positions(of_an_input=False),
        gone=(101, 109),
    ),
    Line(
        "position delete of a partition, naming an input",
        java_acts.partition_positions(of_an_input=True),
        OSLO,
        DELETED,
        gone=(1, 101, 109),
    ),
    Line("equality delete", equality(1, 9), gone=(1, 9)),
    Line("equality delete elsewhere", equality(3, city="Lima"), gone=(3,)),
    Line("equality delete, then append", then(equality(1, 9), sql(INSERT)), gone=(1, 9)),
    # R3: nothing older than the delete is left but what we write.
    Line("bug 10312", then(equality(1), sql(INSERT)), on="whole", gone=(1,)),
    Line("bug 10312, every row of a file", then(equality(1, 5), sql(INSERT)), on="whole", gone=(1, 5)),
    Line(
        "global equality delete",
        then(sql("alter table {t} drop partition field city"), equality(1, 2, 3, city=None, spec_id=1)),
        gone=(1, 2, 3),
    ),
    Line(
        "equality delete beside a change of spec",
        then(sql("alter table {t} add partition field bucket(2, id)", INSERT), equality(1, 9)),
        gone=(1, 9),
    ),
    Line("equality delete on another column", equality(1, 9, column="note"), gone=(1, 9)),
    Line(
        "equality delete on a column that is dropped",
        then(equality(1, 9, column="note"), sql("alter table {t} drop column note")),
        gone=(1, 9),
    ),
    Line(
        "equality delete on a column that is new",
        then(sql("alter table {t} add column more string"), equality(1, column="more")),
        OSLO,
        LACKS,
    ),
    Line("equality delete while rows move", equality(1, 9), OSLO, MOVES, on="moved", gone=(1, 9)),
    Line("global equality delete while rows move", equality(1, 2, city=None, spec_id=1), on="moved", gone=(1, 2)),
    Line("insert while rows move", sql(INSERT), on="moved"),
    Line("upsert", java_acts.upsert),
    Line("input removed and added again", java_acts.out_and_in_again, OSLO, "left the table and came back"),
]

MAINTENANCE = [
    Line("compaction of an input", sql(f"{COMPACT}, where => \"city = 'Oslo'\")"), OSLO, GONE),
    Line("compaction of others", sql(f"{COMPACT}, where => \"city = 'Lima'\")")),
    Line("compaction of others with deletes", sql(f"{COMPACT}, where => \"city = 'Lima'\")"), on="deletes"),
    Line("compaction of all", sql(f"{COMPACT})"), refused=GONE),
    Line("rewrite of manifests", sql("call lake.system.rewrite_manifests('{name}')")),
    Line("rewrite of position deletes", sql(REWRITE_POSITIONS), on="deletes", gone=DELETED_BEFORE),
    Line(
        "rewrite of new position deletes",
        sql("delete from {t} where id = 13", REWRITE_POSITIONS),
        OSLO,
        DELETED,
        on="deletes",
        gone=(*DELETED_BEFORE, 13),
    ),
    Line("other snapshots expired", then(sql(INSERT), java_acts.expire("earlier")), own=True),
    Line("planned snapshot expired", then(sql(INSERT), java_acts.expire("planned")), refused=EXPIRED, own=True),
    Line(
        "planned snapshot and inputs and spec expired",
        then(
            sql("alter table {t} drop partition field city", "truncate table {t}", INSERT),
            java_acts.expire_all_but_the_head,
        ),
        refused=EXPIRED,
        own=True,
        gone=tuple(range(24)),
    ),
]

# Upgrades are R39.
SCHEMA = [
    Line("column added", sql("alter table {t} add column more string")),
    Line("column renamed", sql("alter table {t} rename column note to remark")),
    Line("columns reordered", sql("alter table {t} alter column note first")),
    Line("column promoted", sql("alter table {t} alter column size type bigint")),
    Line("column dropped", sql("alter table {t} drop column note")),
    Line(
        "column dropped and added anew",
        sql("alter table {t} drop column note", "alter table {t} add column note string"),
    ),
    Line("partition field added", sql("alter table {t} add partition field bucket(2, id)", INSERT)),
    Line("partition field dropped", sql("alter table {t} drop partition field city", INSERT)),
    Line("write order", sql("alter table {t} write ordered by id desc", INSERT)),
    Line("properties set", sql("alter table {t} set tblproperties ('team'='them')")),
    Line(
        "version 1 upgraded",
        sql("alter table {t} set tblproperties ('format-version'='2')"),
        refused="from format version 1 to 2",
        on="version 1",
    ),
    Line(
        "version 1 upgraded and written",
        sql("alter table {t} set tblproperties ('format-version'='2')", INSERT),
        refused="from format version 1 to 2",
        on="version 1",
    ),
    Line(
        "version 2 upgraded",
        sql("alter table {t} set tblproperties ('format-version'='3')"),
        refused="from format version 2 to 3",
    ),
    Line(
        "version 2 upgraded and written",
        sql("alter table {t} set tblproperties ('format-version'='3')", INSERT),
        refused="from format version 2 to 3",
    ),
]

BRANCH, FORWARD = "alter table {t} create branch b", "call lake.system.fast_forward('{name}', 'main', 'b')"
INSERT_TO_BRANCH = f"insert into {{t}}.branch_b values {NEW}"
ROLL_BACK = "call lake.system.rollback_to_snapshot('{name}', {earlier})"

HISTORY = [
    Line("rollback", sql(ROLL_BACK), refused=AWAY, gone=tuple(range(8, 24))),
    Line("rollback and back", sql(ROLL_BACK, "call lake.system.set_current_snapshot('{name}', {planned})")),
    Line(
        "set-current elsewhere",
        sql(
            f"{BRANCH} as of version {{earlier}}",
            INSERT_TO_BRANCH,
            "call lake.system.set_current_snapshot(table => '{name}', ref => 'b')",
        ),
        refused=AWAY,
    ),
    Line(
        "replaced by a query",
        sql("create or replace table {t} using iceberg partitioned by (city) as select * from {t} where id < 9"),
        refused=AWAY,
    ),
    Line("branch and tag", sql(BRANCH, "alter table {t} create tag v as of version {planned}")),
    Line("commit to another branch", sql(BRANCH, INSERT_TO_BRANCH, "delete from {t}.branch_b where id = 1")),
    Line("fast-forward by an insert", sql(BRANCH, INSERT_TO_BRANCH, FORWARD)),
    Line(
        "fast-forward by a delete",
        sql(BRANCH, "delete from {t}.branch_b where id = 1", FORWARD),
        OSLO,
        DELETED,
        on=READ,
        gone=(1,),
    ),
    Line("cherry-pick of an append", java_acts.cherry_pick("newFastAppend", 101)),
    Line("cherry-pick of an overwrite", java_acts.cherry_pick("newReplacePartitions", 101), OSLO, GONE, gone=(1, 5)),
    Line("dropped and created anew", sql("drop table {t}", java_acts.CREATE, INSERT), refused=ANEW, gone=(1, 2)),
]

LINES = [*ROWS, *STREAMS, *MAINTENANCE, *SCHEMA, *HISTORY]
when = pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
# In the middle of the commit, every third line: tests/integration/test_commit_matrix.py has them all.
CASES = [(line, during) for place, line in enumerate(LINES) for during in (False, True)[: 1 + (place % 3 == 0)]]
UPGRADE = next(line for line in LINES if line.name == "version 2 upgraded")  # PyIceberg cannot do that one
CASES += [(UPGRADE, True)] if (UPGRADE, True) not in CASES else []


def named(line: Line, during: bool) -> str:
    return f"{line.name.replace(' ', '-')}-{'during' if during else 'before'}"


@pytest.mark.parametrize(("line", "during"), CASES, ids=[named(*case) for case in CASES])
def test_matrix(
    lake: Lake, templates: dict[str, Template], monkeypatch: pytest.MonkeyPatch, line: Line, during: bool
) -> None:
    made = lake.template() if line.own else templates[line.on]
    table, writer = lake.register(made)
    seen: list[tuple[Counter[str], int]] = []

    def act() -> None:
        line.act(writer)
        rows = writer.read()
        assert not set(rows["id"].to_pylist()) & set(line.gone)
        seen.append((java_rows.multiset(rows), writer.head()))

    interfere(monkeypatch, act, during=during)
    if line.refused:
        # Whether the catalog took the commit before it refused it, only the table could say, and that is gone (R50).
        lost = during and line.name == "dropped and created anew"
        with pytest.raises(errors.StateUnknownError if lost else errors.ConflictError, match=line.refused):
            replace_files.replace(table, made.request, runs.make_run())
        assert java_rows.multiset(writer.read()) == seen[0][0]
        assert writer.head() == seen[0][1]
    else:
        result = replace_files.replace(table, made.request, runs.make_run())
        assert java_rows.multiset(writer.read()) == seen[0][0]
        check(made.request, result, line)
        check_files(writer, made.request, result)


@when
def test_bug_10312_by_numbers(
    lake: Lake, templates: dict[str, Template], monkeypatch: pytest.MonkeyPatch, during: bool
) -> None:
    """R3: rows of number 1, an equality delete of number 2, an append of number 3; then our rows, of number 1 again."""
    made = templates["whole"]
    table, writer = lake.register(made)
    interfere(monkeypatch, lambda: then(equality(1), sql(INSERT))(writer), during=during)
    result = replace_files.replace(table, made.request, runs.make_run())
    query = "select data_file.content c, data_file.file_path p, sequence_number n from {t}.entries where status < 2"
    entries = lake.session.sql(query.replace("{t}", f"lake.{writer.name}")).collect()
    ours = {file.file_path for file in made.request.added}
    assert (result.sequence_number, result.conflicts, result.removed_delete_files) == (4, {}, 0)
    assert {entry.n for entry in entries if entry.p in ours} == {1}
    assert [entry.n for entry in entries if entry.c == 2] == [2]
    assert {entry.n for entry in entries if entry.c == 0 and entry.p not in ours} == {3}


@when
def test_a_table_renamed_meanwhile_is_left_alone(
    lake: Lake, templates: dict[str, Template], monkeypatch: pytest.MonkeyPatch, during: bool
) -> None:
    """Nobody can look up any more whether a commit that was under way has landed."""
    made = templates["plain"]
    table, writer = lake.register(made)
    renamed = java_acts.Writer(lake, f"{writer.name}_renamed", made)
    interfere(monkeypatch, lambda: writer.sql(f"alter table {{t}} rename to {renamed.name}"), during=during)
    with pytest.raises(errors.StateUnknownError if during else errors.NoSuchTableError):
        replace_files.replace(table, made.request, runs.make_run())
    assert renamed.head() == made.planned
    assert sorted(renamed.read()["id"].to_pylist()) == list(range(24))


def interfere(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object], *, during: bool) -> None:
    """Now; or when we have validated, right before our publication."""
    if during:
        racing.before_publishing(monkeypatch, act)
    else:
        act()


def check(request: replace_files.ReplaceRequest, result: replace_files.CommitResult, line: Line) -> None:
    assert cities(request, result.landed) == cities(request, request.ids) - line.lost
    assert cities(request, result.conflicts) == line.lost
    assert all(line.why in sentence for sentence in result.conflicts.values())


def cities(request: replace_files.ReplaceRequest, chosen: Iterable[int]) -> frozenset[str]:
    texts = [group.partitions[0][1] for group in request.groups if group.id in set(chosen)]
    return frozenset(city for city in CITIES if any(city in text for text in texts))


def check_files(writer: Writer, request: replace_files.ReplaceRequest, result: replace_files.CommitResult) -> None:
    """Java has our snapshot for head, and of our files those of the groups that landed are in it."""
    snapshot = writer.load().table.currentSnapshot()
    assert (snapshot.snapshotId(), snapshot.operation()) == (result.snapshot_id, "replace")
    live = {file.file_path for file in rewrites.live_data_files(writer.lake.catalog.load_table(writer.name))}
    landed = [group for group in request.groups if group.id in result.landed]
    assert {file.file_path for group in landed for file in group.added} == live & {f.file_path for f in request.added}
    assert not live & {path for group in landed for path in group.removed["file_path"].to_pylist()}
