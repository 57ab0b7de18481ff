"""Object stores of Google and Microsoft for tests: fake-gcs-server and Azurite, each a process on a free loopback port.
Their programs come from scripts/ensure_gcs.sh and scripts/ensure_azurite.sh."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import requests
from pyarrow import fs
from tests.factories import servers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
_READY_SECONDS = 60.0
# Azurite's only account, with the key that its documentation gives.
ACCOUNT = "devstoreaccount1"
ACCOUNT_KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="


@dataclass(frozen=True, slots=True, kw_only=True)
class Cloud:
    """A running store with a bucket."""

    warehouse: str
    properties: dict[str, str]


@contextlib.contextmanager
def gcs() -> Iterator[Cloud]:
    """Google's, which takes any token."""
    port = servers.free_port()
    endpoint = f"http://127.0.0.1:{port}"
    options = ["-scheme", "http", "-host", "127.0.0.1", "-port", str(port), "-backend", "memory", "-log-level", "error"]
    with _started("ensure_gcs.sh", port, [*options, "-public-host", f"127.0.0.1:{port}", "-external-url", endpoint]):
        requests.post(f"{endpoint}/storage/v1/b", json={"name": "lake"}, timeout=10).raise_for_status()
        properties = {"gcs.service.host": endpoint, "gcs.oauth2.token": "any", "gcs.oauth2.token-expires-at": _LATER}
        yield Cloud(warehouse="gs://lake/warehouse", properties=properties)


_LATER = "4102444800000"


@contextlib.contextmanager
def azure() -> Iterator[Cloud]:
    """Microsoft's, which checks keys."""
    port = servers.free_port()
    address = f"127.0.0.1:{port}"
    options = [
        "--blobHost",
        "127.0.0.1",
        "--blobPort",
        str(port),
        "--silent",
        "--skipApiVersionCheck",
        "--inMemoryPersistence",
    ]
    with _started("ensure_azurite.sh", port, [*options, "--disableTelemetry"]):
        connection = connection_string(f"http://{address}/{ACCOUNT}")
        fs.AzureFileSystem(
            account_name=ACCOUNT,
            account_key=ACCOUNT_KEY,
            blob_storage_authority=address,
            blob_storage_scheme="http",
            dfs_storage_authority=address,
            dfs_storage_scheme="http",
        ).create_dir("lake")
        yield Cloud(
            warehouse=f"abfss://lake@{ACCOUNT}.dfs.core.windows.net/warehouse",
            properties={"adls.connection-string": connection},
        )


def connection_string(endpoint: str, key: str = ACCOUNT_KEY) -> str:
    """As Azure's own tools write it."""
    return f"DefaultEndpointsProtocol=http;AccountName={ACCOUNT};AccountKey={key};BlobEndpoint={endpoint};"


@contextlib.contextmanager
def _started(script: str, port: int, options: Sequence[str]) -> Iterator[None]:
    program = subprocess.run([_SCRIPTS / script], capture_output=True, text=True, check=True).stdout.strip()
    if not program:
        assert not os.environ.get("ICEBERG_COMPACTION_NO_SKIP"), f"{script} found no server"
        pytest.skip(f"{script} found no server")
    with tempfile.TemporaryDirectory(prefix="cloud-") as folder, (Path(folder) / "log").open("wb") as log:
        process = subprocess.Popen([program, *options], stdout=log, stderr=log, cwd=folder, env=os.environ)
        try:
            until = time.monotonic() + _READY_SECONDS
            while True:
                assert process.poll() is None, (Path(folder) / "log").read_text()[-2000:]
                with contextlib.suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                assert time.monotonic() < until
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            process.wait(20)
