"""Reports of tasks from other processes: the driver listens on a port of its own, and each worker that it can be
reached from sends a line now and then. Spark itself brings nothing from a task to the driver before the task ends. A
line holds a token, the number of a task and bytes; where none comes through, progress is counted by whole tasks."""

from __future__ import annotations

import contextlib
import hmac
import secrets
import selectors
import socket
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from typing_extensions import Self

_CONNECT_SECONDS = 5.0
_LONGEST = 256  # bytes of a line
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """Where reports go to. The token tells those of this run from anything else that may be sent there."""

    host: str
    port: int
    token: str


def sender(address: Address, task_id: int) -> Callable[[int], None]:
    """In a worker: sends the bytes that are done of a task. Connects with the first report, so that short tasks never
    do. Raises OSError if the driver cannot be reached."""
    open_socket: list[socket.socket] = []

    def send(done: int) -> None:
        if not open_socket:
            open_socket.append(socket.create_connection((address.host, address.port), _CONNECT_SECONDS))
        open_socket[0].sendall(f"{address.token} {task_id} {done}\n".encode())

    return send


class ReportListener:
    """In the driver, until it is closed. `bind`: the address to listen at; `host`: its name for workers. Raises OSError
    if nothing can listen there."""

    def __init__(self, bind: str, host: str) -> None:
        family = socket.AF_INET6 if ":" in bind else socket.AF_INET
        self._server = socket.create_server((bind, 0), family=family)
        self._server.setblocking(False)
        self.address = Address(host=host, port=self._server.getsockname()[1], token=secrets.token_hex(16))
        self._changed: dict[int, int] = {}
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._listen, daemon=True, name="progress-listener")
        self._thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._closed.set()
        with contextlib.suppress(OSError), socket.create_connection(self._server.getsockname()[:2], _CONNECT_SECONDS):
            pass  # so that it does not wait any longer
        self._thread.join()

    def take(self) -> dict[int, int]:
        """The bytes that are done of each task that has sent a report since the last call."""
        with self._lock:
            changed, self._changed = self._changed, {}
        return changed

    def _listen(self) -> None:
        with selectors.DefaultSelector() as selector, self._server:
            selector.register(self._server, selectors.EVENT_READ)
            rests: dict[socket.socket, bytes] = {}  # of lines that are not complete yet
            while not self._closed.is_set():
                for key, _ in selector.select(_POLL_SECONDS):
                    if key.fileobj is self._server:
                        with contextlib.suppress(OSError):
                            connection, _ = self._server.accept()
                            connection.setblocking(False)
                            selector.register(connection, selectors.EVENT_READ)
                            rests[connection] = b""
                    elif isinstance(key.fileobj, socket.socket):
                        self._receive(key.fileobj, rests, selector)
            for connection in rests:
                connection.close()

    def _receive(
        self, connection: socket.socket, rests: dict[socket.socket, bytes], selector: selectors.BaseSelector
    ) -> None:
        try:
            data = connection.recv(4096)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, rest = (rests[connection] + data).split(b"\n")
        if data and len(rest) <= _LONGEST and all(map(self._enter, lines)):
            rests[connection] = rest
            return
        selector.unregister(connection)
        del rests[connection]
        connection.close()

    def _enter(self, line: bytes) -> bool:
        """Whether the line is a report of this run."""
        match line.split():
            case [token, task_id, done] if (
                hmac.compare_digest(token, self.address.token.encode()) and task_id.isdigit() and done.isdigit()
            ):
                with self._lock:
                    self._changed[int(task_id)] = int(done)
                return True
        return False
