"""Stores that answer in other ways than Amazon's: plain requests either understand the answer, or leave the file to
Arrow's client. A gate before a real store changes its answers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.schema import Schema
from tests.factories import gate as gates

from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.storage import file_io, request_counts

if TYPE_CHECKING:
    from pyiceberg.io import FileIO
    from tests.factories.lake import Lake
    from tests.factories.servers import S3Server

pytestmark = pytest.mark.server

CONTENT = bytes(range(256)) * 400  # more than the end of a file that is read first


@pytest.fixture
def path(s3_lake: Lake) -> str:
    return f"{s3_lake.catalog.create_table(s3_lake.name('t'), schema=Schema()).location()}/data/file.parquet"


def is_plain(request: gates.Request) -> bool:
    return "urllib3" in request.headers.get("user-agent", "")


def opened(server: S3Server, gate: gates.Gate, path: str) -> FileIO:
    return file_io.open_io(server.s3_properties | {"s3.endpoint": gate.uri}, path)


def write(io: FileIO, path: str, content: bytes = CONTENT) -> None:
    with io.new_output(path).create() as stream:
        stream.write(content)


def read(io: FileIO, path: str) -> bytes:
    with io.new_input(path).open() as stream:
        return stream.read()


def without(name: str, answer: gates.Answer) -> gates.Answer:
    return replace(answer, headers=tuple(header for header in answer.headers if header[0].lower() != name))


@pytest.mark.parametrize("content", [b"", b"1234"])
@pytest.mark.parametrize("says_size", [True, False])
def test_nothing_is_read_behind_the_end(s3_server: S3Server, path: str, content: bytes, says_size: bool) -> None:
    def change(request: gates.Request, answer: gates.Answer) -> gates.Answer:
        return answer if says_size or answer.status != 416 else without("content-range", answer)

    with gates.gate(s3_server.s3_endpoint, change=change) as gate:
        io = opened(s3_server, gate, path)
        write(io, path, content)
        with io.new_input(path).open() as stream:
            stream.seek(len(content))
            assert stream.read(8) == b""
            stream.seek(0)
            assert stream.read() == content


@pytest.mark.parametrize("change", ["shifted", "cut", "unnamed"])
def test_other_ranges_than_wanted_are_not_taken(s3_server: S3Server, path: str, change: str) -> None:
    def changed(request: gates.Request, answer: gates.Answer) -> gates.Answer:
        if answer.status != 206 or not is_plain(request):
            return answer
        if change == "unnamed":
            return without("content-range", answer)
        if change == "cut":
            return replace(answer, body=answer.body[:-1])
        headers = tuple((n, v.replace("bytes ", "bytes 1")) for n, v in answer.headers)
        return replace(answer, headers=headers)

    with gates.gate(s3_server.s3_endpoint, change=changed) as gate:
        io = opened(s3_server, gate, path)
        write(io, path)
        with io.new_input(path).open() as stream:
            assert stream.seek(-100, 2) == len(CONTENT) - 100
            assert stream.read(7) == CONTENT[-100:-93]
            stream.seek(5)
            assert stream.read(1000) == CONTENT[5:1005]


def test_a_size_that_head_does_not_say_comes_from_arrow(s3_server: S3Server, path: str) -> None:
    def change(request: gates.Request, answer: gates.Answer) -> gates.Answer:
        return without("content-length", answer) if request.method == "HEAD" and is_plain(request) else answer

    with gates.gate(s3_server.s3_endpoint, change=change) as gate:
        io = opened(s3_server, gate, path)
        write(io, path)
        assert len(io.new_input(path)) == len(CONTENT)
        assert io.new_input(path).exists()


@pytest.mark.parametrize("refusal", [403, 409, 412, 501])
def test_a_file_that_arrived_with_a_lost_answer_is_not_taken_for_somebody_elses(
    s3_server: S3Server, path: str, refusal: int
) -> None:
    puts = 0

    def change(request: gates.Request, answer: gates.Answer) -> gates.Answer:
        nonlocal puts
        if request.method != "PUT" or not is_plain(request):
            return answer
        puts += 1
        return gates.s3_error(502 if puts == 1 else refusal, "Odd")

    with gates.gate(s3_server.s3_endpoint, change=change) as gate:
        io = opened(s3_server, gate, path)
        write(io, path)
        assert puts == 2
        assert read(io, path) == CONTENT


@pytest.mark.parametrize("refusal", [403, 412])
def test_a_file_of_somebody_else_stays_although_an_answer_was_lost(
    s3_server: S3Server, path: str, refusal: int
) -> None:
    puts = 0

    def check(request: gates.Request) -> gates.Request | gates.Answer:
        nonlocal puts
        if request.method != "PUT" or not is_plain(request):
            return request
        puts += 1
        return gates.s3_error(502 if puts == 1 else refusal, "Odd")

    write(file_io.open_io(s3_server.s3_properties, path), path, b"theirs")
    with gates.gate(s3_server.s3_endpoint, check) as gate:
        io = opened(s3_server, gate, path)
        stream = io.new_output(path).create()
        stream.write(CONTENT)
        with pytest.raises(FileExistsError):
            stream.close()
        assert read(io, path) == b"theirs"


@pytest.mark.parametrize("name", ["a b+c%2Fd=1.parquet", "ü日本.parquet", "k@:,;!'()*$&~.parquet", "a%20b.parquet"])
def test_odd_keys_are_the_same_for_plain_requests_and_for_arrow(s3_server: S3Server, path: str, name: str) -> None:
    key = f"{path.rpartition('/')[0]}/{name}"
    with request_counts.counting() as count:
        io = file_io.open_io(s3_server.s3_properties, key)
        write(io, key)
        with PyArrowFileIO.new_input(io, key).open() as stream:  # type: ignore[arg-type]
            assert stream.read() == CONTENT
        assert read(io, key) == CONTENT
        io.delete(key)
        assert not io.new_input(key).exists()
    assert count.requests == StorageRequests(puts=1, gets=1, deletes=1, heads=1)
