"""R61: a file that cannot be read costs its own group: the others land, nothing is left behind, the outcome names file
and group, and the next run does not begin with what failed. What concerns all groups ends the run instead."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.factories import manifests, storage, work
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from tests.factories.lake import make_table

from iceberg_compaction import Kind, Policy, errors
from iceberg_compaction.execute.engines.inline_engine import InlineEngine
from iceberg_compaction.interfaces import wiring
from iceberg_compaction.model.outcome import GroupEnd
from iceberg_compaction.operations.rewrite_files.groups import give_up

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from pyspark.sql import SparkSession
    from tests.factories.lake import Lake

    from iceberg_compaction import Outcome
    from iceberg_compaction.execute.engine_door import Rewrite
    from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult
    from iceberg_compaction.operations.operation import EngineFactory
    from iceberg_compaction.record.store import RunStore

CITIES = ("Bern", "Oslo", "Rome")  # one group each, in this order


@pytest.fixture
def table(local_lake: Lake) -> Table:
    return make(local_lake, CITIES)


def make(lake: Lake, cities: tuple[str, ...]) -> Table:
    """Two files of three rows for each city."""
    made = make_table(lake.catalog, "db.t", SCHEMA, spec=BY_CITY)
    for number in range(2):
        made.append(city_rows(number * 100, cities, 3 * len(cities)))
    return made


def current(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def rows(table: Table, but: str = "") -> Counter[str]:
    """The table's rows; those of one city cannot be read."""
    return storage.row_multiset(current(table).scan(f"city != '{but}'").to_arrow())


def file_of(table: Table, city: str) -> Path:
    paths = [path for path in current(table).inspect.data_files()["file_path"].to_pylist() if f"city={city}" in path]
    return Path(sorted(paths)[-1].removeprefix("file://"))


def compact(table: Table, engines: EngineFactory | None = None, store: RunStore | None = None, **more: Any) -> Outcome:
    policy = Policy(**{"min_input_files": 2} | more)
    run = wiring.new_run(store=store)
    outcome = work.compact_table(table.catalog, "db.t", policy, engines or wiring.engine_factory("inline"), run)
    known = storage.referenced_data_files(current(table))
    found = {path for path in storage.files_under(table) if path.endswith(".parquet")}
    assert {path for path in found if "-deletes" not in path} <= known
    assert Counter(one.outcome for one in outcome.group_outcomes)[GroupEnd.FAILED] == outcome.groups_failed
    return outcome


def ends(outcome: Outcome) -> dict[str, str]:
    return {one.partition.split('"')[3]: one.outcome.value for one in outcome.group_outcomes}


def all_landed_but(city: str, cities: tuple[str, ...] = CITIES) -> dict[str, str]:
    return {each: "failed" if each == city else "landed" for each in cities}


# Damage


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def remove(path: Path) -> None:
    path.unlink()


def wrong_magic(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-4] + b"ORC1")


def scribble_in_a_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4:60] = bytes(0xFF ^ byte for byte in content[4:60])
    path.write_bytes(content)


def footer_of_another_file(path: Path) -> None:
    """Rows and columns are as they should be; only where they are is wrong."""
    long = pa.table({"id": pa.array(range(3), pa.int64()), "city": ["x" * 5000 + str(n) for n in range(3)]})
    ids = {"id": 1, "city": 2}
    schema = pa.schema([f.with_metadata({"PARQUET:field_id": str(ids[f.name])}) for f in long.schema])
    pq.write_table(long.cast(schema), path.with_suffix(".other"), compression="none", use_dictionary=False)
    other = path.with_suffix(".other").read_bytes()
    path.with_suffix(".other").unlink()
    length = int.from_bytes(other[-8:-4], "little") + 8
    path.write_bytes(path.read_bytes()[:200].ljust(len(other) - length, b"\0") + other[-length:])


def one_row_less(path: Path) -> None:
    pq.write_table(pq.read_table(path, partitioning=None).slice(1), path)


def nobody_may_read(path: Path) -> None:
    path.chmod(0)


@pytest.mark.parametrize(
    ("damage", "city", "options", "told"),
    [
        (truncate, "Bern", {}, "it does not end like a Parquet file; restore it or drop it from the table."),
        (empty, "Oslo", {"partial_progress": False}, "it does not end like a Parquet file; restore it"),
        (remove, "Rome", {"partial_progress_max_commits": 2}, "is missing; restore it or drop it from the table."),
        (wrong_magic, "Bern", {"partial_progress": False}, "it does not end like a Parquet file; restore it"),
        (scribble_in_a_page, "Oslo", {}, "; restore it or drop it from the table."),
        (footer_of_another_file, "Rome", {}, "; restore it or drop it from the table."),
        (one_row_less, "Bern", {"partial_progress_max_commits": 2}, "it has 2 rows where the manifest says 3; restore"),
        (nobody_may_read, "Oslo", {}, "may not be read with the given credentials."),
    ],
)
def test_a_file_that_cannot_be_read_costs_its_group_alone(
    table: Table, damage: Callable[[Path], None], city: str, options: dict[str, Any], told: str
) -> None:
    before, path = rows(table, but=city), file_of(table, city)
    sound = path.read_bytes()
    damage(path)
    if damage is nobody_may_read and os.access(path, os.R_OK):
        pytest.skip("root may read everything")

    outcome = compact(table, **options)
    assert ends(outcome) == all_landed_but(city)
    assert (outcome.kind, outcome.ok, outcome.groups_landed, outcome.groups_failed) == (Kind.COMPACTED, False, 2, 1)
    (failed,) = [one for one in outcome.group_outcomes if one.outcome is GroupEnd.FAILED]
    assert failed.file_path is not None
    assert failed.file_path.endswith(path.name)
    assert str(path) in failed.sentence
    assert told in failed.sentence
    assert f"1 of 3 groups failed and stays as it was: group {failed.id}: {failed.sentence}" in outcome.sentence
    assert rows(table, but=city) == before
    alone = compact(table, **options)
    assert (alone.kind, alone.sentence) == (Kind.FAILED, failed.sentence)

    path.unlink(missing_ok=True)
    path.write_bytes(sound)
    assert ends(compact(table)) == {city: "landed"}


@pytest.mark.spark
@pytest.mark.parametrize(("damage", "city"), [(truncate, "Bern"), (scribble_in_a_page, "Oslo"), (remove, "Rome")])
def test_it_is_the_same_on_spark(
    table: Table, spark: SparkSession, damage: Callable[[Path], None], city: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, path = rows(table, but=city), file_of(table, city)
    damage(path)
    outcome = compact(table, wiring.engine_factory("spark", session=spark))
    assert ends(outcome) == all_landed_but(city)
    assert "; restore it or drop it from the table." in outcome.sentence
    assert rows(table, but=city) == before
    assert [str(path) in record.getMessage() for record in caplog.records if "stays as it is" in record.message] == [
        True
    ]


def test_what_other_tasks_of_the_group_have_staged_is_removed(table: Table) -> None:
    seen: list[str] = []

    def fail_the_second_of_oslo(task: RewriteTask) -> None:
        seen.append(task.partition.split('"')[3])
        if seen[-1] == "Oslo" and seen.count("Oslo") == 2:
            raise errors.DamagedFileError("It is damaged.")

    before = rows(table)
    engines = engine(before=fail_the_second_of_oslo)
    outcome = compact(table, engines, rewrite_all=True, target_file_size_bytes=100)
    assert seen == ["Bern", "Bern", "Oslo", "Oslo", "Rome", "Rome"]
    assert ends(outcome) == all_landed_but("Oslo")
    assert rows(table) == before


def test_a_group_that_failed_is_tried_last_and_leaves_budgets_to_others(table: Table, tmp_path: Path) -> None:
    store = wiring.run_store(tmp_path / "runs.db")
    truncate(file_of(table, "Bern"))
    budget = {"max_files_to_rewrite": 2}
    assert ends(compact(table, store=store, **budget)) == {"Bern": "failed"}
    assert ends(compact(table, store=store, **budget)) == {"Oslo": "landed"}
    assert ends(compact(table, store=store, **budget)) == {"Rome": "landed"}
    assert ends(compact(table, store=store, **budget)) == {"Bern": "failed"}
    record = store.history("db.t", limit=1)[0].outcome
    assert (record.groups_failed, record.group_outcomes[0].outcome) == (1, GroupEnd.FAILED)
    assert str(file_of(table, "Bern")) in record.sentence


def test_a_plan_of_a_file_is_performed_in_the_same_order(table: Table, tmp_path: Path) -> None:
    store, policy = wiring.run_store(tmp_path / "runs.db"), Policy(min_input_files=2)
    plan = work.plan_table(table.catalog, "db.t", policy, wiring.new_run())
    truncate(file_of(table, "Bern"))
    compact(table, store=store, max_files_to_rewrite=2)
    done: list[str] = []

    def listen(task: RewriteTask) -> None:
        done.append(task.partition)

    outcome = work.apply_plan(table.catalog, plan, engine(before=listen), wiring.new_run(store=store))
    assert ends(outcome) == all_landed_but("Bern")
    assert ["Bern" in one for one in done] == [False, False, True]


def engine(*, before: Callable[[RewriteTask], None]) -> EngineFactory:
    """The inline engine, with something that happens before each task."""
    from contextlib import nullcontext

    from iceberg_compaction.execute.worker import execute_task

    def rewrite(task: RewriteTask, context: RewriteContext, attempt: str) -> TaskResult:
        before(task)
        return execute_task.rewrite(task, context, attempt)

    work: Rewrite = rewrite
    return lambda: nullcontext(InlineEngine(rewrite=work))


@pytest.mark.parametrize("damage", [truncate, remove])
def test_a_damaged_delete_file_costs_the_groups_that_it_applies_to(
    table: Table, damage: Callable[[Path], None]
) -> None:
    path = file_of(table, "Oslo")
    made = manifests.add_position_delete(current(table), {f"file://{path}": [0]})
    (deletes,) = made.inspect.delete_files()["file_path"].to_pylist()
    damage(Path(deletes.removeprefix("file://")))
    outcome = compact(table)
    assert ends(outcome) == all_landed_but("Oslo")
    (failed,) = [one for one in outcome.group_outcomes if one.outcome is GroupEnd.FAILED]
    assert f"Delete file {deletes}" in failed.sentence
    assert failed.sentence.endswith("; restore it.")
    assert failed.file_path == deletes


def test_a_manifest_that_cannot_be_read_fails_the_table_with_one_sentence(table: Table) -> None:
    path = current(table).inspect.manifests()["path"].to_pylist()[0]
    Path(path.removeprefix("file://")).write_bytes(b"")
    run, engines = wiring.new_run(), wiring.engine_factory("inline")
    outcome = work.compact_table(table.catalog, "db.t", Policy(min_input_files=2), engines, run)
    assert (outcome.kind, outcome.groups, outcome.ok) == (Kind.FAILED, 0, False)
    assert path in outcome.sentence


MANY = tuple(f"c{number:02}" for number in range(give_up.IN_A_ROW + 5))


def test_storage_that_is_down_ends_the_run_after_some_groups_and_what_is_rewritten_lands(local_lake: Lake) -> None:
    table = make(local_lake, MANY)
    before, seen = rows(table), []

    def fall(task: RewriteTask) -> None:
        seen.append(task.id)
        if len(seen) > 2:
            raise errors.UnreachableError("The store is down.")

    outcome = compact(table, engine(before=fall), partial_progress_max_commits=2)
    counts = Counter(one.outcome for one in outcome.group_outcomes)
    assert counts == {GroupEnd.COMMITTED: 2, GroupEnd.FAILED: give_up.IN_A_ROW, GroupEnd.NOT_REACHED: 3}
    assert (outcome.kind, outcome.ok) == (Kind.FAILED, False)
    assert outcome.sentence.startswith(
        f"{give_up.IN_A_ROW} groups failed in a row, so that the run was given up. The store is down."
    )
    assert "2 of 15 groups landed and stay" in outcome.sentence
    assert rows(table) == before


def test_however_many_files_are_damaged_the_sound_ones_land(local_lake: Lake) -> None:
    table = make(local_lake, MANY)
    for city in MANY[:-1]:
        file_of(table, city).unlink()
    outcome = compact(table)
    assert (outcome.kind, outcome.groups_failed, outcome.groups_landed) == (Kind.COMPACTED, len(MANY) - 1, 1)


def test_a_proof_that_does_not_hold_ends_the_run_at_once(table: Table, tmp_path: Path) -> None:
    """It is a defect of ours, and nobody knows what else it does; but the next run does not begin with it."""
    store = wiring.run_store(tmp_path / "runs.db")

    def lie(task: RewriteTask) -> None:
        if "Oslo" in task.partition:
            raise errors.ProofError("Rows were lost.")

    outcome = compact(table, engine(before=lie), store, partial_progress=True)
    assert (outcome.kind, ends(outcome)) == (Kind.FAILED, {"Bern": "landed", "Oslo": "failed", "Rome": "not-reached"})
    assert outcome.sentence.startswith("Rows were lost. Before that 1 of 3 groups landed and stay: ")
    outcome = compact(table, engine(before=lie), store, partial_progress=True)
    assert ends(outcome) == {"Rome": "landed", "Oslo": "failed"}


def test_what_cannot_be_rewritten_yet_is_unsupported_and_costs_its_group_alone(table: Table) -> None:
    path = file_of(table, "Rome")
    plain = pq.read_table(path, partitioning=None)
    pq.write_table(pa.table({name: plain[name].to_pylist() for name in plain.column_names}), path)  # no field ids
    outcome = compact(table)
    assert ends(outcome) == all_landed_but("Rome")
    assert "it has no field ids and the table has no name mapping" in outcome.sentence
    assert compact(table).kind is Kind.UNSUPPORTED


def test_the_rest_of_a_group_lands_without_its_damaged_files(local_lake: Lake) -> None:
    """A table without partitions is one group, so that one file could keep all of it from ever being compacted."""
    table = make_table(local_lake.catalog, "db.t", SCHEMA)
    for number in range(9):
        table.append(pa.table({"id": pa.array([number], pa.int64()), "city": ["Bern"]}))
    paths = sorted(table.inspect.data_files()["file_path"].to_pylist())
    damaged = {path: Path(path.removeprefix("file://")) for path in (paths[0], paths[4], paths[8])}
    for damage, path in zip((truncate, remove, empty), damaged.values(), strict=True):
        damage(path)
    outcome = compact(table)
    assert (outcome.kind, outcome.ok, outcome.groups, outcome.groups_failed) == (Kind.COMPACTED, False, 4, 3)
    assert {one.file_path for one in outcome.group_outcomes if one.file_path} == set(damaged)
    assert "3 of 4 groups failed: group 0: Data file " in outcome.sentence
    assert outcome.sentence.endswith("The other files of what failed were planned anew without it.")
    left = current(table).inspect.data_files()["file_path"].to_pylist()
    assert len(left) == 4
    assert set(left) > set(damaged)


def test_many_damaged_files_are_passed_by_in_few_runs(local_lake: Lake, tmp_path: Path) -> None:
    """A run finds so many of them, and the next goes on from there."""
    table = make_table(local_lake.catalog, "db.t", SCHEMA)
    for number in range(28):
        table.append(pa.table({"id": pa.array([number], pa.int64()), "city": ["Bern"]}))
    paths = sorted(table.inspect.data_files()["file_path"].to_pylist())
    for path in paths[:25]:
        Path(path.removeprefix("file://")).unlink()
    store = wiring.run_store(tmp_path / "runs.db")
    assert [compact(table, store=store).kind for _ in range(2)] == [Kind.FAILED, Kind.COMPACTED]
    left = current(table).inspect.data_files()["file_path"].to_pylist()
    assert set(paths[:25]) == set(left) & set(paths)
    assert len(left) == 26
