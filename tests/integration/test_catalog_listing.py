"""Files of a run are found below a folder, whatever the store and the FileIO, in the form in which tables name them."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import lake as lakes

from iceberg_compaction import errors
from iceberg_compaction.storage import file_names, listing

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

MINE, OTHER = uuid.uuid4().hex, uuid.uuid4().hex
METADATA = f"00007-{str(uuid.UUID(MINE))[:28]}aaaaaaaa.parquet"  # some stores look at the folder and the ending


def fill(io: FileIO, folder: str) -> set[str]:
    """Files of a run and of others; the run's."""
    mine = {f"{folder}/a=1%2F2/b=x/0-{MINE}-0.parquet", f"{folder}/0101/11/{MINE}-m0.parquet", f"{folder}/{METADATA}"}
    others = {f"{folder}/0-{OTHER}-0.parquet", f"{folder}/{MINE}/plain.parquet", f"{folder}-beside/0-{MINE}-0.parquet"}
    for path in mine | others:
        with io.new_output(path).create() as stream:
            stream.write(b"x")
    return mine


def listed(io: FileIO, folder: str, run_ids: list[str]) -> list[str]:
    """The files of runs, as a run looks for them."""
    found = listing.list_files(io, folder, lambda name: any(file_names.is_of_run(name, run_id) for run_id in run_ids))
    return [file.path for file in found]


def test_files_of_a_run_are_found_in_the_form_of_the_folder(lake: lakes.Lake) -> None:
    table = lakes.make_table(lake.catalog, lake.name("listed"))
    folder = f"{table.location()}/data/here"
    mine = fill(table.io, folder)
    assert set(listed(table.io, folder, [MINE])) == mine
    assert listed(table.io, f"{folder}/", [uuid.uuid4().hex]) == []
    assert listed(table.io, f"{table.location()}/data/nowhere", [MINE]) == []


@pytest.mark.parametrize("form", ["file://{}/t", "file:{}/t", "{}/t"])
@pytest.mark.parametrize("kind", [PyArrowFileIO, FsspecFileIO])
def test_every_way_to_write_a_folder_comes_back(tmp_path: Path, kind: type[FileIO], form: str) -> None:
    mine = fill(kind({}), form.format(tmp_path))
    assert set(listed(kind({}), form.format(tmp_path), [OTHER, MINE])) - mine == {
        f"{form.format(tmp_path)}/0-{OTHER}-0.parquet"
    }
    for path in listed(kind({}), form.format(tmp_path), [MINE]):
        kind({}).delete(path)
    assert listed(kind({}), form.format(tmp_path), [MINE]) == []


def test_a_file_io_of_another_kind_is_said_to_be_unable() -> None:
    class Other(PyArrowFileIO.__base__):  # type: ignore[misc,name-defined]
        pass

    Other.__abstractmethods__ = frozenset()
    with pytest.raises(errors.UnsupportedError, match="Other cannot list the files in s3://b/t"):
        listed(Other(), "s3://b/t", [MINE])
