"""What is kept on disk never changes an answer: a warm inventory is the cold one, only new manifests are read, and
neither damage to a table nor damage to the cache goes unseen."""

from __future__ import annotations

import json
import random
import uuid
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from tests.factories import lake as lakes
from tests.factories import manifests
from tests.factories.examples import examples

from iceberg_compaction import Compactor, errors
from iceberg_compaction.formats.avro import container
from iceberg_compaction.metadata import fetch, look
from iceberg_compaction.metadata.cache import arrow_cache, manifest_pack

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from iceberg_compaction.model.table_view import TableView


@pytest.fixture
def cache(tmp_path: Path) -> arrow_cache.ArrowCache:
    return arrow_cache.ArrowCache(tmp_path / "cache")


@pytest.fixture
def fetched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The manifests that are read from storage from now on."""
    seen: list[str] = []
    read_bytes = fetch.read_bytes

    def read(io: Any, location: str, **options: Any) -> bytes:
        seen.append(location)
        return read_bytes(io, location, **options)

    monkeypatch.setattr(fetch, "read_bytes", read)
    return seen


def take(table: Table, cache: arrow_cache.ArrowCache, **options: Any) -> TableView:
    return look.look(table, name="db.t", cache=cache, **options).view


def rows_of(found: TableView) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = found.files.to_pylist()
    return rows


def numbers(*ids: int) -> pa.Table:
    return pa.table([ids, [f"n{i}" for i in ids], [float(i) for i in ids]], schema=lakes.NUMBERS)


def add(table: Table, *names: str) -> Table:
    return manifests.add_files(table, [manifests.fake_data_file(table, name) for name in names])


def entry(cache: arrow_cache.ArrowCache, *, largest: bool = True) -> Path:
    assert cache.directory is not None
    return sorted(cache.directory.iterdir(), key=lambda path: path.stat().st_size)[-1 if largest else 0]


@examples(12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    steps=st.lists(st.sampled_from(["append", "append", "delete", "many", "look"]), max_size=8), seed=st.integers(0, 99)
)
def test_a_warm_inventory_is_the_cold_one(local_lake: lakes.Lake, tmp_path: Path, steps: list[str], seed: int) -> None:
    chance, cache = random.Random(seed), arrow_cache.ArrowCache(tmp_path / uuid.uuid4().hex)
    table = lakes.make_table(local_lake.catalog, f"db.t{uuid.uuid4().hex}")
    for step in ("append", *steps, "look"):
        match step:
            case "append":
                table.append(numbers(*(chance.randrange(100) for _ in range(5))))
            case "delete":
                if not any("fake" in path for path in take(table, cache).files["file_path"].to_pylist()):
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore")  # a delete that finds nothing
                        table.delete(f"id < {chance.randrange(60)}")
            case "many":
                table = add(table, *(f"fake-{uuid.uuid4().hex}.parquet" for _ in range(chance.randrange(1, 40))))
            case "look":
                cold, warm = take(table, arrow_cache.ArrowCache(None)), take(table, cache)
                assert rows_of(warm) == rows_of(cold)
                assert warm.files.schema == cold.files.schema
                filtered = take(table, cache, where="id > 50")
                assert filtered.selected == take(table, arrow_cache.ArrowCache(None), where="id > 50").selected


def test_only_new_manifests_are_read(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache, fetched: list[str]) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(100)))
    take(table, cache)
    assert len(fetched) == 1
    for i in range(3):
        table = add(table, f"new-{i}.parquet")
        fetched.clear()
        assert rows_of(take(table, cache)) == rows_of(take(table, arrow_cache.ArrowCache(None)))
        newest = table.current_snapshot().manifests(table.io)[0].manifest_path
        assert fetched[0] == newest
        assert len(fetched) == 1 + (i + 2)  # warm reads the new one, cold reads all
        fetched.clear()
        take(table, cache)
        assert fetched == []


def test_loose_entries_are_packed_before_they_are_many(
    local_lake: lakes.Lake, cache: arrow_cache.ArrowCache, fetched: list[str]
) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(300)))
    for i in range(manifest_pack.LOOSE + 2):
        table = add(table, f"new-{i}.parquet")
        take(table, cache)
        assert cache.figures().entries <= manifest_pack.LOOSE + 1
    assert cache.figures().entries == 1
    fetched.clear()
    assert take(table, cache).files.num_rows == 300 + manifest_pack.LOOSE + 2
    assert fetched == []


def test_a_rewritten_table_sheds_what_it_no_longer_needs(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    table = add(add(table, *(f"a{i}.parquet" for i in range(500))), *(f"b{i}.parquet" for i in range(500)))
    take(table, cache)
    before = cache.figures().bytes
    table.manage_snapshots().rollback_to_snapshot(table.metadata.snapshots[0].snapshot_id).commit()
    assert take(table, cache).files.num_rows == 500
    assert (cache.figures().entries, cache.figures().bytes < before * 0.7) == (1, True)


def test_a_warm_table_is_used_as_it_lies(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(5000)))
    table = add(table, "last.parquet")
    size = take(table, cache).files.nbytes
    before = pa.total_allocated_bytes()
    found = take(table, cache)
    assert pa.total_allocated_bytes() - before < size / 10
    assert found.files["file_path"].num_chunks == 1


@pytest.mark.parametrize("largest", [True, False])
def test_a_damaged_entry_is_read_anew(
    local_lake: lakes.Lake, cache: arrow_cache.ArrowCache, fetched: list[str], largest: bool
) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(100)))
    take(table, cache)
    table = add(table, "new.parquet")
    expected = rows_of(take(table, cache))
    victim = entry(cache, largest=largest)
    data = bytearray(victim.read_bytes())
    data[len(data) // 2] ^= 1
    victim.write_bytes(data)
    fetched.clear()
    assert rows_of(take(table, cache)) == expected
    assert fetched
    fetched.clear()
    assert rows_of(take(table, cache)) == expected
    assert fetched == []


def test_an_entry_of_other_rows_is_no_entry(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), "a.parquet", "b.parquet")
    expected = rows_of(take(table, cache))
    name = entry(cache).stem
    kept = cache.load(name)
    assert kept is not None
    described = json.loads(kept.schema.metadata[b"manifests"])
    fewer = kept.slice(1).replace_schema_metadata({"manifests": json.dumps([[described[0][0], 1]])})
    more = pa.concat_tables([kept, kept]).replace_schema_metadata({"manifests": json.dumps([[described[0][0], 4]])})
    odd = [kept.replace_schema_metadata({"manifests": text}) for text in ("{", "[1]", '[["a", "b"]]', '[["a", -2]]')]
    none = kept.replace_schema_metadata(None)
    for wrong in (kept.slice(1), kept.drop_columns("content"), none, fewer, more, *odd):
        cache.store(name, wrong)
        assert rows_of(take(table, cache)) == expected


def test_a_renamed_partition_field_has_its_new_name(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    with table.update_spec() as update:
        update.add_identity("name")
    table.append(numbers(1))
    assert take(table, cache).files["partition"].to_pylist() == ['{"name":"n1"}']
    with table.update_spec() as update:
        update.rename_field("name", "label")
    table.append(numbers(2))
    assert rows_of(take(table, cache)) == rows_of(take(table, arrow_cache.ArrowCache(None)))


def test_branches_do_not_push_each_other_out(
    local_lake: lakes.Lake, cache: arrow_cache.ArrowCache, fetched: list[str]
) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(10)))
    table.manage_snapshots().create_branch(table.current_snapshot().snapshot_id, "audit").commit()
    files = [manifests.fake_data_file(table, f"audit-{i}.parquet") for i in range(100)]
    table = manifests.add_files(table, files, branch="audit")
    for branch, count in (("main", 10), ("audit", 110)):
        assert take(table, cache, branch=branch).files.num_rows == count
    fetched.clear()
    for branch, count in (("main", 10), ("audit", 110)):
        assert take(table, cache, branch=branch).files.num_rows == count
    assert fetched == []


def test_a_path_that_is_live_twice_is_refused_every_time(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(100)))
    assert take(table, cache).files.num_rows == 100
    table = add(table, "50.parquet")
    for _ in range(3):
        with pytest.raises(errors.MetadataError, match=r"50\.parquet is live more than once"):
            take(table, cache)


def test_a_manifest_that_is_listed_twice_is_refused(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = lakes.make_table(local_lake.catalog, "db.t")
    manifest = manifests.write_manifest_of(table, [manifests.fake_data_file(table, "a.parquet")], 7)
    again = manifests.write_manifest_of(table, [manifests.fake_data_file(table, "b.parquet")], 7)
    again[0] = manifest.manifest_path
    again[1] = manifest.manifest_length
    table = manifests.commit_manifests(table, 7, [manifest, again])
    with pytest.raises(errors.MetadataError, match="is listed more than once"):
        take(table, cache)


def with_codec(path: Path, codec: str) -> None:
    parsed = container.parse(path.read_bytes())
    metadata = {**parsed.metadata, container.CODEC: codec.encode()}
    path.write_bytes(container.header(metadata, parsed.sync) + parsed.data[int(parsed.starts[0]) :])


@pytest.mark.parametrize(
    "damage",
    [
        Path.unlink,
        lambda path: path.write_bytes(path.read_bytes()[:-50]),
        lambda path: with_codec(path, "lzma9"),
        lambda path: path.write_bytes(b"Obj\x01"),
    ],
    ids=["missing", "cut short", "unknown codec", "garbled"],
)
def test_a_manifest_that_never_was_readable_is_refused_every_time(
    local_lake: lakes.Lake, cache: arrow_cache.ArrowCache, damage: Callable[[Path], Any]
) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), *(f"{i}.parquet" for i in range(100)))
    take(table, cache)
    table = add(table, "new.parquet")
    victim = table.current_snapshot().manifests(table.io)[0].manifest_path
    damage(Path(victim.removeprefix("file://")))
    for _ in range(2):
        with pytest.raises(errors.MetadataError, match="Manifest ") as caught:
            take(table, cache)
        assert victim in str(caught.value)


def test_a_manifest_that_vanished_later_is_still_known(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    """Manifests never change, so the picture is whole; whoever must read the manifest itself says that it is gone."""
    table = add(lakes.make_table(local_lake.catalog, "db.t"), "a.parquet")
    expected = rows_of(take(table, cache))
    victim = table.current_snapshot().manifests(table.io)[0].manifest_path
    Path(victim.removeprefix("file://")).unlink()
    assert rows_of(take(table, cache)) == expected
    with pytest.raises(errors.MetadataError, match="is missing"):
        take(table, arrow_cache.ArrowCache(None))


def test_a_manifest_list_is_always_read(local_lake: lakes.Lake, cache: arrow_cache.ArrowCache) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), "a.parquet")
    take(table, cache)
    Path(table.current_snapshot().manifest_list.removeprefix("file://")).unlink()
    with pytest.raises(errors.MetadataError, match=r"Manifest list .* is missing"):
        take(table, cache)


def test_a_cache_that_cannot_be_written_is_done_without(local_lake: lakes.Lake, tmp_path: Path) -> None:
    table = add(lakes.make_table(local_lake.catalog, "db.t"), "a.parquet")
    (tmp_path / "file").touch()
    for _ in range(2):
        assert take(table, arrow_cache.ArrowCache(tmp_path / "file" / "cache")).files.num_rows == 1


def test_the_environment_names_the_cache(
    local_lake: lakes.Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add(lakes.make_table(local_lake.catalog, "db.t"), "a.parquet")
    monkeypatch.setenv("ICEBERG_COMPACTION_CACHE", str(tmp_path / "named"))
    Compactor(local_lake.catalog).inspect_table("db.t")
    assert len(list((tmp_path / "named").iterdir())) == 1
