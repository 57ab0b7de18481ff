"""Reachable files (R70): every file that snapshots refer to, each manifest read once, and no doubt passed over."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.expressions import EqualTo
from tests.factories import lake

from iceberg_compaction import errors
from iceberg_compaction.metadata.reach import linked_folders, reachable_files
from iceberg_compaction.metadata.reach.reachable_files import FileKind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyiceberg.table import Table


@pytest.fixture
def table(tmp_path: Path) -> Table:
    catalog = lake.local_catalog(tmp_path)
    made = lake.make_table(catalog, "db.t", properties={"write.metadata.previous-versions-max": "3"})
    for number in range(6):
        made.append(lake.rows(made.schema().as_arrow(), 5, first=5 * number))
    made.delete(EqualTo("id", 3))
    made.overwrite(lake.rows(made.schema().as_arrow(), 3, first=100))
    return made


def _by_kind(batches: Iterable[pa.RecordBatch]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = collections.defaultdict(set)
    for each in batches:
        assert each.schema == reachable_files.FILES
        for path, kind in zip(each["path"].to_pylist(), each["kind"].to_pylist(), strict=True):
            found[kind].add(path)
    return dict(found)


def test_all_files_of_all_snapshots_are_found(table: Table) -> None:
    found = _by_kind(reachable_files.all_files(table, f"{table.location()}/metadata"))
    assert found[FileKind.DATA.value] == set(table.inspect.all_files()["file_path"].to_pylist())
    assert found[FileKind.MANIFEST.value] == set(table.inspect.all_manifests()["path"].to_pylist())
    assert found[FileKind.MANIFEST_LIST.value] == {each.manifest_list for each in table.metadata.snapshots}
    logged = {each.metadata_file for each in table.metadata.metadata_log}
    assert found[FileKind.METADATA.value] == {table.metadata_location, *logged}
    on_disk = {path.as_uri() for path in Path(table.location().removeprefix("file://")).rglob("*.parquet")}
    assert found[FileKind.DATA.value] == on_disk


def test_one_snapshot_has_only_what_it_needs(table: Table) -> None:
    head = table.metadata.snapshots[-1]
    found = _by_kind(reachable_files.snapshot_files(table.io, [head]))
    assert found[FileKind.DATA.value] == set(table.inspect.files()["file_path"].to_pylist())
    removal = next(each for each in table.metadata.snapshots if each.summary and each.summary["deleted-data-files"])
    live = _by_kind(reachable_files.snapshot_files(table.io, [removal]))[FileKind.DATA.value]
    everything = _by_kind(reachable_files.snapshot_files(table.io, [removal], removed_too=True))[FileKind.DATA.value]
    assert everything > live


def test_a_shared_manifest_is_read_once(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    from iceberg_compaction.metadata import fetch

    real = fetch.read_bytes

    def counted(io: Any, location: str, *, where: str) -> bytes:
        read.append(location)
        return real(io, location, where=where)

    monkeypatch.setattr(fetch, "read_bytes", counted)
    _by_kind(reachable_files.snapshot_files(table.io, table.metadata.snapshots))
    assert len(read) == len(set(read))


@pytest.mark.parametrize("kind", [FileKind.MANIFEST, FileKind.MANIFEST_LIST])
@pytest.mark.parametrize("harm", ["missing", "cut", "other"])
def test_what_cannot_be_read_is_an_error(table: Table, kind: FileKind, harm: str) -> None:
    found = _by_kind(reachable_files.snapshot_files(table.io, table.metadata.snapshots))
    path = Path(sorted(found[kind.value])[0].removeprefix("file://"))
    if harm == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:-30] if harm == "cut" else b"something else")
    with pytest.raises(errors.MetadataError, match=path.name):
        _by_kind(reachable_files.snapshot_files(table.io, table.metadata.snapshots))


def test_paths_are_compared_without_scheme_authority_and_double_slashes() -> None:
    folders = linked_folders.FolderReader()
    paths = ["s3://b/k//x", "s3a://b/k/x", "S3n://b/k/x", "s3://b/k/./x"]
    assert set(reachable_files.keys(pa.array(paths), folders).to_pylist()) == {"/k/x"}
    assert set(reachable_files.keys(pa.array(["/a/b", "file:/a/b", "file:///a/b"]), folders).to_pylist()) == {"/a/b"}
