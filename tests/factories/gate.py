"""A gate before a real server, which lets most requests pass: some are slow, some fail in one of the ways in which
networks and servers do, and before an S3 store those with keys that have expired are refused. Plain HTTP on a loopback
port; connections are kept, since clients keep theirs."""

from __future__ import annotations

import contextlib
import enum
import http.client
import random
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from tests.factories import serving

_HOP = frozenset({"connection", "keep-alive", "transfer-encoding", "expect"})
_LONGEST_BODY = 2**28


class Fault(enum.Enum):
    """What befalls a request."""

    SLOW_DOWN = "503, and nothing arrives"
    TOO_MANY = "429, and nothing arrives"
    INTERNAL = "500, and nothing arrives"
    RESET = "the connection is reset, and nothing arrives"
    ANSWER_LOST = "the server does its work, and the connection is reset before the answer"
    BAD_GATEWAY = "the server does its work, and the answer is 502"
    SHORT = "the answer ends early"


_STATUS = {
    Fault.SLOW_DOWN: (503, "SlowDown"),
    Fault.TOO_MANY: (429, "TooManyRequests"),
    Fault.INTERNAL: (500, "InternalError"),
    Fault.BAD_GATEWAY: (502, "BadGateway"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    method: str
    path: str
    headers: dict[str, str]  # names in lower case
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


Pass = Callable[[Request], "Request | Answer"]  # a request to forward, or an answer instead of one


def _as_it_is(request: Request) -> Request | Answer:
    return request


@dataclass(frozen=True, slots=True, kw_only=True)
class Weather:
    """How often what goes wrong."""

    rate: float = 0.0  # of requests that fail
    delay_rate: float = 0.0
    longest_delay: float = 0.0  # seconds
    kinds: tuple[Fault, ...] = tuple(Fault)
    seed: int = 0
    times: int | None = None  # so many faults, and no more
    at: Callable[[Request], bool] = lambda request: True  # what may fail


@dataclass(slots=True, kw_only=True)
class Gate:
    """A running gate; the weather may be changed at any time."""

    uri: str
    target: str
    check: Pass
    change: Callable[[Request, Answer], Answer]
    happened: Counter[str] = field(default_factory=Counter)
    weather: Weather = field(default_factory=Weather)
    _random: random.Random = field(default_factory=random.Random)
    _left: int | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def turn(self, weather: Weather) -> None:
        with self._lock:
            self.weather, self._random, self._left = weather, random.Random(weather.seed), weather.times

    def throw(self, request: Request) -> tuple[float, Fault | None]:
        """A delay in seconds, and what goes wrong."""
        with self._lock:
            self.happened["requests"] += 1
            weather, dice = self.weather, self._random
            delay = dice.random() * weather.longest_delay if dice.random() < weather.delay_rate else 0.0
            fault = dice.choice(weather.kinds) if dice.random() < weather.rate else None
            if fault is None or not weather.at(request) or self._left == 0:
                return delay, None
            self._left = None if self._left is None else self._left - 1
            self.happened["faults"] += 1
            self.happened[fault.name] += 1
            return delay, fault


@contextlib.contextmanager
def gate(
    target: str, check: Pass = _as_it_is, change: Callable[[Request, Answer], Answer] = lambda request, answer: answer
) -> Iterator[Gate]:
    """A gate before `target`, http://host:port. `check` looks at requests, `change` at answers."""
    server = _Server(("127.0.0.1", 0), _Handler)
    made = Gate(
        uri=f"http://127.0.0.1:{server.server_address[1]}", target=urlsplit(target).netloc, check=check, change=change
    )
    server.gate = made
    with serving.serving(server):
        yield made


class _Server(serving.QuietServer):
    gate: Gate


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server
    _backend: http.client.HTTPConnection | None = None

    def do_GET(self) -> None:
        request = Request(
            method=self.command,
            path=self.path,
            headers={name.lower(): value for name, value in self.headers.items()},
            body=self._read_body(),
        )
        gate = self.server.gate
        delay, fault = gate.throw(request)
        time.sleep(delay)
        if fault in (Fault.SLOW_DOWN, Fault.TOO_MANY, Fault.INTERNAL):
            return self._fail(*_STATUS[fault])
        if fault is Fault.RESET:
            return self._reset()
        found = gate.check(request)
        answer = gate.change(request, self._ask(found)) if isinstance(found, Request) else found
        if fault is Fault.ANSWER_LOST:
            return self._reset()
        if fault is Fault.BAD_GATEWAY:
            return self._fail(*_STATUS[fault])
        return self._answer(answer, short=fault is Fault.SHORT)

    do_HEAD = do_PUT = do_POST = do_DELETE = do_GET

    def finish(self) -> None:
        if self._backend is not None:
            self._backend.close()
        super().finish()

    def _read_body(self) -> bytes:
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        found = bytearray()
        while size := int(self.rfile.readline().split(b";")[0], 16):
            found += self.rfile.read(size)
            self.rfile.readline()
        while self.rfile.readline().strip():
            pass
        return bytes(found)

    def _ask(self, request: Request) -> Answer:
        headers = {name: value for name, value in request.headers.items() if name not in _HOP}
        headers |= (
            {"content-length": str(len(request.body))} if request.body or request.method in ("PUT", "POST") else {}
        )
        if self._backend is None:
            self._backend = http.client.HTTPConnection(self.server.gate.target, timeout=60)
        try:
            self._backend.request(request.method, request.path, request.body, headers)
            response = self._backend.getresponse()
            kept = tuple((name, value) for name, value in response.getheaders() if name.lower() not in _HOP)
            return Answer(status=response.status, headers=kept, body=response.read(_LONGEST_BODY))
        except (OSError, http.client.HTTPException):
            self._backend.close()
            self._backend = None
            raise

    def _answer(self, answer: Answer, *, short: bool = False) -> None:
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            if name.lower() != "content-length" or self.command == "HEAD":
                self.send_header(name, value)
        if self.command != "HEAD" and answer.status != 204:
            self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command == "HEAD":
            return
        if short:
            self.wfile.write(answer.body[: len(answer.body) // 2])
            self.close_connection = True
        else:
            self.wfile.write(answer.body)

    def _fail(self, status: int, code: str) -> None:
        """S3's own words, or those of a proxy before it, which knows nothing of S3."""
        answer = s3_error(status, code)
        if status in (429, 502):
            answer = replace(answer, headers=(("Content-Type", "text/html"),), body=f"<html>{code}</html>".encode())
        self._answer(answer)

    def _reset(self) -> None:
        # With no time to linger, closing sends a reset.
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """A test has nobody to read it."""


def s3_error(status: int, code: str) -> Answer:
    """As S3 says it."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?><Error><Code>{code}</Code><Message>{code} on purpose</Message></Error>'
    )
    return Answer(status=status, headers=(("Content-Type", "application/xml"),), body=body.encode())
