"""Requests to a real S3 store, counted by us and by a gate before the store: both agree, and there are few of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from tests.factories import gate as gates
from tests.factories import lake as lakes
from tests.factories import request_log

from iceberg_compaction import Compactor
from iceberg_compaction.model.outcome import Kind
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.storage import file_io, listing, remove, request_counts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table
    from tests.factories.servers import S3Server

pytestmark = pytest.mark.server

FILES = 5
ROWS = 2700  # about 60 KB
KINDS = {
    "get": "gets",
    "head": "heads",
    "put": "puts",
    "part": "parts",
    "list": "lists",
    "copy": "copies",
    "delete": "deletes",
}


@pytest.fixture
def log(s3_server: S3Server) -> Iterator[request_log.RequestLog]:
    with request_log.logged(s3_server.s3_endpoint) as log:
        yield log


@pytest.fixture
def table(s3_lake: lakes.Lake) -> Table:
    table = lakes.make_table(s3_lake.catalog, s3_lake.name("t"))
    for seed in range(FILES):
        random = np.random.default_rng(seed)
        columns = [random.integers(0, 2**60, ROWS), [f"name {number}" for number in range(ROWS)], random.random(ROWS)]
        table.append(pa.table(columns, schema=table.schema().as_arrow()))
    return table


def compact(lake: lakes.Lake, log: request_log.RequestLog, name: str, **more: Any) -> Any:
    properties = lake.settings.properties | {"s3.endpoint": log.uri}
    settings = lake.settings.model_copy(update={"properties": properties})
    log.clear()
    return Compactor(settings, engine="inline", **more).compact_table(name)


def real(log: request_log.RequestLog) -> StorageRequests:
    return StorageRequests(**{KINDS[kind]: count for kind, count in log.counts().items()})


def test_small_files_cost_one_get_each_and_the_output_a_put_and_a_get(
    s3_lake: lakes.Lake, log: request_log.RequestLog, table: Table
) -> None:
    inputs = {task.file.file_path for task in table.scan().plan_files()}
    ended = compact(s3_lake, log, s3_lake.name("t"))
    assert ended.kind is Kind.COMPACTED, ended.sentence
    assert ended.requests == real(log)
    for path in inputs:
        assert log.counts(path.removeprefix("s3://")) == {"get": 1}
    (output,) = {task.file.file_path for task in table.refresh().scan().plan_files()} - inputs
    assert log.counts(output.removeprefix("s3://")) == {"get": 1, "put": 1}
    assert ended.requests.total <= 35


def test_copied_row_groups_and_deep_proofs_are_counted_too(
    s3_lake: lakes.Lake, log: request_log.RequestLog, table: Table
) -> None:
    options = {"copy-row-groups": "always", "verify": "deep"}
    ended = compact(s3_lake, log, s3_lake.name("t"), options=options)
    assert ended.kind is Kind.COMPACTED, ended.sentence
    assert ended.effort.copied_groups == FILES
    assert ended.requests == real(log)
    for path in (task.file.file_path for task in table.scan().plan_files()):
        assert log.counts(path.removeprefix("s3://")) == {"get": 1}


def test_large_files_are_read_without_head(s3_lake: lakes.Lake, log: request_log.RequestLog, table: Table) -> None:
    rows = 2_200_000
    numbers = np.random.default_rng(7).integers(0, 2**62, rows)
    table.append(pa.table({"id": numbers, "name": pa.nulls(rows, pa.string()), "amount": pa.nulls(rows, pa.float64())}))
    ((large, size),) = [
        (task.file.file_path, task.file.file_size_in_bytes)
        for task in table.scan().plan_files()
        if task.file.record_count == rows
    ]
    assert size > 16 * 2**20
    options = {"rewrite-all": True, "copy-row-groups": "never", "min-input-files": 1}
    ended = compact(s3_lake, log, s3_lake.name("t"), options=options)
    assert ended.kind is Kind.COMPACTED, ended.sentence
    assert ended.requests == real(log)
    assert log.counts(large.removeprefix("s3://")).keys() == {"get"}
    outputs = {task.file.file_path: task.file.file_size_in_bytes for task in table.refresh().scan().plan_files()}
    ((output, size),) = outputs.items()
    assert log.counts(output.removeprefix("s3://")) == {"get": 1, "part": -(-size // (10 * 2**20)), "put": 2}


def test_arrows_client_takes_over_where_plain_requests_are_refused(
    s3_lake: lakes.Lake, log: request_log.RequestLog, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(request: gates.Request) -> Any:
        is_plain = "urllib3" in request.headers.get("user-agent", "")
        return gates.s3_error(403, "AccessDenied") if is_plain else request

    monkeypatch.setattr(log, "then", refused)
    ended = compact(s3_lake, log, s3_lake.name("t"))
    assert ended.kind is Kind.COMPACTED, ended.sentence
    assert ended.requests == real(log)
    assert ended.requests.parts > 0
    assert table.refresh().scan().to_arrow().num_rows == FILES * ROWS


def test_files_are_written_read_listed_and_removed(
    s3_server: S3Server, log: request_log.RequestLog, table: Table
) -> None:
    folder = f"{table.location()}/data"
    small, large = b"1" * 1000, bytes(21 * 2**20)
    with request_counts.counting() as count:
        io = file_io.open_io(s3_server.s3_properties | {"s3.endpoint": log.uri}, folder)
        for name, content in (("small", small), ("large", large)):
            with io.new_output(f"{folder}/{name}.parquet").create() as stream:
                stream.write(content[:10])
                stream.write(content[10:])
                assert stream.tell() == len(content)
        assert real(log) == StorageRequests(puts=3, parts=3) == count.requests
        assert len(io.new_input(f"{folder}/large.parquet")) == len(large)
        with io.new_input(f"{folder}/large.parquet").open() as stream:
            assert stream.seek(-3, 2) == len(large) - 3
            assert stream.read() == large[-3:]
            stream.seek(5)
            assert stream.read(7) == large[:7]
        for _ in range(2):
            with io.new_input(f"{folder}/small.parquet").open() as stream:
                assert stream.read() == small
        with pytest.raises(FileNotFoundError):
            io.new_input(f"{folder}/none.parquet").open().read()
        assert not io.new_input(f"{folder}/none.parquet").exists()
        assert len(listing.list_files(io, folder, lambda name: name in ("small.parquet", "large.parquet"))) == 2
        paths = [f"{folder}/small.parquet", f"{folder}/large.parquet"]
        assert remove.remove_files(io, paths, remove.RemovalProof.NEVER_SENT) == ()
    assert count.requests == real(log) == StorageRequests(gets=4, heads=2, puts=3, parts=3, lists=1, deletes=2)
    assert not table.io.new_input(paths[0]).exists()


def test_a_name_that_is_taken_is_refused_and_the_file_stays(s3_server: S3Server, table: Table) -> None:
    path = f"{table.location()}/data/taken.parquet"
    io = file_io.open_io(s3_server.s3_properties, path)
    with io.new_output(path).create() as stream:
        stream.write(b"first")
    second = io.new_output(path).create()
    second.write(b"second")
    with pytest.raises(FileExistsError):
        second.close()
    with io.new_input(path).open() as stream:
        assert stream.read() == b"first"
    with io.new_output(path).create(overwrite=True) as stream:
        stream.write(b"third")
    with io.new_input(path).open() as stream:
        assert stream.read() == b"third"


@pytest.mark.parametrize("fault", list(gates.Fault))
def test_a_request_survives_a_fault_that_passes(s3_server: S3Server, table: Table, fault: gates.Fault) -> None:
    path = f"{table.location()}/data/{fault.name}.parquet"
    content = b"content" * 100
    with gates.gate(s3_server.s3_endpoint) as gate:
        io = file_io.open_io(s3_server.s3_properties | {"s3.endpoint": gate.uri}, path)
        gate.turn(gates.Weather(rate=1.0, kinds=(fault,), times=1))
        with io.new_output(path).create() as stream:
            stream.write(content)
        gate.turn(gates.Weather(rate=1.0, kinds=(fault,), times=1))
        with io.new_input(path).open() as stream:
            assert stream.read() == content
        assert gate.happened["faults"] == 2
