"""Requests that want to do harm: huge and deep bodies, slow clients, odd paths, wrong types. Each gets a short answer,
and the service goes on."""

from __future__ import annotations

import json
import socket
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.factories import services, stores

from iceberg_compaction.model.work import WorkRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.factories.services import Service

SECONDS = 0.5  # that a request may take to arrive


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    limits = {"body": 10_000, "request_seconds": SECONDS, "requests_per_minute": 100_000, "queued_runs": 2}
    with services.running(services.make_house(limits=limits)) as running:
        yield running


def post(service: Service, body: bytes, path: str = "compact") -> Any:
    return service.ask("POST", path, data=body, headers={"Content-Type": "application/json"})


def raw(service: Service, *parts: bytes, pause: float = 0.0, patience: float = 5.0) -> bytes:
    """What the server says to bytes, sent piece by piece, until it closes or says nothing for a while."""
    host, port = service.url.removeprefix("http://").split(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=patience) as client:
        for part in parts:
            try:
                client.sendall(part)
            except OSError:
                break
            time.sleep(pause)
        client.settimeout(patience)
        try:
            while received := client.recv(65536):
                said += received
        except (TimeoutError, ConnectionResetError):
            said += b"(open)" if not said else b""
    return said


def test_huge_bodies_are_refused_before_they_are_read(service: Service) -> None:
    assert post(service, b'{"table":"' + b"x" * 20_000 + b'"}').status_code == 413
    head = b"POST /api/v1/compact HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    assert b" 413 " in raw(service, head + b"Content-Length: 99999999999\r\n\r\n", patience=0.7)
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    assert b" 413 " in raw(service, head + b"Transfer-Encoding: chunked\r\n\r\n", chunk, chunk, patience=0.7)


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 5000,
        b"[" * 40 + b"]" * 40,
        b'{"a":' * 40 + b"1" + b"}" * 40,
        b'{"table": NaN}',
        b'{"table": "x", "priority": 1e999}',
        b'{"table": "\\ud800"}',
        b"\xff\xfe",
        b"",
        b"{",
        b"\x00",
    ],
)
def test_what_is_no_json_is_told(service: Service, body: bytes) -> None:
    answer = post(service, body)
    assert answer.status_code in (400, 422), answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    assert len(answer.text) < 2000


@pytest.mark.parametrize(
    "path",
    [
        "tables/..%2F..%2Fetc%2Fpasswd",
        "tables/%00",
        "tables/%ff%fe",
        "tables/" + "x" * 5000,
        "tables/%22%22",
        "runs/../../healthz%00",
        "runs/%0d%0aX-Evil:%201",
        "policies/%2e%2e",
        "tables?limit=0",
        "tables?limit=99999999999999999999",
        "tables?limit=1e3",
        "tables?pattern=" + "[" * 900,
        "runs?since=yesterday",
        "runs?kind=magic",
        "runs?after=%00",
        "work?after=" + "A" * 3000,
        "audit?after=Li4v",
        "fleet/ranking?after=LTE",
    ],
)
def test_odd_addresses_get_short_answers(service: Service, path: str) -> None:
    answer = service.ask("GET", path)
    assert answer.status_code in (200, 400, 404, 422, 502), answer.text  # this service has no catalog
    assert "X-Evil" not in answer.headers
    assert "Traceback" not in answer.text
    assert len(answer.text) < 8000


def test_slow_clients_are_let_go(service: Service) -> None:
    began = time.monotonic()
    assert raw(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\n") == b""  # no end of headers
    assert raw(service, b"") == b""  # nothing at all
    assert time.monotonic() - began < 2 * SECONDS + 3
    head = b"POST /api/v1/compact HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n"
    assert b" 408 " in raw(service, head, b"{", patience=2 * SECONDS + 2)
    # One header after the other does not keep the connection.
    drip = [b"GET /healthz HTTP/1.1\r\n", *[f"X-{number}: 1\r\n".encode() for number in range(30)]]
    assert raw(service, *drip, pause=0.05, patience=2.0) == b""
    assert service.get("/healthz")["ok"]


def test_two_requests_of_one_connection_have_their_own_time(service: Service) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    said = raw(service, request, request, request, pause=SECONDS * 0.6, patience=0.7)
    assert said.count(b" 200 ") == 3


def test_garbage_on_the_wire(service: Service) -> None:
    assert b" 400 " in raw(service, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" * 20, patience=0.7)
    assert b" 400 " in raw(service, b"GET / HTTP/1.1 and more\r\n\r\n", patience=0.7)
    assert b" 4" in raw(service, b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + b"x" * 200_000, patience=0.7)
    assert service.get("/healthz")["ok"]


def test_a_full_queue_and_too_many_requests_say_when_to_come_back(service: Service) -> None:
    book = service.app.state.desk.book
    for number in range(2):
        book.put(WorkRequest(work_id=f"w{number}", catalog="lake", table=f"db.t{number}", requested_ms=1))
    service.house.store.save(stores.make_record("r", "db.t0"))
    answer = post(service, json.dumps({"table": "db.t0"}).encode())
    assert answer.status_code == 429, answer.text
    assert int(answer.headers["retry-after"]) >= 1
    with services.running(services.make_house(limits={"requests_per_minute": 3})) as strict:
        codes = [strict.ask("GET", "tables").status_code for _ in range(5)]
        assert codes[:3] == [200, 200, 200]
        assert 429 in codes[3:]
        assert strict.get("/healthz")["ok"]  # probes are not counted


def test_errors_of_the_service_itself_say_nothing_of_its_inside(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*given: object, **more: object) -> None:
        raise RuntimeError("postgresql://user:hunter2@db/x")

    monkeypatch.setattr(type(service.app.state.desk.book), "list", broken)
    answer = service.ask("GET", "work")
    assert answer.status_code == 500
    assert "hunter2" not in answer.text
    assert answer.json()["type"].endswith(":defect")
