"""Starts Spark's JVM quietly: what it and the Python workers write becomes log records of this module's logger (level
DEBUG), so that standard output and error stay the caller's own. A JVM that turns out to be needless is ended while it
comes up."""

from __future__ import annotations

import logging
import os
import re
import shlex
import subprocess
import tempfile
import threading
from collections import deque
from contextlib import contextmanager, suppress
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import java
from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

_POLL_SECONDS = 0.02
_END_SECONDS = 5.0  # for a JVM to remove its folders
# Only these must be known when the JVM starts. The rest is set inside it: a command line is public on its machine.
_AT_LAUNCH = re.compile(r"spark\.(master|driver\.|jars|submit\.|plugins|yarn\.|kubernetes\.)")
# A terminal sends Ctrl-C to all processes; the JVM leaves it to the one that started it. The shell sees to that, as
# Python code between fork and exec could wait for ever for a lock of another thread.
WITHOUT_INTERRUPTS = ("/bin/sh", "-c", 'trap "" INT; exec "$0" "$@"')


class Jvm:
    """One JVM, from its launch on. `said`: the last lines that it wrote. `variables`: of its environment, as they are
    when it is launched."""

    def __init__(self, variables: Mapping[str, str] = MappingProxyType({})) -> None:
        self._variables = variables
        self.said: deque[str] = deque(maxlen=20)
        self._process: subprocess.Popen[bytes] | None = None
        self._gateway: JavaGateway | None = None
        self._unwanted = threading.Event()
        self._lock = threading.Lock()  # of whoever launches

    def launch(self, conf: Mapping[str, str]) -> JavaGateway:
        """Start it and connect to it; the second time it is there. ConfigError: there is no Java that Spark can run on;
        CancelledError: it was given up."""
        with self._lock:
            if self._gateway is None:
                self._gateway = self._launch(conf)
            return self._gateway

    def end(self) -> bool:
        """End it now, wherever it is, as nobody needs it; it removes its folders. False: nothing was started here."""
        self._unwanted.set()
        with self._lock:  # whoever launches it ends it
            if self._gateway is None or self._process is None:
                return False
            _end(self._process)
        return True

    def kill(self) -> None:
        """End it, whatever it does."""
        self._unwanted.set()
        if self._process is not None:
            self._process.kill()

    def _launch(self, conf: Mapping[str, str]) -> JavaGateway:
        from pyspark import java_gateway
        from pyspark.serializers import UTF8Deserializer, read_int

        with tempfile.TemporaryDirectory(prefix="spark-") as folder:
            address = Path(folder) / "address"
            self._process = process = self._start(_command(conf), address)
            try:
                java.check_java()  # while it comes up
                while process.poll() is None and not address.exists():
                    if self._unwanted.wait(_POLL_SECONDS):
                        raise errors.CancelledError("Spark is not needed any more.")
                with address.open("rb") as stream:
                    port, secret = read_int(stream), UTF8Deserializer().loads(stream)  # type: ignore[no-untyped-call]
            except BaseException:
                _end(process)
                raise
        with environment({"PYSPARK_GATEWAY_PORT": str(port), "PYSPARK_GATEWAY_SECRET": secret}):
            gateway = java_gateway.launch_gateway()  # type: ignore[no-untyped-call]
        gateway.proc = process
        return gateway

    def _start(self, command: list[str], address: Path) -> subprocess.Popen[bytes]:
        read, write = os.pipe()
        threading.Thread(target=self._listen, args=(read,), daemon=True, name="spark-jvm-output").start()
        variables = {**self._variables, "SPARK_CONNECT_MODE": "0", "_PYSPARK_DRIVER_CONN_INFO_PATH": str(address)}
        try:
            return subprocess.Popen(
                [*WITHOUT_INTERRUPTS, *command],
                env={**os.environ, **variables},
                stdin=subprocess.PIPE,  # the JVM ends when this closes
                stdout=write,
                stderr=subprocess.STDOUT,
            )
        finally:
            os.close(write)

    def _listen(self, descriptor: int) -> None:
        with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
            for line in lines:
                self.said.append(line.strip())
                log.debug("%s", line.rstrip())


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()  # it removes its folders
    try:
        process.communicate(timeout=_END_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _command(conf: Mapping[str, str]) -> list[str]:
    from pyspark import find_spark_home

    home = find_spark_home._find_spark_home()  # type: ignore[no-untyped-call]
    command = [str(Path(home) / "bin" / "spark-submit")]
    for key, value in conf.items():
        if _AT_LAUNCH.match(key) and not redact.is_secret(key):
            command += ["--conf", f"{key}={value}"]
    return command + shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))


@contextmanager
def environment(changes: Mapping[str, str]) -> Iterator[None]:
    """Environment variables that Spark reads while it starts and has no other way to be told."""
    before = {key: os.environ.get(key) for key in changes}
    os.environ.update(changes)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                with suppress(KeyError):
                    del os.environ[key]
            else:
                os.environ[key] = value
