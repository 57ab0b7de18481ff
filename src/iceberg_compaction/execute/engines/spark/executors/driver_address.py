"""The address at which workers can reach this process for their reports: the one that Spark's driver has; on Spark
Connect, where the driver is elsewhere, the one from which this process reaches the server."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines import progress_channel
from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_LOOPBACK = "127.0.0.1"


def listener(spark: Spark) -> progress_channel.ReportListener | None:
    """A listener that workers may reach; None: there is no address for it."""
    try:
        bind, host = _addresses(spark)
        return progress_channel.ReportListener(bind, host)
    except OSError:
        return None


def _addresses(spark: Spark) -> tuple[str, str]:
    """The address to listen at, and its name for workers."""
    if spark_session.is_connect(spark):
        own = _towards(spark.client.host)  # type: ignore[operator] # a property that is decorated
        return own, own
    if spark_session.is_local(spark.master or ""):
        return _LOOPBACK, _LOOPBACK
    conf = spark.getConf()
    host = str(conf.get("spark.driver.host") or _LOOPBACK)
    return str(conf.get("spark.driver.bindAddress") or host), host


def _towards(host: str) -> str:
    """The address of this machine on its way to a host. Nothing is sent."""
    family, kind, protocol, _, address = socket.getaddrinfo(host, 9, type=socket.SOCK_DGRAM)[0]
    with socket.socket(family, kind, protocol) as probe:
        probe.connect(address)
        return str(probe.getsockname()[0])
