"""Plain requests to S3: signatures, addresses, and what is kept and counted. The requests themselves go to a real store
in tests/integration/test_storage_requests.py."""

from __future__ import annotations

import gc
import threading
import time
from datetime import datetime, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import BaseRequestHandler, ThreadingTCPServer
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from iceberg_compaction.model import outcome, rewrite_task
from iceberg_compaction.model.storage_requests import StorageRequests
from iceberg_compaction.storage import file_io, passing_faults, request_counts
from iceberg_compaction.storage.s3 import kept_objects, object_files, object_writer, plain_requests, signature

KEYS = {"access_key": "AKIAIOSFODNN7EXAMPLE", "secret_key": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}


def test_a_signature_is_amazons() -> None:
    """The first example of Amazon's documentation."""
    request = signature.Unsigned(
        method="GET",
        host="examplebucket.s3.amazonaws.com",
        path="/test.txt",
        headers={"Range": "bytes=0-9"},
        body=b"",
    )
    keys = signature.Keys(**KEYS, region="us-east-1")
    headers = signature.sign(request, keys, datetime(2013, 5, 24, tzinfo=timezone.utc))
    assert headers["authorization"].endswith(
        "Signature=f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41"
    )
    assert "wJalr" not in repr(keys)


@pytest.mark.parametrize(
    ("options", "url"),
    [
        ({"region": "eu-west-1"}, "https://lake.s3.eu-west-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "https://lake.s3.cn-north-1.amazonaws.com.cn"),
        ({"region": "x", "endpoint_override": "http://127.0.0.1:90"}, "http://127.0.0.1:90/lake"),
        ({"region": "x", "endpoint_override": "store:90", "scheme": "https"}, "https://store:90/lake"),
        (
            {"region": "x", "endpoint_override": "https://store/", "force_virtual_addressing": True},
            "https://lake.store",
        ),
        ({"region": "x", "role_arn": "arn:aws:iam::1:role/r"}, None),
        ({"region": "x", "access_key": ""}, None),
        ({"region": "x", "proxy_options": {"host": "proxy", "port": 1}}, None),
    ],
)
def test_a_bucket_is_reached_as_arrow_reaches_it(options: dict[str, Any], url: str | None) -> None:
    bucket = plain_requests.bucket_of(KEYS | options, "lake", request_counts.RequestCount())
    assert (bucket and bucket.url) == url


@pytest.mark.parametrize("name", ["Lake", "my_lake", "my.lake"])
def test_buckets_whose_names_do_not_fit_in_a_host_are_part_of_the_path(name: str) -> None:
    bucket = plain_requests.bucket_of(KEYS | {"region": "us-east-1"}, name, request_counts.RequestCount())
    assert bucket is not None
    assert bucket.url == f"https://s3.us-east-1.amazonaws.com/{name}"


class _SlowStore(BaseHTTPRequestHandler):
    """Takes a body in little more time than it would wait for a connection."""

    def do_PUT(self) -> None:
        left = int(self.headers["Content-Length"])
        while left > 0:
            left -= len(self.rfile.read(min(left, 2**18)))
            time.sleep(0.05)
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """A test has nobody to read it."""


def test_a_body_may_take_longer_than_a_connection() -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), _SlowStore)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    properties = {"s3.endpoint": f"http://127.0.0.1:{server.server_port}", "s3.connect-timeout": "0.5"}
    properties |= {"s3.access-key-id": "k", "s3.secret-access-key": "s", "s3.region": "us-east-1"}
    with request_counts.counting() as count:
        io = file_io.open_io(properties, "s3://lake/t")
        with io.new_output("s3://lake/t/file").create() as stream:
            stream.write(bytes(9 * 2**20))
    server.shutdown()
    server.server_close()
    assert count.requests.puts > 0
    assert count.requests.parts == 0


@pytest.mark.parametrize("answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"])
def test_a_tls_connection_that_breaks_is_a_fault_that_passes(answer: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that speaks no TLS is left to Arrow's client at once."""
    monkeypatch.setattr(plain_requests, "_PATIENCE", passing_faults.Patience(sleep=lambda seconds: None))

    class Store(BaseRequestHandler):
        def handle(self) -> None:
            self.request.recv(10_000)
            self.request.sendall(answer)

    with ThreadingTCPServer(("127.0.0.1", 0), Store) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        options = KEYS | {"region": "x", "endpoint_override": f"https://127.0.0.1:{server.server_address[1]}"}
        bucket = plain_requests.bucket_of(options, "lake", request_counts.RequestCount())
        assert bucket is not None
        if answer:
            assert bucket.get("key").status == 0
        else:
            with pytest.raises(OSError, match="NETWORK_CONNECTION") as caught:
                bucket.get("key")
            assert passing_faults.is_passing(caught.value)
        server.shutdown()


def test_arrows_file_system_says_how_a_bucket_is_reached() -> None:
    properties = {"s3.endpoint": "http://127.0.0.1:9", "s3.access-key-id": "k", "s3.secret-access-key": "s"}
    io = file_io.open_io(properties | {"s3.region": "eu-west-1", "s3.session-token": "t"}, "s3://lake/t")
    options = io.fs_by_scheme("s3", "lake").__reduce__()[1][0]
    bucket = plain_requests.bucket_of(options, "lake", request_counts.RequestCount())
    assert bucket is not None
    assert bucket.url == "http://127.0.0.1:9/lake"
    assert bucket.keys == signature.Keys(access_key="k", secret_key="s", session_token="t", region="eu-west-1")


def test_what_came_first_is_kept_within_the_budget() -> None:
    kept = kept_objects.KeptObjects(budget=10)
    kept.keep("a", b"123456")
    kept.keep("b", b"12345")
    kept.keep("c", b"1234")
    assert [kept.get(key) for key in "abc"] == [b"123456", None, b"1234"]
    kept.drop("a")
    kept.keep("b", b"12345")
    assert [kept.get(key) for key in "abc"] == [None, b"12345", b"1234"]


def test_a_count_inside_another_counts_alone() -> None:
    with request_counts.counting() as outer:
        request_counts.current().add(gets=1)
        with request_counts.counting() as inner:
            request_counts.current().add(gets=5)
        request_counts.current().add_all(StorageRequests(gets=2, parts=3))
    request_counts.current().add(gets=100)
    assert outer.requests == StorageRequests(gets=3, parts=3)
    assert inner.requests == StorageRequests(gets=5)


def test_a_file_io_counts_where_it_was_opened_whichever_thread_uses_it() -> None:
    io = PyArrowFileIO()
    with request_counts.counting() as count:
        object_files.install(io)
        thread = threading.Thread(target=lambda: request_counts.count_listing(io, 2001))
        thread.start()
        thread.join()
    assert count.requests == StorageRequests(lists=3)


def test_requests_in_words() -> None:
    assert StorageRequests().sentence == ""
    requests = StorageRequests(gets=1200, heads=1) + StorageRequests(gets=34, puts=2, parts=3, deletes=1)
    assert requests.sentence == "Requests to storage: 1,234 GET, 1 HEAD, 2 PUT, 3 part, 1 delete."
    assert requests.total == 1241


def test_outcomes_and_results_of_older_versions_have_no_requests() -> None:
    text = '{"kind": "healthy", "table": "db.t", "sentence": "Nothing to do.", "run_id": "r"}'
    assert outcome.from_json(text).requests == StorageRequests()
    assert rewrite_task.TaskResult.model_fields["requests"].default == StorageRequests()


def test_a_file_that_nobody_closed_is_not_stored() -> None:
    stored: list[bytes] = []
    target = object_writer.ObjectTarget(put=stored.append, begin=lambda: None, ended=lambda size: None)
    forgotten = object_writer.ObjectWriter(target)
    forgotten.write(b"half")
    del forgotten
    gc.collect()
    assert stored == []
    with object_writer.ObjectWriter(target) as stream:
        stream.write(b"who")
        stream.write(b"le")
    stream.close()
    assert stored == [b"whole"]
