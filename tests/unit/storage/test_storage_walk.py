"""All ways to list a folder give the same files, page by page."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.storage import exact_paths
from iceberg_compaction.storage.tree import copy_file, local_files, walk_files
from iceberg_compaction.storage.tree.walk_files import StoreTime

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ("a.parquet", "data/x=1/b.parquet", "data/x=1/c d%20.parquet", "data/_hidden/.e", "metadata/v1.json")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in NAMES:
        path = tmp_path / "t" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(name.encode())
    return tmp_path / "t"


def rows(pages: Any) -> dict[str, tuple[int, int, bool]]:
    table = pa.Table.from_batches(list(pages), walk_files.PAGE)
    columns = (table[name].to_pylist() for name in ("size", "modified_ms", "opaque"))
    return dict(zip(table["path"].to_pylist(), zip(*columns, strict=True), strict=True))


def test_all_ways_list_the_same(folder: Path) -> None:
    url = f"file://{folder}"
    expected = {f"{url}/{name}": len(name.encode()) for name in NAMES}
    io = exact_paths.exact(PyArrowFileIO())
    local = rows(walk_files.walk(io, f"{url}/", StoreTime()))
    assert {path: size for path, (size, _, _) in local.items()} == expected
    assert rows(walk_files._arrow(io, url, ("file", "", str(folder)))) == local
    fsspec = pytest.importorskip("pyiceberg.io.fsspec")
    others = rows(walk_files.walk(fsspec.FsspecFileIO({}), url, StoreTime()))
    assert {path: size for path, (size, _, _) in others.items()} == expected
    assert all(abs(others[path][1] - local[path][1]) <= 1 for path in local)


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert rows(walk_files.walk(PyArrowFileIO(), f"file://{tmp_path}/nothing", StoreTime())) == {}


def test_known_files_are_not_looked_at(folder: Path) -> None:
    url = f"file://{folder}"
    known = f"{url}/data/x=1/b.parquet"
    listed = rows(
        walk_files.walk(PyArrowFileIO(), url, StoreTime(), lambda paths: pc.equal(paths, known).to_numpy(False))
    )
    assert sorted(listed) == sorted(f"{url}/{name}" for name in NAMES)
    assert [path for path, (size, modified_ms, _) in listed.items() if size is None and modified_ms is None] == [known]


def test_a_folder_with_the_name_of_a_known_file_is_walked(folder: Path) -> None:
    url = f"file://{folder}"
    known = f"{url}/data/x=1"
    listed = rows(
        walk_files.walk(PyArrowFileIO(), url, StoreTime(), lambda paths: pc.equal(paths, known).to_numpy(False))
    )
    assert sorted(listed) == sorted(f"{url}/{name}" for name in NAMES)


def test_links_and_names_that_are_no_text_are_not_judged(folder: Path) -> None:
    (folder / "data" / "link").symlink_to(folder / "metadata")
    odd = os.fsencode(folder / "data") + b"/\xff.parquet"
    try:
        os.close(os.open(odd, os.O_CREAT))
        os.mkdir(os.fsencode(folder) + b"/\xfe")
        (folder / os.fsdecode(b"\xfe") / "inside").touch()
    except OSError:
        pytest.skip("this file system takes texts only")
    listed = rows(walk_files.walk(PyArrowFileIO(), f"file://{folder}", StoreTime()))
    strange = {path.removeprefix(f"file://{folder}") for path, (_, _, opaque) in listed.items() if opaque}
    assert strange == {"/data/link", "/data/?.parquet", "/?/inside"}
    assert len(listed) == len(NAMES) + 3


def test_files_come_in_pages(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_files, "_ROWS", 1)
    pages = [page for page in walk_files.walk(PyArrowFileIO(), f"file://{folder}", StoreTime()) if page.num_rows]
    assert len(pages) > 2
    assert len(rows(pages)) == len(NAMES)


def test_a_copy_is_never_made_over_a_file(folder: Path) -> None:
    io = exact_paths.exact(PyArrowFileIO())
    source, target = f"file://{folder}/a.parquet", f"file://{folder}/copy/a.parquet"
    copy_file.copy(io, source, target, 9)
    assert (folder / "copy/a.parquet").read_bytes() == b"a.parquet"
    with pytest.raises(FileExistsError):
        copy_file.copy(io, source, target, 9)
    with pytest.raises(OSError, match="9 bytes, not 8"):
        copy_file.copy(io, source, f"file://{folder}/copy/b.parquet", 8)


def test_a_copy_without_links_is_read_and_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copy_file, "_link", lambda *given: False)
    io = exact_paths.exact(PyArrowFileIO())
    copy_file.copy(io, f"file://{folder}/a.parquet", f"file://{folder}/copy/a.parquet", 9)
    assert (folder / "copy/a.parquet").read_bytes() == b"a.parquet"
    with pytest.raises(FileExistsError):
        copy_file.copy(io, f"file://{folder}/a.parquet", f"file://{folder}/copy/a.parquet", 9)
