"""Spark's daemon, the process that Python workers are forked from, before Spark asks for it: it imports while the JVM
starts. Spark's own request is then a short process that hands its streams over and waits. If nobody takes them, this
process becomes the daemon itself."""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WAITING = "--waiting"  # the argument of a daemon that Spark has not asked for yet
_ADDRESS = "ICEBERG_COMPACTION_DAEMON"  # the variable with the socket at which it waits
_LONGEST = 103  # bytes of a socket's path; some systems allow a few more
_END_SECONDS = 5.0
_STREAMS = (0, 1, 2)
_TAKEN = b"."
_SIZE = 4  # bytes of a request's length


class EarlyDaemon:
    """The daemon, for the process that will start Spark. `variables` tell the JVM's processes where it waits."""

    def __init__(self) -> None:
        self.variables: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """`environment`: all variables of workers that are read when modules are imported."""
        folder = tempfile.mkdtemp(prefix="spark-")  # this user's alone
        address = str(Path(folder) / "daemon.sock")
        if len(os.fsencode(address)) > _LONGEST:
            os.rmdir(folder)
            return
        self.variables[_ADDRESS] = address
        self._process = subprocess.Popen(
            command,
            env={**os.environ, **environment, **self.variables},
            stdin=subprocess.PIPE,  # while this is open, the request may still come
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def close(self) -> None:
        """Ends it, when no session needs it any more."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.communicate(timeout=_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
        shutil.rmtree(Path(self.variables[_ADDRESS]).parent, ignore_errors=True)


def hand_over(paths: Sequence[str]) -> bool:
    """In the process that Spark starts as its daemon: let the one that waits be the daemon, with the streams and the
    environment of this process, and return when it has ended. False: none waits."""
    address = os.environ.pop(_ADDRESS, None)
    if address is None:
        return False
    request = json.dumps({"environment": dict(os.environ), "paths": list(paths)}).encode()
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.connect(address)
        socket.send_fds(connection, [len(request).to_bytes(_SIZE, "big")], _STREAMS)
        connection.sendall(request)
        if connection.recv(1) == _TAKEN:
            connection.recv(1)
            return True
    return False


class Waiting:
    """In the daemon: from before its imports to the request."""

    def __init__(self) -> None:
        self._address = os.environ.pop(_ADDRESS)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self._address)
        self._listener.listen(1)
        self._connection: socket.socket | None = (
            None  # open as long as this process lives, which the other end waits for
        )

    def take_over(self) -> bool:
        """Wait for the request, and go on in its name. False: it will never come."""
        ready, _, _ = select.select([self._listener.fileno(), 0], [], [])
        if self._listener.fileno() not in ready:
            return False
        self._connection, _ = self._listener.accept()
        self._listener.close()
        os.unlink(self._address)
        head, streams, _, _ = socket.recv_fds(self._connection, _SIZE, len(_STREAMS))
        with self._connection.makefile("rb") as stream:
            request = json.loads(stream.read(int.from_bytes(head, "big")))
        for descriptor, stream_number in zip(streams, _STREAMS, strict=True):
            os.dup2(descriptor, stream_number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(request["environment"])
        sys.path[:] = request["paths"]
        self._connection.sendall(_TAKEN)
        return True
