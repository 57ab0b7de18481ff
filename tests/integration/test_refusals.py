"""Tables that must not be touched, files that cannot be read: the reason in words, nothing written, nothing lost."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlparse

import pytest
from pyiceberg.manifest import DataFileContent, FileFormat
from tests.factories import lake as lakes
from tests.factories import manifests, storage

from iceberg_compaction import Compactor, Kind

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.manifest import DataFile
    from pyiceberg.table import Table


def paths(table: Table) -> list[str]:
    return [str(path) for path in table.inspect.data_files()["file_path"].to_pylist()]


def local(path: str) -> Path:
    return Path(urlparse(path).path)


def changed_metadata(table: Table, change: Callable[[dict[str, Any]], None]) -> Table:
    """The table with metadata that PyIceberg would not write, registered as db.changed."""
    metadata = json.loads(local(table.metadata_location).read_text())
    change(metadata)
    path = f"{table.location()}/metadata/{uuid.uuid4()}.metadata.json"
    local(path).write_text(json.dumps(metadata))
    return table.catalog.register_table("db.changed", path)


def unknown_transform(metadata: dict[str, Any]) -> None:
    field = {"name": "p", "transform": "zigzag", "source-id": 1, "field-id": 1000}
    metadata["partition-specs"].append({"spec-id": 1, "fields": [field]})
    metadata |= {"default-spec-id": 1, "last-partition-id": 1000}


def vector(table: Table) -> DataFile:
    """The entry of a deletion vector, which version 2 does not have; its bounds name the data file."""
    bound = {manifests.FILE_PATH_ID: paths(table)[0].encode()}
    return manifests.fake_data_file(
        table,
        "d.puffin",
        content=DataFileContent.POSITION_DELETES,
        file_format=FileFormat.PUFFIN,
        lower_bounds=bound,
        upper_bounds=bound,
    )


REFUSED: dict[str, tuple[Callable[[Table], Table], str]] = {
    "format version 3": (lambda table: manifests.as_v3(table, "db.v3"), "format version 3"),
    "deletion vector": (lambda table: manifests.add_files(table, [vector(table)]), "deletion vector"),
    "equality deletes on an unknown field": (
        lambda table: manifests.add_files(
            table,
            [
                manifests.fake_data_file(
                    table, "d.parquet", content=DataFileContent.EQUALITY_DELETES, equality_ids=[1, 77]
                )
            ],
        ),
        "[77]",
    ),
    "R43: encrypted delete file": (
        lambda table: manifests.add_files(
            table,
            [
                manifests.fake_data_file(
                    table, "d.parquet", content=DataFileContent.EQUALITY_DELETES, equality_ids=[1], key_metadata=b"k"
                )
            ],
        ),
        "encryption",
    ),
    "ORC": (
        lambda table: manifests.add_files(
            table, [manifests.fake_data_file(table, "x.orc", file_format=FileFormat.ORC)]
        ),
        "ORC",
    ),
    "Avro": (
        lambda table: manifests.add_files(
            table, [manifests.fake_data_file(table, "x.avro", file_format=FileFormat.AVRO)]
        ),
        "AVRO",
    ),
    "R43: encrypted table": (
        lambda table: changed_metadata(table, lambda m: m["properties"].update({"encryption.key-id": "k"})),
        "encrypted",
    ),
    "R43: encrypted file": (
        lambda table: manifests.add_files(table, [manifests.fake_data_file(table, "x.parquet", key_metadata=b"k")]),
        "encryption",
    ),
    "unknown transform": (lambda table: changed_metadata(table, unknown_transform), "zigzag"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_unsupported_tables_are_refused_before_anything_is_written(local_lake: lakes.Lake, what: str) -> None:
    make, told = REFUSED[what]
    table = make(lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6))
    name = ".".join(table.name())
    before, location = storage.files_under(table), table.metadata_location
    compactor = Compactor(local_lake.settings, engine="inline")
    outcome = compactor.compact_table(name)
    assert outcome.kind is Kind.UNSUPPORTED, outcome.sentence
    assert told in outcome.sentence
    assert storage.files_under(table) == before
    assert local_lake.catalog.load_table(name).metadata_location == location
    assert any(told in reason for reason in compactor.inspect_table(name).unsupported)


def remove(path: Path) -> None:
    path.unlink()


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def garble_footer(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-200:-8] = b"\xff" * 192
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [remove, cut_short, garble_footer])
def test_missing_and_unreadable_files_fail_the_run_before_anything_is_written(
    local_lake: lakes.Lake, damage: Callable[[Path], None]
) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 5)  # four are no group
    victim = local(paths(table)[3])
    damage(victim)
    before, location = storage.files_under(table), table.metadata_location
    outcome = Compactor(local_lake.settings, engine="inline").compact_table("db.t")
    assert outcome.kind is Kind.FAILED
    assert victim.name in outcome.sentence
    assert "Traceback" not in outcome.sentence
    assert storage.files_under(table) == before
    assert local_lake.catalog.load_table("db.t").metadata_location == location


@pytest.mark.parametrize("damage", [remove, cut_short])
def test_a_damaged_manifest_makes_no_plan(local_lake: lakes.Lake, damage: Callable[[Path], None]) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 6)
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifest = snapshot.manifests(table.io)[2].manifest_path
    damage(local(manifest))
    outcome = Compactor(local_lake.settings, engine="inline").compact_table("db.t")
    assert outcome.kind is Kind.FAILED
    assert manifest in outcome.sentence
