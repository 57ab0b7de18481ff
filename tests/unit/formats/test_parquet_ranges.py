"""Bytes on their way: all of them, in order, whatever the storage can do; and digests of them."""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING

import pytest
import xxhash
from pyiceberg.io.fsspec import FsspecFileIO
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import spliced

from iceberg_compaction.formats.parquet import byte_ranges

if TYPE_CHECKING:
    from pathlib import Path

    from pyiceberg.io import FileIO

LOCAL, STREAMS, OTHER = PyArrowFileIO(), spliced.StreamIO(), FsspecFileIO({})
COUNT = 3_000_000
SPANS = [(10, 5), (15, 1_000_000), (1_000_015, 0), (1_000_015, 20), (2_500_000, 500_000), (0, 700_000), (COUNT - 1, 1)]
DATA = random.Random(7).randbytes(COUNT)
WANTED = b"".join(DATA[start : start + length] for start, length in SPANS)
DIGESTS = [xxhash.xxh3_64_intdigest(DATA[start : start + length]) for start, length in SPANS]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "in"
    path.write_bytes(DATA)
    return path


def _move(source: Path, come: FileIO, go: FileIO, *, digest: bool) -> list[int | None]:
    path = source.parent / f"out {time.monotonic_ns()}"
    target = byte_ranges.RangeOutput(go, str(path))
    target.write(b"before")
    with byte_ranges.Input(come, str(source)) as opened:
        found = byte_ranges.move(opened, target, SPANS, digest=digest)
    target.write(b"after")
    target.close()
    assert target.position == len(WANTED) + 11
    assert path.read_bytes() == b"before" + WANTED + b"after"
    return found


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize("go", [LOCAL, STREAMS, OTHER], ids=lambda io: type(io).__name__)
@pytest.mark.parametrize("come", [LOCAL, STREAMS, OTHER], ids=lambda io: type(io).__name__)
def test_bytes_move_from_anywhere_to_anywhere(
    source: Path, come: FileIO, go: FileIO, digest: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(byte_ranges, "_PART", 99_999)
    assert _move(source, come, go, digest=digest) == (DIGESTS if digest else [None] * len(SPANS))


@pytest.mark.parametrize("io", [LOCAL, STREAMS], ids=["local", "streams"])
def test_digests_of_a_file(source: Path, io: FileIO) -> None:
    with byte_ranges.Input(io, f"file://{source}") as opened:
        assert (opened.descriptor is None) is (io is STREAMS)
        assert byte_ranges.digests(opened, SPANS) == DIGESTS
        assert byte_ranges.digests(opened, []) == []


# What files may do


@pytest.mark.parametrize("digest", [True, False])
@pytest.mark.parametrize("io", [LOCAL, STREAMS], ids=["local", "streams"])
def test_a_source_that_is_cut_off_meanwhile_is_named(source: Path, io: FileIO, digest: bool) -> None:
    target = byte_ranges.RangeOutput(io, str(source.parent / "out"))
    with byte_ranges.Input(io, str(source)) as opened:
        os.truncate(source, 2_600_000)
        with pytest.raises(OSError, match=f"{source} has become shorter"):
            byte_ranges.move(opened, target, SPANS, digest=digest)
        with pytest.raises(OSError, match=f"{source} has become shorter"):
            byte_ranges.digests(opened, SPANS)
    target.close()


@pytest.mark.parametrize("io", [LOCAL, STREAMS, OTHER], ids=lambda io: type(io).__name__)
def test_files_that_are_missing_or_there(tmp_path: Path, io: FileIO) -> None:
    with pytest.raises(FileNotFoundError):
        byte_ranges.Input(io, str(tmp_path / "none"))
    path = tmp_path / "there"
    path.write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        byte_ranges.RangeOutput(io, str(path))
    assert path.read_bytes() == b"mine"


def test_only_files_of_this_machine_are_opened_by_their_names(tmp_path: Path) -> None:
    assert byte_ranges.local_path(LOCAL, "/a/b") == "/a/b"
    assert byte_ranges.local_path(LOCAL, "file:///a/b c%20d") == "/a/b c%20d"
    assert byte_ranges.local_path(LOCAL, "file:/a/b") == "/a/b"
    assert byte_ranges.local_path(LOCAL, "s3://a/b") is None
    assert byte_ranges.local_path(PyArrowFileIO({"DEFAULT_SCHEME": "hdfs"}), "/a/b") is None
    assert byte_ranges.local_path(STREAMS, "/a/b") is None
    assert byte_ranges.local_path(OTHER, "/a/b") is None
