"""Starts Spark's JVM quietly: what it and the Python workers write becomes log records of this module's logger (level
DEBUG), so that standard output and error stay the caller's own."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Iterator, Mapping

    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]

log = logging.getLogger(__name__)

# Only these must be known when the JVM starts. The rest is set inside it: a command line is public on its machine.
_AT_LAUNCH = re.compile(r"spark\.(master|driver\.|jars|submit\.|plugins|yarn\.|kubernetes\.)")


def launch(conf: Mapping[str, str], said: deque[str]) -> JavaGateway:
    """A new JVM with a gateway to it. What it says goes to the log, the last lines of it to `said`."""
    from pyspark import SparkConf
    from pyspark.java_gateway import launch_gateway

    at_launch = SparkConf(loadDefaults=False)
    for key, value in conf.items():
        if _AT_LAUNCH.match(key) and not redact.is_secret(key):
            at_launch.set(key, value)
    read, write = os.pipe()
    threading.Thread(target=_listen, args=(read, said), daemon=True, name="spark-jvm-output").start()
    streams: dict[str, Any] = {"stdout": write, "stderr": subprocess.STDOUT}
    try:
        return launch_gateway(at_launch, popen_kwargs=streams)  # type: ignore[no-untyped-call]
    finally:
        os.close(write)


def _listen(descriptor: int, said: deque[str]) -> None:
    with os.fdopen(descriptor, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            said.append(line.strip())
            log.debug("%s", line.rstrip())


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
                del os.environ[key]
            else:
                os.environ[key] = value
