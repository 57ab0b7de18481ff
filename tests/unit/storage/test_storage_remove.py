"""Files are deleted in one module, with a proof, and the files that stay are reported."""

from __future__ import annotations

import ast
import logging
from pathlib import Path

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

import iceberg_compaction
from iceberg_compaction.storage import remove

HOUSE = Path(iceberg_compaction.__file__).parent
# FileIOs that pass a delete on to the one that they wrap
WRAPPERS = {"storage/counted_writes.py", "storage/vended_credentials.py", "storage/s3/object_files.py"}


def test_files_that_cannot_be_removed_are_returned(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file, directory = tmp_path / "a", tmp_path / "d"
    file.touch()
    (directory / "inside").mkdir(parents=True)
    paths = [str(file), str(tmp_path / "gone already"), str(directory), str(file)]
    with caplog.at_level(logging.WARNING):
        assert remove.remove_files(PyArrowFileIO(), paths, remove.RemovalProof.NOT_COMMITTED) == (str(directory),)
    assert not file.exists()
    assert directory.exists()
    assert f"{directory} could not be removed (its commit surely did not land)" in caplog.text


@pytest.mark.parametrize("count", [0, 1, 20])
def test_all_files_are_removed(tmp_path: Path, count: int) -> None:
    files = [tmp_path / str(number) for number in range(count)]
    for file in files:
        file.touch()
    assert remove.remove_files(PyArrowFileIO(), map(str, files), remove.RemovalProof.NEVER_SENT) == ()
    assert not any(file.exists() for file in files)


def test_only_one_module_deletes_through_a_file_io() -> None:
    deleting = {path for path in map(_relative, HOUSE.rglob("*.py")) if _deletes(HOUSE / path)}
    assert deleting == {"storage/remove.py", *WRAPPERS}


def _relative(path: Path) -> str:
    return path.relative_to(HOUSE).as_posix()


def _deletes(path: Path) -> bool:
    """Whether a module names the method `delete` of a FileIO, called or passed on."""
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "delete"
        and not (isinstance(node.value, ast.Name) and node.value.id in ("np", "sqlalchemy", "router"))
        for node in ast.walk(ast.parse(path.read_text()))
    )
