"""After the partition spec of a table changed: rows are gathered per new partition, however many files, old partitions,
tasks and cores there are, so that each new partition gets the files that its bytes need and no more (R31, R32, R56)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, NestedField, StringType, TimestampType
from tests.factories import manifests, storage, work
from tests.factories.lake import local_catalog, make_table

from iceberg_compaction import Kind, Policy
from iceberg_compaction.execute.engines.fake_engine import FakeEngine
from iceberg_compaction.execute.worker import execute_task
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.file_group import Spread

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from iceberg_compaction import Outcome
    from iceberg_compaction.execute.engine_door import TaskEnd
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

SCHEMA = Schema(
    NestedField(1, "id", LongType()),
    NestedField(2, "k", LongType()),
    NestedField(3, "word", StringType()),
    NestedField(4, "at", TimestampType()),
)
_HOUR, _EPOCH = 3_600_000_000, -5 * 24 * 3_600_000_000  # across 1970
_AT = pa.timestamp("us")
BY_WORD = PartitionSpec(PartitionField(3, 1000, IdentityTransform(), "word"), spec_id=0)


def current(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def rows(table: Table) -> Counter[str]:
    return storage.row_multiset(current(table).scan().to_arrow())


def fill(table: Table, files: int, each: int, words: int = 1) -> None:
    """So many commits, each of the values 0 … `each` - 1 of `k`."""
    for number in range(files):
        ids = range(number * each, (number + 1) * each)
        columns = {"id": pa.array(ids, pa.int64()), "k": pa.array([i % each for i in ids], pa.int64())}
        hours = pa.array([_EPOCH + 3 * _HOUR * i for i in ids], pa.int64()).view(pa.timestamp("us"))
        table.append(pa.table(columns | {"word": [f"w{i % words}" for i in ids], "at": hours}))


def move(table: Table, *added: tuple[str, Any], dropped: tuple[str, ...] = ()) -> None:
    """Another spec."""
    with current(table).update_spec() as update:
        for name in dropped:
            update.remove_field(name)
        for source, transform in added:
            update.add_field(source, transform)


def plan_of(table: Table, policy: Policy) -> Plan:
    return work.plan_table(table.catalog, "db.t", policy, wiring.new_run())


def compact(table: Table, policy: Policy, engine: FakeEngine) -> Outcome:
    return work.compact_table(table.catalog, "db.t", policy, engine, wiring.new_run())


def files_by_partition(table: Table) -> dict[str, list[int]]:
    """The sizes of the live files of each partition of the current spec; old specs under their number."""
    found = defaultdict(list)
    now = current(table)
    for file in now.inspect.files().to_pylist():
        place = str(file["partition"]) if file["spec_id"] == now.spec().spec_id else f"spec {file['spec_id']}"
        found[place].append(file["file_size_in_bytes"])
    return dict(found)


def check(table: Table, policy: Policy, cores: int, expected: int) -> list[int]:
    """One run makes one file for each of so many partitions, the next does nothing; how many tasks each round had."""
    before, planned = rows(table), plan_of(table, policy)
    engine = FakeEngine(cores=cores)
    outcome = compact(table, policy, engine)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert rows(table) == before
    found = files_by_partition(table)
    assert {len(sizes) for sizes in found.values()} == {1}, found
    assert len(found) == expected == planned.output_files == sum(group.new_partitions for group in planned.groups)
    assert storage.referenced_data_files(current(table)) >= {
        path for path in storage.files_under(table) if path.endswith(".parquet")
    }
    assert plan_of(table, policy).empty
    return [len(job.tasks) for job in engine.jobs]


@pytest.mark.parametrize(
    ("files", "partitions", "target"), [(20, 20, 3000), pytest.param(24, 200, 6000, marks=pytest.mark.lab)]
)
def test_each_new_partition_gets_one_file_however_many_tasks_feed_it(
    tmp_path: Path, files: int, partitions: int, target: int
) -> None:
    table = make_table(local_catalog(tmp_path), "db.t", SCHEMA)
    fill(table, files, partitions)
    move(table, ("k", IdentityTransform()))
    first, second = check(table, Policy(target_file_size_bytes=target, min_input_files=2), 4, partitions)
    assert first > 1
    assert second == partitions


def test_old_partitions_that_feed_the_same_new_ones_are_rewritten_together(tmp_path: Path) -> None:
    table = make_table(local_catalog(tmp_path), "db.t", SCHEMA, spec=BY_WORD)
    fill(table, 9, 40, words=5)
    move(table, ("k", IdentityTransform()), dropped=("word",))
    policy = Policy(target_file_size_bytes=2**20)
    (group,) = plan_of(table, policy).groups
    assert (group.files, len(group.sections)) == (45, 5)
    assert check(table, policy, 8, 40) == [1]


OLD: dict[str, list[tuple[int, Any]]] = {
    "nothing": [],
    "word": [(3, IdentityTransform())],
    "hour": [(4, HourTransform())],
    "day": [(4, DayTransform())],
    "bucket": [(1, BucketTransform(8))],
}
NEW: dict[str, list[tuple[str, Any]]] = {
    "nothing": [],
    "day": [("at", DayTransform())],
    "month": [("at", MonthTransform())],
    "year and word": [("at", YearTransform()), ("word", IdentityTransform())],
    "k": [("k", TruncateTransform(3))],
    "bucket": [("id", BucketTransform(4))],
    "two buckets": [("id", BucketTransform(2))],  # where the least and the greatest value often share one
    "word": [("word", IdentityTransform())],
    "void": [("word", VoidTransform())],
}
# What metadata tells exactly: old tuples that determine the new value, and files with one value.
EXACT = {(old, "nothing") for old in OLD} | {(old, "void") for old in OLD} | {("bucket", "bucket")}
EXACT |= {("hour", "day"), ("hour", "month"), ("day", "month"), ("day", "day")}


@pytest.mark.parametrize(
    ("old", "new", "cores"),
    [
        ("nothing", "day", 8),
        ("nothing", "bucket", 3),
        ("nothing", "two buckets", 2),
        ("nothing", "word", 1),
        ("word", "k", 4),
        ("day", "word", 2),
        ("hour", "day", 8),
        ("hour", "nothing", 2),
        ("day", "month", 2),
        ("day", "year and word", 5),
        ("bucket", "bucket", 4),
        ("bucket", "void", 1),
    ],
)
def test_whatever_the_specs_are_no_partition_gets_more_files_than_it_needs(
    tmp_path: Path, old: str, new: str, cores: int
) -> None:
    spec = PartitionSpec(
        *(PartitionField(source, 1000 + at, transform, f"old_{at}") for at, (source, transform) in enumerate(OLD[old]))
    )
    table = make_table(local_catalog(tmp_path), "db.t", SCHEMA, spec=spec)
    fill(table, 6, 12, words=4)
    move(table, *NEW[new], dropped=tuple(field.name for field in spec.fields))
    policy = Policy(target_file_size_bytes=4000, min_input_files=2)
    before, planned = rows(table), plan_of(table, policy)
    (group,) = planned.groups
    engine = FakeEngine(cores=cores)
    assert compact(table, policy, engine).kind is Kind.COMPACTED
    assert rows(table) == before
    found = files_by_partition(table)
    for sizes in found.values():
        assert len(sizes) <= -(-sum(sizes) // planned.sizes.target), (found, len(engine.jobs))
    assert plan_of(table, policy).empty
    assert (group.spread is Spread.EXACT) == ((old, new) in EXACT)
    if group.spread is Spread.EXACT:
        assert group.new_partitions == len(found)
    elif group.spread is Spread.ABOUT:
        assert len(found) <= group.new_partitions <= 2 * len(found)
    else:
        assert group.spread is Spread.LEAST
        assert group.new_partitions <= len(found)
    assert f"become {group.spread.word}{group.outputs}, as their rows go to" in group.sentence


@pytest.fixture
def by_word(tmp_path: Path) -> Table:
    """Three old partitions with twelve files each, whose rows belong to the same four new ones."""
    table = make_table(local_catalog(tmp_path), "db.t", SCHEMA, spec=BY_WORD)
    fill(table, 12, 10, words=3)
    move(table, ("id", BucketTransform(4)), dropped=("word",))
    return current(table)


def path_in(table: Table, word: str) -> str:
    files = current(table).inspect.data_files().to_pylist()
    return next(str(file["file_path"]) for file in files if file["partition"]["word"] == word)


def k_of(value: int) -> pa.Table:
    return pa.table({"k": pa.array([value], pa.int64())})


@pytest.mark.parametrize("target", [2**20, 3000], ids=["one task", "two rounds"])
def test_r18_deletes_of_one_old_partition_do_not_touch_rows_of_another(by_word: Table, target: int) -> None:
    """In the second partition an equality delete names a `k` that rows of all have, in the third one a position."""
    with_four = [row for row in by_word.scan().to_arrow().to_pylist() if row["k"] == 4]
    doomed = [row for row in with_four if row["word"] == "w1"]
    assert 0 < len(doomed) < len(with_four)
    path = path_in(by_word, "w2")
    table = manifests.add_equality_delete(current(by_word), k_of(4), like=path_in(by_word, "w1"))
    table = manifests.add_position_delete(table, {path: [0]})
    before = {row["id"] for row in by_word.scan().to_arrow().to_pylist()}
    gone = {row["id"] for row in doomed} | {pq.read_table(path)["id"][0].as_py()}
    engine = FakeEngine(cores=4)
    outcome = compact(table, Policy(target_file_size_bytes=target), engine)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert (len(engine.jobs), outcome.deleted_rows, outcome.delete_files_removed) == (
        1 + (target < 2**20),
        len(gone),
        2,
    )
    assert set(current(table).scan().to_arrow()["id"].to_pylist()) == before - gone


@pytest.mark.parametrize("word", ["w0", "w1", "w2"])
def test_r4_a_delete_that_comes_to_any_of_the_old_partitions_is_a_conflict(by_word: Table, word: str) -> None:
    """Rows leave the partition that it is for: it would not apply to them any more."""
    policy = Policy(target_file_size_bytes=2**20, replan_conflicts=False)

    def meanwhile(ends: Iterator[TaskEnd]) -> Iterator[TaskEnd]:
        done = list(ends)
        manifests.add_equality_delete(current(by_word), k_of(4), like=path_in(by_word, word))
        yield from done

    outcome = compact(by_word, policy, FakeEngine(meanwhile))
    assert outcome.kind is Kind.CONFLICT
    assert "moves rows into or out of its partition" in outcome.sentence
    assert not [path for path in storage.files_under(by_word) if outcome.run_id in path]


def test_r4_a_delete_that_comes_to_a_partition_in_which_rows_were_by_mistake_is_a_conflict(tmp_path: Path) -> None:
    """A file of the current spec is in the pool, and its rows leave the partition that a writer had put them into."""
    table = make_table(local_catalog(tmp_path), "db.t", SCHEMA, spec=BY_WORD)
    far = pa.table({"id": [0, 100], "k": [4, 4], "word": ["w", "w"], "at": pa.nulls(2, pa.timestamp("us"))})
    for _ in range(4):
        table.append(far)
    move(table, ("id", TruncateTransform(10)), dropped=("word",))
    path = Path(path_in(table, "w").removeprefix("file://"))
    place = {"partition": Record(50), "record_count": 2, "file_size_in_bytes": path.stat().st_size}
    file = manifests.fake_data_file(current(table), "mislaid.parquet", **place)
    path.with_name("copy").write_bytes(path.read_bytes())
    path.with_name("copy").rename(file.file_path.removeprefix("file://"))
    manifests.add_files(current(table), [file])

    def meanwhile(ends: Iterator[TaskEnd]) -> Iterator[TaskEnd]:
        manifests.add_equality_delete(current(table), k_of(4), like=file.file_path)
        yield from ends

    policy = Policy(min_input_files=2, replan_conflicts=False)
    assert 50 in {json.loads(one.partition).get("id_trunc_10") for one in plan_of(table, policy).groups[0].sections}
    outcome = compact(table, policy, FakeEngine(meanwhile))
    assert outcome.kind is Kind.CONFLICT, outcome.sentence  # else rows would be back that the delete has taken


@pytest.mark.parametrize("stop", [OSError, KeyboardInterrupt])
def test_what_the_first_round_wrote_goes_when_the_second_fails(by_word: Table, stop: type[BaseException]) -> None:
    before, files = rows(by_word), storage.files_under(by_word, "data")

    def fail_in_the_second_round(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        if len(engine.jobs) == 1:
            return execute_task.rewrite(task, context, attempt)
        assert storage.files_under(by_word, "data") > files
        raise stop("gone")

    engine = FakeEngine(cores=4, rewrite=fail_in_the_second_round)
    policy, run = Policy(target_file_size_bytes=3000), wiring.new_run()
    try:
        outcome = work.compact_table(by_word.catalog, "db.t", policy, engine, run)
        assert outcome.kind is Kind.FAILED
    except KeyboardInterrupt:
        assert stop is KeyboardInterrupt
    seen = [path for task in engine.jobs[1].tasks for path in task.file_paths]
    assert seen
    assert all(run.run_id in path for path in seen)  # so that the next run would find them if this process had died
    assert storage.files_under(by_word, "data") == files
    assert rows(by_word) == before


@pytest.mark.parametrize("target", [2**20, 3000], ids=["one task", "two rounds"])
def test_small_files_that_are_in_the_new_partitions_already_are_joined_in_the_same_run(
    by_word: Table, target: int
) -> None:
    """Else the next run would have to join them with what this one brings."""
    now = current(by_word)
    for number in range(3):
        ids = pa.array(range(1000 + number * 10, 1010 + number * 10), pa.int64())
        now.append(pa.table({"id": ids, "k": ids, "word": ["new"] * 10, "at": pa.nulls(10, pa.timestamp("us"))}))
    policy = Policy(target_file_size_bytes=target, min_input_files=2)
    (group,) = plan_of(by_word, policy).groups
    assert {section.spec_id for section in group.sections} == {0, 1}
    before, engine = rows(by_word), FakeEngine(cores=4)
    assert compact(by_word, policy, engine).kind is Kind.COMPACTED
    assert len(engine.jobs) == 1 + (target < 2**20)
    assert rows(by_word) == before
    found = files_by_partition(by_word)
    assert len(found) == 4
    assert all(sum(size < 0.75 * target for size in sizes) <= 1 for sizes in found.values()), found
    assert plan_of(by_word, policy).empty


def test_limits_never_spend_a_run_on_small_files_of_the_new_partitions_alone(by_word: Table) -> None:
    """They come first in reading order, but only beside rows of the older spec there is something to gain."""
    now = current(by_word)
    for number in range(2):
        ids = pa.array(range(1000 + number * 40, 1040 + number * 40), pa.int64())
        long_ago = pa.array([-(2**55)] * 40, pa.int64()).view(pa.timestamp("us"))
        now.append(pa.table({"id": ids, "k": ids, "word": ["new"] * 40, "at": long_ago}))
    for group in plan_of(by_word, Policy(min_input_files=2, max_file_group_input_files=3)).groups:
        assert len(group.sections) < 2 or 0 in {section.spec_id for section in group.sections}
    before, policy = rows(by_word), Policy(min_input_files=2, max_files_to_rewrite=12)
    for left in 24, 12, 0:
        compact(by_word, policy, FakeEngine(cores=1))
        assert len(files_by_partition(by_word).get("spec 0", ())) == left
    assert rows(by_word) == before


def test_a_damaged_file_of_the_older_spec_is_all_that_stays_in_it(by_word: Table) -> None:
    """All are one group at first; what is left of it without the file is planned anew in the same run."""
    ids = pa.array(range(1000, 1040), pa.int64())
    for _ in range(2):
        current(by_word).append(pa.table({"id": ids, "k": ids, "word": ["new"] * 40, "at": pa.nulls(40, _AT)}))
    damaged = path_in(by_word, "w1")
    Path(damaged.removeprefix("file://")).unlink()
    outcome = work.compact_table(
        by_word.catalog, "db.t", Policy(min_input_files=2), FakeEngine(cores=1), wiring.new_run(store=None)
    )
    assert (outcome.kind, outcome.groups_failed, outcome.ok) == (Kind.COMPACTED, 1, False)
    assert [one.file_path for one in outcome.group_outcomes if one.file_path] == [damaged]
    found = files_by_partition(by_word)
    assert len(found.pop("spec 0")) == 1
    assert [len(sizes) for sizes in found.values()] == [1] * 4
