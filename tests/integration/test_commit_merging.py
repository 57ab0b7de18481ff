"""R12: manifests merge while files are replaced. Entries keep their numbers and statuses, readers see the same files,
and what is not merged is not opened."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from tests.factories import manifests, racing, rewrites, runs
from tests.factories.cities import BY_CITY, SCHEMA
from tests.factories.lake import make_table

from iceberg_compaction.formats.avro import avro_decode, avro_encode, container
from iceberg_compaction.metadata.manifest import rewrite_entries
from iceberg_compaction.operations.rewrite_files.change import replace_files

if TYPE_CHECKING:
    from pyiceberg.manifest import ManifestEntry, ManifestFile
    from pyiceberg.table import Table
    from tests.factories.lake import Lake

CITIES = ("Rome", "Oslo", "Bonn")


def rows(number: int) -> pa.Table:
    return pa.table({"id": pa.array([2 * number, 2 * number + 1], pa.int64()), "city": [CITIES[number % 3]] * 2})


def filled(lake: Lake, appends: int, version: str = "2", **properties: str) -> Table:
    """Each append is of one city."""
    options = {"format-version": version, **{key.replace("_", "."): value for key, value in properties.items()}}
    table = make_table(lake.catalog, lake.name("t"), SCHEMA, spec=BY_CITY, properties=options)
    for number in range(appends):
        table.append(rows(number))
    return table


def set_properties(table: Table, **properties: str) -> Table:
    with table.transaction() as transaction:
        transaction.set_properties(
            {key.replace("__", "-").replace("_", "."): value for key, value in properties.items()}
        )
    return table.catalog.load_table(table.name())


def of_city(table: Table, city: str) -> list[Any]:
    return [file for file in rewrites.live_data_files(table) if file.partition[0] == city]


def listed(table: Table) -> list[ManifestFile]:
    return table.catalog.load_table(table.name()).current_snapshot().manifests(table.io)  # type: ignore[union-attr]


def entries(table: Table) -> list[ManifestEntry]:
    return [entry for row in listed(table) for entry in row.fetch_manifest_entry(table.io, discard_deleted=False)]


def numbers(table: Table) -> dict[str, tuple[int, int | None, int | None, int | None]]:
    """Of each entry: its status, and what its file was and will always be."""
    found = {
        entry.data_file.file_path: (
            int(entry.status),
            entry.snapshot_id,
            entry.sequence_number,
            entry.file_sequence_number,
        )
        for entry in entries(table)
    }
    assert len(found) == len(entries(table))
    return found


def ids(table: Table) -> list[int]:
    return sorted(table.catalog.load_table(table.name()).scan().to_arrow()["id"].to_pylist())


def avro_files(table: Table) -> set[str]:
    return {f"file://{path}" for path in Path(table.location().removeprefix("file://")).rglob("*.avro")}


def avro_files_in_use(table: Table) -> set[str]:
    snapshots = table.catalog.load_table(table.name()).snapshots()
    used = {row.manifest_path for snapshot in snapshots for row in snapshot.manifests(table.io)}
    return used | {snapshot.manifest_list for snapshot in snapshots}


@pytest.mark.parametrize("version", ["1", "2"])
def test_r12_many_manifests_become_one_that_says_the_same(local_lake: Lake, version: str) -> None:
    table = filled(local_lake, 6, version)
    table = set_properties(table, **{"commit.manifest.min__count__to__merge": "7"})
    before = numbers(table)
    chosen = of_city(table, "Oslo")
    request = rewrites.rewrite_request(table, chosen)
    result = replace_files.replace(table, request, runs.make_run())
    (row,) = listed(table)
    gone, new = {file.file_path for file in chosen}, request.added[0].file_path
    sequence = (6, 7) if version == "2" else (0, 0)
    expected = {
        path: (2 if path in gone else 0, result.snapshot_id if path in gone else snapshot_id, *rest)
        for path, (_, snapshot_id, *rest) in before.items()
    }
    assert numbers(table) == expected | {new: (1, result.snapshot_id, *sequence)}
    assert (row.added_files_count, row.existing_files_count, row.deleted_files_count) == (1, 4, 2)
    assert (row.added_rows_count, row.existing_rows_count, row.deleted_rows_count) == (4, 8, 4)
    if version == "2":
        assert row.min_sequence_number == 1
    (summary,) = row.partitions or ()
    assert (summary.lower_bound, summary.upper_bound, summary.contains_null) == (b"Bonn", b"Rome", False)
    assert row.manifest_length == Path(row.manifest_path.removeprefix("file://")).stat().st_size
    told = table.catalog.load_table(table.name()).current_snapshot().summary  # type: ignore[union-attr]
    assert told is not None
    assert [told[f"manifests-{what}"] for what in ("created", "kept", "replaced")] == ["1", "0", "6"]
    assert ids(table) == list(range(12))
    assert avro_files(table) == avro_files_in_use(table)


def test_r12_entries_deleted_before_are_dropped_and_ours_are_kept(local_lake: Lake) -> None:
    """The start sequence survives further merges (#3842)."""
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.min__count__to__merge": "2"})
    for city in CITIES:
        table.refresh()
        chosen = of_city(table, city)
        start = rewrites.pin_of(table).sequence_number
        request = rewrites.rewrite_request(table, chosen)
        result = replace_files.replace(table, request, runs.make_run())
        found = numbers(table)
        deleted = {path for path, (status, *_) in found.items() if status == 2}
        assert deleted == {file.file_path for file in chosen}
        assert all(found[path][1] == result.snapshot_id for path in deleted)
        assert found[request.added[0].file_path][2:] == (start, start + 1)
        assert len(listed(table)) == 1
    assert ids(table) == list(range(12))


def test_r12_few_manifests_beside_the_new_one_are_left_alone(local_lake: Lake) -> None:
    table = filled(local_lake, 6)
    replace_files.replace(table, rewrites.rewrite_request(table, of_city(table, "Oslo")), runs.make_run())
    assert len(listed(table)) == 7
    table = set_properties(
        table.catalog.load_table(table.name()),
        **{"commit.manifest.min__count__to__merge": "2", "commit.manifest__merge.enabled": "false"},
    )
    replace_files.replace(table, rewrites.rewrite_request(table, of_city(table, "Rome")), runs.make_run())
    assert len(listed(table)) == 6  # those of Oslo have no live files any more, and another one is new


def test_r12_full_bins_at_the_end_merge_whatever_their_count(local_lake: Lake) -> None:
    table = filled(local_lake, 5)
    rows = listed(table)
    size = max(row.manifest_length for row in rows)
    table = set_properties(table, **{"commit.manifest.target__size__bytes": str(2 * size + 100)})
    newest = of_city(table, "Oslo")[:1]
    assert [file.file_path for file in newest] == [
        entry.data_file.file_path for entry in rows[0].fetch_manifest_entry(table.io)
    ]
    replace_files.replace(table, rewrites.rewrite_request(table, newest), runs.make_run())
    after = listed(table)
    assert [row.existing_files_count for row in after] == [0, 0, 2, 2]  # new; the newest without its file; merged
    told = [entry.sequence_number for row in after[2:] for entry in row.fetch_manifest_entry(table.io)]
    assert told == [4, 3, 2, 1]  # in the order of the list


def test_manifests_alone_in_their_bins_are_not_opened(local_lake: Lake) -> None:
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.target__size__bytes": "1"})
    request = rewrites.rewrite_request(table, of_city(table, "Oslo"))
    others = [row for row in listed(table) if (row.partitions or [])[0].lower_bound != b"Oslo"]
    for row in others:
        Path(row.manifest_path.removeprefix("file://")).write_bytes(b"must not be read")
    replace_files.replace(table, request, runs.make_run())
    assert {row.manifest_path for row in others} < {row.manifest_path for row in listed(table)}


def test_what_was_merged_is_used_again_after_a_lost_race(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.min__count__to__merge": "7"})
    request = rewrites.rewrite_request(table, of_city(table, "Oslo"))
    merged: list[int] = []
    real = rewrite_entries.merge_manifests

    def counting(*arguments: Any) -> Any:
        merged.append(len(arguments[1]))
        return real(*arguments)

    monkeypatch.setattr(rewrite_entries, "merge_manifests", counting)
    racing.before_publishing(monkeypatch, lambda: table.catalog.load_table(table.name()).append(rows(6)))
    result = replace_files.replace(table, request, runs.make_run())
    assert result.attempts == 2
    assert merged == [7]
    assert [row.added_files_count for row in listed(table)] == [1, 1]  # ours, which stands for seven, and theirs
    assert ids(table) == list(range(14))
    assert avro_files(table) == avro_files_in_use(table)


def test_a_merged_manifest_of_a_dropped_group_is_written_again(
    local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.min__count__to__merge": "5"})
    request = rewrites.rewrite_request(table, apart=True)
    lost = of_city(table, "Oslo")[0].file_path
    racing.before_publishing(
        monkeypatch, lambda: manifests.add_position_delete(table.catalog.load_table(table.name()), {lost: [0]})
    )
    result = replace_files.replace(table, request, runs.make_run())
    assert (result.attempts, len(result.landed)) == (2, 2)
    data = [row for row in listed(table) if not row.content]
    assert [(row.added_files_count, row.existing_files_count, row.deleted_files_count) for row in data] == [(2, 2, 4)]
    assert len(ids(table)) == 11
    assert avro_files(table) == avro_files_in_use(table)


def test_r11_r12_delete_manifests_merge_apart_from_data(local_lake: Lake) -> None:
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.min__count__to__merge": "3"})
    for file in of_city(table, "Rome") + of_city(table, "Bonn"):
        table = manifests.add_position_delete(table, {file.file_path: [0]})
    before = ids(table)
    replace_files.replace(table, rewrites.rewrite_request(table, of_city(table, "Oslo")), runs.make_run())
    (data, deletes) = listed(table)
    assert (int(data.content), int(deletes.content)) == (0, 1)
    assert (deletes.existing_files_count, deletes.min_sequence_number) == (4, 7)
    assert sorted(e.sequence_number or 0 for e in deletes.fetch_manifest_entry(table.io)) == [7, 8, 9, 10]
    assert ids(table) == before


def test_manifests_of_another_writer_and_of_version_1_go_together(local_lake: Lake) -> None:
    """Fields that only some have, one of them unknown to us, are kept."""
    table = filled(local_lake, 3, "1")
    with table.transaction() as transaction:
        transaction.upgrade_table_version(2)
    table.append(rows(3))
    table.append(rows(4))
    foreign = Path(listed(table)[0].manifest_path.removeprefix("file://"))
    _with_unknown_field(foreign)
    table = set_properties(table, **{"commit.manifest.min__count__to__merge": "3"})
    before = numbers(table)
    chosen = of_city(table, "Oslo")[:1]
    replace_files.replace(table, rewrites.rewrite_request(table, chosen), runs.make_run())
    (row,) = listed(table)
    after = numbers(table)
    gone = chosen[0].file_path
    assert {path: after[path][1:] for path in before if path != gone} == {
        path: told[1:] for path, told in before.items() if path != gone
    }
    kept = avro_decode.read(container.parse(Path(row.manifest_path.removeprefix("file://")).read_bytes()))
    assert sorted(kept["future"].to_pylist(), key=str) == [None] * 5 + ["kept"]
    assert ids(table) == list(range(10))


def test_a_damaged_manifest_elsewhere_does_not_stop_the_commit(local_lake: Lake) -> None:
    table = set_properties(filled(local_lake, 6), **{"commit.manifest.min__count__to__merge": "2"})
    request = rewrites.rewrite_request(table, of_city(table, "Oslo"))
    damaged = next(row for row in listed(table) if (row.partitions or [])[0].lower_bound == b"Rome")
    Path(damaged.manifest_path.removeprefix("file://")).write_bytes(b"not Avro")
    replace_files.replace(table, request, runs.make_run())
    assert damaged.manifest_path in {row.manifest_path for row in listed(table)}


def test_new_manifests_do_not_grow_beyond_the_target(local_lake: Lake) -> None:
    table = set_properties(filled(local_lake, 1), **{"commit.manifest.target__size__bytes": "1"})
    file = rewrites.live_data_files(table)[0]
    request = rewrites.rewrite_request(table, [file])
    (made,) = request.added
    many = tuple(
        made.model_copy(
            update={"file_path": f"{made.file_path}-{n}", "record_count": 0, "lower_bounds": {2: b"x" * 200}}
        )
        for n in range(2000)
    )
    replace_files.replace(table, rewrites.changed(request, added=(made, *many)), runs.make_run())
    counts = [row.added_files_count for row in listed(table) if row.added_files_count]
    assert sum(count or 0 for count in counts) == 2001
    assert len(counts) > 3


def _with_unknown_field(path: Path) -> None:
    parsed = container.parse(path.read_bytes())
    schema = parsed.schema
    schema["fields"].append({"name": "future", "type": ["null", "string"], "default": None, "field-id": 999})
    table = avro_decode.read(parsed)
    table = table.append_column("future", pa.array(["kept"] * table.num_rows))
    metadata = {**parsed.metadata, container.SCHEMA: json.dumps(schema).encode()}
    data = container.header(metadata, parsed.sync) + b"".join(
        avro_encode.blocks(schema, table, parsed.codec, parsed.sync)
    )
    path.write_bytes(data)
