"""Parsed manifests in a place that machines share: a new machine reads none of them from the table, and a place that is
broken costs speed alone."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any
from urllib import parse

import pytest
from pyarrow import fs
from tests.factories import lake as lakes

from iceberg_compaction import errors
from iceberg_compaction.interfaces import cache_places, wiring
from iceberg_compaction.metadata import fetch, look

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyiceberg.table import Table
    from tests.factories.store_servers import StoreServer

    from iceberg_compaction.metadata.cache.arrow_cache import ArrowCache


@pytest.fixture(params=["file", "redis", pytest.param("s3", marks=pytest.mark.server)])
def url(request: pytest.FixtureRequest, tmp_path: Path, store_server: Callable[[str], StoreServer]) -> str:
    """A place of each kind."""
    if request.param == "redis":
        return store_server("redis").new_url()
    if request.param == "s3":
        server = request.getfixturevalue("s3_server")
        filesystem = fs.S3FileSystem(
            endpoint_override=server.s3_endpoint,
            access_key=server.access_key,
            secret_key=server.secret_key,
            allow_bucket_creation=True,
        )
        filesystem.create_dir("shared-cache")
        return f"s3://shared-cache/{tmp_path.name}?{parse.urlencode(server.s3_properties)}"
    return f"file://{tmp_path}/shared"


def machine(folder: Path, url: str) -> ArrowCache:
    """The cache of a machine that has just started."""
    return wiring.manifest_cache({"ICEBERG_COMPACTION_CACHE": str(folder), "ICEBERG_COMPACTION_CACHE_URL": url})


def paths(table: Table, cache: ArrowCache) -> list[str]:
    """The files of the table, once all that is to be shared is sent."""
    files = look.look(table, name="db.t", cache=cache).view.files["file_path"].to_pylist()
    for thread in threading.enumerate():
        if thread.name == "shared cache":
            thread.join()
    return sorted(files)


def test_a_new_machine_reads_no_manifest_that_another_has_read(
    local_lake: lakes.Lake, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 5)
    expected = paths(table, machine(tmp_path / "first", url))
    real, manifests_read = fetch.read_bytes, []

    def read(io: Any, location: str, **options: Any) -> bytes:
        manifests_read.append(location)
        return real(io, location, **options)

    monkeypatch.setattr(fetch, "read_bytes", read)
    assert paths(table, machine(tmp_path / "second", url)) == expected
    assert [path for path in manifests_read if not path.rpartition("/")[2].startswith("snap-")] == []


def test_a_damaged_entry_is_made_anew(local_lake: lakes.Lake, tmp_path: Path) -> None:
    url = f"file://{tmp_path}/shared"
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 3)
    expected = paths(table, machine(tmp_path / "first", url))
    (entry,) = (tmp_path / "shared").iterdir()
    whole = entry.read_bytes()
    for number, damaged in enumerate([b"", whole[: len(whole) // 2], b"x" * 100]):
        entry.write_bytes(damaged)
        assert paths(table, machine(tmp_path / f"m{number}", url)) == expected


def test_a_place_that_is_broken_costs_speed_alone(
    local_lake: lakes.Lake, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = lakes.append_small_files(lakes.make_table(local_lake.catalog, "db.t"), 3)
    cache = machine(tmp_path / "first", "redis://:s3cret@127.0.0.1:1/0")
    assert len(paths(table, cache)) == 3
    assert caplog.text.count("Parsed manifests are not shared with other machines") == 1
    assert "s3cret" not in caplog.text


def test_a_place_that_is_no_url_is_one_sentence() -> None:
    with pytest.raises(errors.ConfigError, match="ICEBERG_COMPACTION_CACHE_URL: 'folder' is no URL"):
        cache_places.open_place("folder")
