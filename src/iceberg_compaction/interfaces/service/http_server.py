"""The HTTP server of a process: uvicorn with limits. A connection whose headers do not arrive in time is closed, which
uvicorn alone would keep open for ever."""

from __future__ import annotations

import contextlib
import socket
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from iceberg_compaction import errors

if TYPE_CHECKING:
    import asyncio

    from fastapi import FastAPI

_MOST_HEADER_BYTES = 64 * 1024
_MOST_CONNECTIONS = 2000
_KEEP_ALIVE_S = 30


class PatientProtocol(H11Protocol):
    """One connection. Headers of a request have `header_seconds` from its first byte on, or from the connection's."""

    def __init__(self, *args: Any, header_seconds: float, **more: Any) -> None:
        super().__init__(*args, **more)
        self._header_seconds = header_seconds
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect_headers()

    def data_received(self, data: bytes) -> None:
        is_between = self._deadline is None and (self.cycle is None or self.cycle.response_complete)
        if is_between:
            self._expect_headers()
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before or (self.cycle is not None and not self.cycle.response_complete):
            self._forget_deadline()

    def connection_lost(self, exc: Exception | None) -> None:
        self._forget_deadline()
        super().connection_lost(exc)

    def _expect_headers(self) -> None:
        self._deadline = self.loop.call_later(self._header_seconds, self._close)

    def _close(self) -> None:
        self._deadline = None
        if not self.transport.is_closing():
            self.transport.close()

    def _forget_deadline(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class ServiceServer(uvicorn.Server):
    """The server; whoever runs the process handles its signals."""

    def capture_signals(self) -> Any:
        return contextlib.nullcontext()


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens. ConfigError: the address cannot be used."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # With the protocol named, asyncio sends each part of an answer at once; else the last one waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except (OSError, OverflowError) as error:
        listener.close()
        reason = getattr(error, "strerror", None) or str(error)
        raise errors.ConfigError(
            f"The service cannot listen at {host}:{port}: {reason}; choose another address with --host or --port."
        ) from None
    listener.listen(1024)
    listener.setblocking(False)
    return listener


def make_server(app: FastAPI, *, request_seconds: float, grace_s: float) -> ServiceServer:
    """A server of an app, which is run with sockets of `listen`."""
    protocol: Any = partial(PatientProtocol, header_seconds=request_seconds)
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        limit_concurrency=_MOST_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE_S,
        timeout_graceful_shutdown=max(1, round(grace_s)),
    )
    return ServiceServer(config)
