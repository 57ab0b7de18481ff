"""A proxy that loses things, to stand between a client and a real server: for tests of what a client believes when an
answer does not come. Plain HTTP on a loopback port."""

from __future__ import annotations

import contextlib
import enum
import http.client
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from tests.factories import serving

if TYPE_CHECKING:
    from collections.abc import Iterator


class Fault(enum.Enum):
    """What befalls a POST; other requests pass."""

    NONE = "none"
    LOSE_REQUEST = "the request does not arrive, the connection drops"
    LOSE_ANSWER = "the server does its work, the connection drops before the answer"
    HANG = "nothing arrives and nothing comes back, the connection stays open"
    GATEWAY_TIMEOUT = "the server does its work, the answer is 504"
    TOO_MANY = "nothing arrives, the answer is 429"


@dataclass(slots=True, kw_only=True)
class Proxy:
    """A running proxy; `fault` may be changed at any time."""

    uri: str
    fault: Fault = Fault.NONE
    posts: int = 0
    released: threading.Event = field(default_factory=threading.Event)  # ends all hanging


@contextlib.contextmanager
def lossy_proxy(target: str) -> Iterator[Proxy]:
    """A proxy in front of `target`, http://host:port."""
    server = serving.QuietServer(("127.0.0.1", 0), _Handler)
    proxy = Proxy(uri=f"http://127.0.0.1:{server.server_address[1]}")
    server.proxy, server.target = proxy, urlsplit(target).netloc  # type: ignore[attr-defined]
    with serving.serving(server):
        try:
            yield proxy
        finally:
            proxy.released.set()


class _Handler(BaseHTTPRequestHandler):
    server: Any

    def do_GET(self) -> None:
        self._forward()

    do_HEAD = do_DELETE = do_GET

    def do_POST(self) -> None:
        proxy = self.server.proxy
        proxy.posts += 1
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if proxy.fault is Fault.NONE:
            self._forward(body)
        elif proxy.fault is Fault.LOSE_ANSWER:
            self._ask(body)
        elif proxy.fault is Fault.GATEWAY_TIMEOUT:
            self._ask(body)
            self._answer(504, b"")
        elif proxy.fault is Fault.TOO_MANY:
            self._answer(429, b"")
        elif proxy.fault is Fault.HANG:
            proxy.released.wait(60)
        self.close_connection = True

    def _forward(self, body: bytes = b"") -> None:
        status, answer = self._ask(body)
        self._answer(status, answer)

    def _ask(self, body: bytes) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.server.target, timeout=30)
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in ("host", "accept-encoding")
        }
        try:
            connection.request(self.command, self.path, body, headers)
            response = connection.getresponse()
            return response.status, response.read()
        finally:
            connection.close()

    def _answer(self, status: int, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """A test has nobody to read it."""
