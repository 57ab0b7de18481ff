"""A conflict costs only the groups that are in conflict: the others land, and nothing else is left behind. Each city is
a group here."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import manifests, rewrites, runs
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.cities import rows as city_rows
from tests.factories.lake import make_table

from iceberg_compaction import errors
from iceberg_compaction.catalog import publish
from iceberg_compaction.metadata.manifest import rewrite_entries
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table
    from tests.factories.lake import Lake

CITIES = ("Rome", "Oslo", "Bonn")


def rows(first: int, cities: tuple[str, ...] = CITIES) -> pa.Table:
    return city_rows(first, cities)


@pytest.fixture
def table(local_lake: Lake) -> Table:
    made = make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)
    for number in range(3):
        made.append(rows(number * 6))
    return made


def other(table: Table) -> Table:
    return table.catalog.load_table(table.name())


def ids(table: Table) -> list[int]:
    return sorted(other(table).scan().to_arrow()["id"].to_pylist())


def cities(request: replace_files.ReplaceRequest, chosen: tuple[int, ...]) -> set[str]:
    places = {group.id: group.partitions[0][1] for group in request.groups}
    return {city for city in CITIES for group_id in chosen if city in places[group_id]}


def group_of(request: replace_files.ReplaceRequest, city: str) -> replace_files.ReplaceGroup:
    return next(group for group in request.groups if city in group.partitions[0][1])


def files_of(table: Table, city: str) -> list[str]:
    return [file.file_path for file in rewrites.live_data_files(other(table)) if file.partition[0] == city]


def avro_files(table: Table) -> set[str]:
    return {f"file://{path}" for path in Path(table.location().removeprefix("file://")).rglob("*.avro")}


def avro_files_in_use(table: Table) -> set[str]:
    snapshots = other(table).snapshots()
    used = {row.manifest_path for snapshot in snapshots for row in snapshot.manifests(table.io)}
    return used | {snapshot.manifest_list for snapshot in snapshots}


def racing(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], object]) -> None:
    """Somebody else commits right before each of our publications, as long as there are acts."""
    real, left = publish.publish, iter(acts)

    def publishing(*arguments: Any) -> None:
        next(left, lambda: None)()
        real(*arguments)

    monkeypatch.setattr(publish, "publish", publishing)


def position_delete(table: Table, city: str) -> None:
    manifests.add_position_delete(other(table), {files_of(table, city)[0]: [0]})


@pytest.mark.parametrize(
    ("act", "sentence", "left"),
    [
        (lambda table: other(table).delete("id = 1"), "1 of the files to replace are no longer in the table", 17),
        (lambda table: position_delete(table, "Oslo"), "were deleted since the plan was made", 17),
    ],
    ids=["input-gone", "position-delete"],
)
@pytest.mark.parametrize("during", [False, True], ids=["before", "during"])
def test_only_the_group_in_conflict_is_dropped(
    table: Table,
    monkeypatch: pytest.MonkeyPatch,
    act: Callable[[Table], object],
    sentence: str,
    left: int,
    during: bool,
) -> None:
    request = rewrites.rewrite_request(table, apart=True)
    oslo = group_of(request, "Oslo")
    if during:
        racing(monkeypatch, lambda: act(table))
    else:
        act(table)
    untouched = set(files_of(table, "Oslo"))
    result = replace_files.replace(table, request, runs.make_run())
    assert cities(request, result.landed) == {"Rome", "Bonn"}
    assert list(result.conflicts) == [oslo.id]
    assert sentence in result.conflicts[oslo.id]
    assert result.attempts == 1 + during
    assert len(ids(table)) == left
    new = {file.file_path for group in request.groups if group is not oslo for file in group.added}
    live = {file.file_path for file in rewrites.live_data_files(other(table))}
    assert live == new | (untouched if not during else set(files_of(table, "Oslo")))
    told = other(table).current_snapshot().summary  # type: ignore[union-attr]
    assert told is not None
    assert (told["added-data-files"], told["deleted-data-files"]) == ("2", "6")
    assert (told["added-records"], told["deleted-records"]) == ("12", "12")
    assert told["changed-partition-count"] == "2"
    assert avro_files(table) == avro_files_in_use(table)


def test_groups_are_dropped_one_after_the_other_until_none_is_left(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = rewrites.rewrite_request(table, apart=True)
    racing(monkeypatch, *(lambda city=city: position_delete(table, city) for city in CITIES))
    with pytest.raises(errors.ConflictError, match="3 groups are in conflict") as caught:
        replace_files.replace(table, request, runs.make_run())
    assert set(caught.value.conflicts) == {0, 1, 2}
    assert all("were deleted" in sentence for sentence in caught.value.conflicts.values())
    assert avro_files(table) == avro_files_in_use(table)
    assert len(ids(table)) == 15


def test_what_concerns_the_whole_commit_drops_no_group(table: Table) -> None:
    request = rewrites.rewrite_request(table, apart=True)
    other(table).manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    with pytest.raises(errors.ConflictError, match="no longer descends") as caught:
        replace_files.replace(table, request, runs.make_run())
    assert caught.value.conflicts == {}


def test_only_manifests_with_files_of_a_dropped_group_are_written_again(
    local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each append is of one city, so that each manifest is too."""
    table = make_table(local_lake.catalog, local_lake.name("t"), SCHEMA, spec=BY_CITY)
    for number in range(6):
        table.append(rows(number * 6, (CITIES[number % 3],)))
    request = rewrites.rewrite_request(table, apart=True)
    racing(monkeypatch, lambda: position_delete(table, "Oslo"))
    written: list[str] = []
    real = rewrite_entries._describe

    def counting(*arguments: Any) -> Any:
        found = real(*arguments)
        written.append(found.manifest.path)
        return found

    monkeypatch.setattr(rewrite_entries, "_describe", counting)
    result = replace_files.replace(table, request, runs.make_run())
    assert (result.attempts, len(result.landed)) == (2, 2)
    assert len(written) == 6  # those of Oslo in vain, none twice
    assert avro_files(table) == avro_files_in_use(table)


def test_deletes_stay_for_a_group_that_is_dropped(table: Table) -> None:
    """What would dangle if the group landed must not go without it."""
    manifests.add_equality_delete(
        other(table), pa.table({"id": pa.array([0, 1], pa.int64())}), like=files_of(table, "Rome")[0]
    )
    manifests.add_equality_delete(
        other(table), pa.table({"id": pa.array([0, 1], pa.int64())}), like=files_of(table, "Oslo")[0]
    )
    table.refresh()
    request = rewrites.rewrite_request(table, apart=True, keep=frozenset(range(2, 18)))
    position_delete(table, "Oslo")
    result = replace_files.replace(table, request, runs.make_run())
    assert cities(request, result.landed) == {"Rome", "Bonn"}
    assert result.removed_delete_files == 1
    told = other(table).current_snapshot().summary  # type: ignore[union-attr]
    assert told is not None
    assert (told["removed-equality-delete-files"], told["total-delete-files"]) == ("1", "2")


def test_properties_tell_of_what_landed(table: Table) -> None:
    request = dataclasses.replace(
        rewrites.rewrite_request(table, apart=True, properties={"who": "me"}),
        group_properties=lambda landed: {"groups": ",".join(map(str, landed))},
    )
    position_delete(table, "Oslo")
    result = replace_files.replace(table, request, runs.make_run())
    told = other(table).current_snapshot().summary  # type: ignore[union-attr]
    assert told is not None
    assert (told["who"], told["groups"]) == ("me", ",".join(map(str, result.landed)))


def test_a_group_may_not_come_twice_nor_share_a_file(table: Table) -> None:
    request = rewrites.rewrite_request(table, apart=True)
    first, second, _ = request.groups
    for wrong in ((first, dataclasses.replace(second, id=first.id)), (first, dataclasses.replace(first, id=99)), ()):
        with pytest.raises(errors.CommitError):
            replace_files.replace(table, dataclasses.replace(request, groups=wrong), runs.make_run())


def test_metadata_files_carry_the_run_in_their_names(table: Table) -> None:
    """Several commits of one run do not overwrite each other's files."""
    before = avro_files(table)
    request = rewrites.rewrite_request(table, apart=True)
    for group in request.groups:
        replace_files.replace(table, dataclasses.replace(request, groups=(group,)), runs.make_run(run_id="0af"))
    made = {path.rpartition("/")[2] for path in avro_files(table) - before}
    assert len(made) == len(avro_files(table)) - len(before)
    assert all("0af" in name for name in made)
    lists = [snapshot.manifest_list.rpartition("/")[2] for snapshot in other(table).snapshots()[-3:]]
    for name, snapshot in zip(lists, other(table).snapshots()[-3:], strict=True):
        assert name.startswith(f"snap-{snapshot.snapshot_id}-")
        assert name.endswith("-0af.avro")
    assert avro_files(table) == avro_files_in_use(table)
