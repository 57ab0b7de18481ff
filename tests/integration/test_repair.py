"""Damaged tables on a real lake (R75): what is wrong is found and told, what can be mended is, and nothing else changes
(R10)."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import Phase, given
from hypothesis import strategies as st
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.snapshots import Operation
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import LongType, NestedField, StringType
from tests.factories import damage as damages
from tests.factories import lake as lakes
from tests.factories import manifests, runs
from tests.factories.examples import examples
from typer.testing import CliRunner

from iceberg_compaction import Compactor, Kind, errors
from iceberg_compaction.interfaces import upkeep_operations, wiring
from iceberg_compaction.interfaces.cli.app import app
from iceberg_compaction.model.repair_plan import Damage, Remedy
from iceberg_compaction.operations.repair import find_damage
from iceberg_compaction.workflow import operate

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

    from iceberg_compaction.model.repair_plan import RepairPlan

SCHEMA = Schema(NestedField(1, "id", LongType()), NestedField(2, "name", StringType()))
PROPERTIES = {"commit.retry.min-wait-ms": "1"}
BY_NAME = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=0)


def rows(first: int) -> pa.Table:
    """Four rows of two names."""
    numbers = list(range(first, first + 4))
    return pa.table({"id": numbers, "name": [f"n{number % 2}" for number in numbers]}, schema=SCHEMA.as_arrow())


@pytest.fixture
def lake(local_lake: Lake) -> Lake:
    return local_lake


def make(lake: Lake, appends: int = 3, **more: Any) -> Table:
    table = lakes.make_table(lake.catalog, lake.name("t"), SCHEMA, **{"properties": PROPERTIES, **more})
    for number in range(appends):
        table.append(rows(4 * number))
    return table


def compactor(lake: Lake) -> Compactor:
    return Compactor(lake.settings, engine="inline")


def check(lake: Lake, *, deep: bool = False) -> RepairPlan:
    return compactor(lake).check_table(lake.name("t"), deep=deep)


def kinds(plan: RepairPlan) -> list[tuple[Damage, Remedy]]:
    return [(finding.damage, finding.remedy) for finding in plan.findings]


def mend(lake: Lake, **how: Any) -> Any:
    result = compactor(lake).repair_table(lake.name("t"), **how)
    assert result.kind is Kind.MAINTAINED, result.sentence
    return result


def local(path: str) -> Path:
    return Path(urlparse(path).path)


def ids(table: Table) -> list[int]:
    return sorted(table.refresh().scan().to_arrow()["id"].to_pylist())


def facts(table: Table) -> list[tuple[Any, ...]]:
    """What a repair must not change of live entries."""
    return sorted(
        (entry.data_file.file_path, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        for entry in damages.live(table)
    )


def with_first(**changes: Any) -> Any:
    def change(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        return [damages.changed(entries[0], **changes), *entries[1:]]

    return change


@pytest.mark.parametrize("version", ["1", "2"])
@pytest.mark.parametrize("partitioned", [False, True], ids=["plain", "partitioned"])
def test_a_sound_table_has_no_finding(lake: Lake, version: str, partitioned: bool) -> None:
    table = make(lake, properties={"format-version": version}, **({"spec": BY_NAME} if partitioned else {}))
    table.delete("id < 2")
    table.overwrite(rows(90), "id > 9")
    plan = check(lake, deep=True)
    assert plan.findings == ()
    assert plan.empty
    assert not plan.sick
    assert compactor(lake).repair_table(lake.name("t"), deep=True).kind is Kind.HEALTHY


def test_a_wrong_size_is_mended_and_the_entry_keeps_its_numbers(lake: Lake) -> None:
    """R10, R11"""
    table = make(lake)
    true = {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in damages.live(table)}
    damages.damage(table, with_first(file_size_in_bytes=17))
    before = facts(table)
    (finding,) = check(lake).findings
    assert (finding.damage, finding.remedy, finding.stated) == (Damage.SIZE, Remedy.FIX, "17 bytes")
    assert finding.value == true[finding.path]
    result = mend(lake)
    head = table.refresh().current_snapshot()
    assert head.snapshot_id == result.snapshot_id
    assert head.summary.operation is Operation.REPLACE
    assert facts(table) == before
    assert ids(table) == list(range(12))
    assert {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in damages.live(table)} == true
    (listed,) = head.manifests(table.io)
    assert listed.existing_files_count == 3
    assert listed.added_files_count == 0
    assert listed.min_sequence_number == min(number for _, _, number, _ in before)
    parent = table.metadata.snapshot_by_id(head.parent_snapshot_id)
    difference = int(head.summary["total-files-size"]) - int(parent.summary["total-files-size"])
    assert difference == finding.value - 17
    assert check(lake, deep=True).findings == ()
    assert compactor(lake).repair_table(lake.name("t")).kind is Kind.HEALTHY


def test_rows_are_counted_by_footers_and_wrong_metrics_go(lake: Lake) -> None:
    table = make(lake)
    damages.damage(table, with_first(record_count=3))
    assert check(lake).findings == ()  # nothing but the footer tells
    (finding,) = check(lake, deep=True).findings
    assert (finding.damage, finding.stated, finding.actual) == (Damage.RECORDS, "3 rows", "4 rows")
    mend(lake, deep=True)
    entry = next(each for each in damages.live(table) if each.data_file.file_path == finding.path)
    assert entry.data_file.record_count == 4
    assert not entry.data_file.lower_bounds
    assert not entry.data_file.value_counts
    others = [each for each in damages.live(table) if each.data_file.file_path != finding.path]
    assert all(each.data_file.lower_bounds for each in others)
    assert ids(table) == list(range(12))
    assert table.inspect.files().num_rows == 3  # PyIceberg reads what is left of the metrics
    assert check(lake, deep=True).findings == ()


def test_a_file_listed_twice_is_listed_once_afterwards(lake: Lake) -> None:
    """R10, 17042"""
    table = make(lake)
    damages.damage(table, lambda entries: [*entries, entries[0]])
    assert len(damages.live(table)) == 4
    plan = check(lake)
    assert kinds(plan) == [(Damage.TWICE, Remedy.FIX)]
    assert "live more than once" in compactor(lake).compact_table(lake.name("t")).sentence
    mend(lake)
    assert len(facts(table)) == 3
    assert ids(table) == list(range(12))
    assert check(lake, deep=True).findings == ()


def test_a_file_that_was_added_twice_keeps_its_older_entry_only_where_no_delete_decides(lake: Lake) -> None:
    table = make(lake, 2)
    first = damages.live(table)[-1]
    assert first.sequence_number == 1
    manifests.add_files(table, [damages.changed(first).data_file])
    assert kinds(check(lake)) == [(Damage.TWICE, Remedy.FIX)]
    manifests.add_equality_delete(table.refresh(), pa.table({"id": pa.array([1], pa.int64())}))
    before = table.refresh().metadata.current_snapshot_id
    plan = check(lake)
    assert kinds(plan) == [(Damage.TWICE, Remedy.CHOOSE)]
    assert plan.empty
    result = compactor(lake).repair_table(lake.name("t"))
    assert result.kind is Kind.FAILED
    assert "--fix mends none" in result.sentence
    assert table.refresh().metadata.current_snapshot_id == before


def test_the_oldest_of_two_entries_stays(lake: Lake) -> None:
    table = make(lake, 2)
    first = damages.live(table)[-1]
    manifests.add_files(table, [damages.changed(first).data_file])
    mend(lake)
    numbers = {entry.data_file.file_path: entry.sequence_number for entry in damages.live(table)}
    assert len(numbers) == 2
    assert numbers[first.data_file.file_path] == 1
    assert ids(table) == list(range(8))
    assert check(lake).findings == ()


def test_the_youngest_of_two_entries_of_a_delete_file_stays(lake: Lake) -> None:
    table = make(lake, 1)
    path = damages.live(table)[0].data_file.file_path
    table = manifests.add_position_delete(table, {path: [0]})
    deletes = next(entry for entry in damages.live(table) if entry.data_file.file_path != path)
    manifests.add_files(table, [damages.changed(deletes).data_file])
    assert kinds(check(lake)) == [(Damage.TWICE, Remedy.FIX)]
    mend(lake)
    (left,) = (entry for entry in damages.live(table) if entry.data_file.file_path != path)
    assert left.sequence_number == 3
    assert ids(table) == [1, 2, 3]


def wrong_counts(listed: list[ManifestFile]) -> list[ManifestFile]:
    return [damages.relisted(listed[0], existing_files_count=7, deleted_rows_count=5)]


def test_counts_of_a_manifest_list_are_mended(lake: Lake) -> None:
    """R11"""
    table = make(lake)
    damages.damage(table, listed=wrong_counts)
    before = facts(table)
    (finding,) = check(lake).findings
    assert (finding.damage, finding.remedy) == (Damage.COUNTS, Remedy.FIX)
    assert finding.stated == "existing files 7, deleted rows 5"
    assert finding.actual == "existing files 3, deleted rows 0"
    mend(lake)
    (listed,) = table.refresh().current_snapshot().manifests(table.io)
    assert (listed.existing_files_count, listed.existing_rows_count, listed.deleted_rows_count) == (3, 12, 0)
    assert facts(table) == before
    assert ids(table) == list(range(12))
    assert check(lake).findings == ()


def test_a_manifest_that_is_cut_short_is_not_declared_whole(lake: Lake) -> None:
    table = make(lake)
    (listed,) = damages.damage(table).current_snapshot().manifests(table.io)
    path = local(listed.manifest_path)
    whole = path.read_bytes()
    from iceberg_compaction.formats.avro import container

    path.write_bytes(whole[: int(container.parse(whole).starts[0])])  # at the border of a block: still an Avro file
    (finding,) = check(lake).findings
    assert (finding.damage, finding.remedy) == (Damage.LOST_MANIFEST, Remedy.RESTORE)
    assert "cut short" in finding.actual
    assert compactor(lake).repair_table(lake.name("t")).kind is Kind.FAILED
    path.write_bytes(whole)
    assert check(lake).findings == ()


def test_a_manifest_twice_in_the_list_and_a_missing_one(lake: Lake) -> None:
    table = make(lake)
    damages.damage(table, listed=lambda made: [*made, made[0]])
    assert (Damage.TWICE, Remedy.FIX) in kinds(check(lake))
    mend(lake)
    assert ids(table) == list(range(12))
    (listed,) = table.refresh().current_snapshot().manifests(table.io)
    local(listed.manifest_path).unlink()
    plan = check(lake)
    assert kinds(plan) == [(Damage.LOST_MANIFEST, Remedy.RESTORE)]
    assert plan.empty
    assert "Restore" in plan.kept[0].sentence


def test_missing_files_leave_only_if_asked_and_with_their_rows_named(lake: Lake) -> None:
    table = make(lake, spec=BY_NAME)
    everything = ids(table)
    gone = damages.live(table)[0].data_file
    lost = set(pq.read_table(local(gone.file_path))["id"].to_pylist())
    damages.damage(
        table, lambda entries: [entries[0], *(damages.changed(entries[1], file_size_in_bytes=1), *entries[2:])]
    )
    local(gone.file_path).unlink()
    plan = check(lake)
    assert sorted(kinds(plan)) == [(Damage.SIZE, Remedy.FIX), (Damage.MISSING, Remedy.DROP_MISSING)]
    assert "--drop-missing" in plan.kept[0].sentence
    assert f"{gone.record_count} row" in plan.notes[0]
    result = mend(lake)
    assert result.figures == {"mended": 1, "dropped": 0, "left": 1}
    assert gone.file_path in {entry.data_file.file_path for entry in damages.live(table)}
    result = mend(lake, drop_missing=True)
    assert (result.figures["dropped"], result.deleted_rows) == (1, gone.record_count)
    head = table.refresh().current_snapshot()
    assert head.summary.operation is Operation.DELETE
    assert head.summary["compaction.repair.lost-rows"] == str(gone.record_count)
    assert ids(table) == sorted(set(everything) - lost)
    assert check(lake, deep=True).findings == ()


def test_a_store_that_has_hardly_a_file_is_not_believed(lake: Lake) -> None:
    table = make(lake)
    paths = [local(entry.data_file.file_path) for entry in damages.live(table)]
    for path in paths[:2]:
        path.rename(path.with_suffix(".moved"))
    with pytest.raises(errors.ConfigError, match=r"2 of 3 data files .* are missing"):
        compactor(lake).repair_table(lake.name("t"), drop_missing=True)
    for path in paths[:2]:
        path.with_suffix(".moved").rename(path)
    assert check(lake).findings == ()
    for path in paths:
        path.unlink()
    assert mend(lake, drop_missing=True, even_most=True).deleted_rows == 12
    assert ids(table) == []


def test_a_missing_delete_file_is_never_dropped(lake: Lake) -> None:
    """Its rows would come back."""
    table = make(lake, 1)
    path = damages.live(table)[0].data_file.file_path
    table = manifests.add_position_delete(table, {path: [0]})
    deletes = next(entry for entry in damages.live(table) if entry.data_file.file_path != path)
    local(deletes.data_file.file_path).unlink()
    before = table.refresh().metadata.current_snapshot_id
    assert kinds(check(lake)) == [(Damage.MISSING, Remedy.RESTORE)]
    assert compactor(lake).repair_table(lake.name("t"), drop_missing=True).kind is Kind.FAILED
    assert table.refresh().metadata.current_snapshot_id == before


def test_a_damaged_file_is_not_hidden_by_a_right_size(lake: Lake) -> None:
    table = make(lake, 2)
    path = local(damages.live(table)[0].data_file.file_path)
    path.write_bytes(path.read_bytes()[:-20])
    assert kinds(check(lake)) == [(Damage.UNREADABLE, Remedy.RESTORE)]
    assert compactor(lake).repair_table(lake.name("t")).kind is Kind.FAILED


def test_commits_of_others_meanwhile_stay(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append between the check and the commit does not matter; a rewrite of the same manifest does."""
    table = make(lake)
    damages.damage(table, with_first(file_size_in_bytes=17))
    find = find_damage.find

    def meanwhile(*arguments: Any) -> Any:
        found = find(*arguments)
        lake.catalog.load_table(lake.name("t")).append(rows(50))
        return found

    monkeypatch.setattr(find_damage, "find", meanwhile)
    mend(lake)
    assert ids(table) == [*range(12), 50, 51, 52, 53]
    monkeypatch.setattr(find_damage, "find", find)
    damages.damage(table, with_first(file_size_in_bytes=17))

    def replaced(*arguments: Any) -> Any:
        found = find(*arguments)
        damages.damage(lake.catalog.load_table(lake.name("t")))
        return found

    monkeypatch.setattr(find_damage, "find", replaced)
    result = compactor(lake).repair_table(lake.name("t"))
    assert result.kind is Kind.CONFLICT
    assert "no longer in the table" in result.sentence
    monkeypatch.setattr(find_damage, "find", find)
    mend(lake)
    assert check(lake).findings == ()


def test_a_saved_plan_does_no_more_than_it_says(lake: Lake, tmp_path: Path) -> None:
    from iceberg_compaction.operations import upkeep_file

    table = make(lake)
    damages.damage(table, with_first(file_size_in_bytes=17))
    saved = tmp_path / "plan.json"
    upkeep_file.save(check(lake), saved)
    gone = damages.live(table)[1].data_file.file_path
    local(gone).unlink()
    house = operate.House(catalog=lake.catalog, engines=wiring.engine_factory("inline"))
    result = operate.operate(upkeep_file.load_operation(saved), house, runs.make_run())
    assert result.kind is Kind.MAINTAINED
    assert result.figures == {"mended": 1, "dropped": 0, "left": 0}
    assert kinds(check(lake)) == [(Damage.MISSING, Remedy.DROP_MISSING)]


def test_the_command_shows_by_default_and_mends_on_request(lake: Lake) -> None:
    table = make(lake)
    damages.damage(table, with_first(file_size_in_bytes=17))
    before = table.refresh().metadata.current_snapshot_id
    where = ["--table", lake.name("t"), "--catalog-uri", lake.settings.uri, "--warehouse", str(lake.settings.warehouse)]

    def run(*flags: str) -> Any:
        return CliRunner().invoke(app, ["repair", *where, "--output", "json", *flags])

    shown = run()
    assert shown.exit_code == 3, shown.output
    assert json.loads(shown.stdout)["findings"][0]["stated"] == "17 bytes"
    assert table.refresh().metadata.current_snapshot_id == before
    assert run("--drop-missing").exit_code == 2
    mended = run("--fix")
    assert mended.exit_code == 0, mended.output
    assert run("--check", "--deep").exit_code == 0
    assert "iceberg-compact repair --table t" in upkeep_operations.repair("t").command


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("repairs")


@examples(8, phases=(Phase.explicit, Phase.generate))
@given(
    sizes=st.dictionaries(st.integers(0, 5), st.integers(0, 10**6), max_size=3),
    records=st.dictionaries(st.integers(0, 5), st.integers(0, 100), max_size=3),
    twice=st.lists(st.integers(0, 5), max_size=4),
    order=st.permutations(range(6)),
)
def test_whatever_is_wrong_rows_and_numbers_are_the_same_afterwards(
    folder: Path, sizes: dict[int, int], records: dict[int, int], twice: list[int], order: list[int]
) -> None:
    lake = lakes.file_lake(Path(tempfile.mkdtemp(dir=folder)))
    table = make(lake, spec=BY_NAME)  # two partitions each
    sound, before = ids(table), facts(table)
    true = {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in damages.live(table)}

    def wrong(entries: list[ManifestEntry]) -> list[ManifestEntry]:
        changed = [
            damages.changed(
                entry,
                file_size_in_bytes=sizes.get(at, entry.data_file.file_size_in_bytes),
                record_count=records.get(at, entry.data_file.record_count),
            )
            for at, entry in enumerate(entries)
        ]
        return [changed[at] for at in [*order, *twice]]

    damages.damage(table, wrong)
    plan = check(lake, deep=True)
    assert {finding.remedy for finding in plan.findings} <= {Remedy.FIX}
    if plan.sick:
        mend(lake, deep=True)
    assert facts(table) == before
    assert ids(table) == sound
    assert {entry.data_file.file_path: entry.data_file.file_size_in_bytes for entry in damages.live(table)} == true
    assert sum(entry.data_file.record_count for entry in damages.live(table)) == 12
    assert check(lake, deep=True).findings == ()
