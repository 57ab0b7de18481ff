"""A Hive metastore for tests, out of the jars that PySpark brings: Hive's own server on an embedded Derby database, in
a JVM that ends with this process. It has the tables of Hive's locks, without which no client commits."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.factories import servers

if TYPE_CHECKING:
    from collections.abc import Iterator

_READY_SECONDS = 90.0
_OPENED = ("java.base/java.lang", "java.base/java.net", "java.base/java.util")


@dataclass(frozen=True, slots=True, kw_only=True)
class Metastore:
    """A running metastore, and a folder for files."""

    uri: str
    folder: Path


@contextlib.contextmanager
def running() -> Iterator[Metastore]:
    """A metastore of one's own."""
    from py4j.java_gateway import GatewayParameters, JavaGateway

    with tempfile.TemporaryDirectory(prefix="metastore-") as name:
        folder, port = Path(name), servers.free_port()
        gateway_port, process = _start_jvm(folder)
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=gateway_port))
        try:
            gateway.jvm.org.apache.hadoop.hive.metastore.txn.TxnDbUtil.prepDb(
                gateway.jvm.org.apache.hadoop.hive.conf.HiveConf()
            )
            threading.Thread(target=_serve, args=(gateway, port), daemon=True).start()
            _wait_for(port, folder)
            yield Metastore(uri=f"thrift://127.0.0.1:{port}", folder=folder)
        finally:
            with process:
                process.kill()
            gateway.close()


def _start_jvm(folder: Path) -> tuple[int, subprocess.Popen[bytes]]:
    import pyspark

    jars = Path(pyspark.__file__).parent / "jars"
    settings = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={folder}/database;create=true",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
        "datanucleus.schema.autoCreateAll": "true",
        "datanucleus.connectionPoolingType": "HikariCP",
        "hive.metastore.schema.verification": "false",
        "hive.metastore.warehouse.dir": f"{folder}/hive",
        "hive.async.log.enabled": "false",
        "hive.log.dir": str(folder),
        "derby.stream.error.file": f"{folder}/derby.log",
    }
    options = ["-Xmx384m", *(f"--add-opens={each}=ALL-UNNAMED" for each in _OPENED)]
    java = Path(os.environ["JAVA_HOME"]) / "bin" / "java" if os.environ.get("JAVA_HOME") else Path("java")
    properties = [f"-D{key}={value}" for key, value in settings.items()]
    command = [str(java), *options, *properties, "-cp", f"{jars}/*", "py4j.GatewayServer", "--die-on-broken-pipe", "0"]
    with (folder / "jvm.log").open("wb") as log:
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, cwd=folder)
    assert process.stdout is not None
    return int(process.stdout.readline()), process


def _serve(gateway: Any, port: int) -> None:
    arguments = gateway.new_array(gateway.jvm.java.lang.String, 2)
    arguments[0], arguments[1] = "-p", str(port)
    with contextlib.suppress(Exception):  # the JVM ends while it serves
        gateway.jvm.org.apache.hadoop.hive.metastore.HiveMetaStore.main(arguments)


def _wait_for(port: int, folder: Path) -> None:
    until = time.monotonic() + _READY_SECONDS
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.1)
    raise RuntimeError((folder / "jvm.log").read_text(errors="replace")[-2000:])
