"""Spark when nobody brought a session: embedded by default, or on a cluster or Spark Connect server that the conf
names. Conf comes in, a context or a session of Connect goes out, with the word whether it is ours to stop."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import iceberg_compaction
from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import daemon, installed, interrupts, jvm, sockets
from iceberg_compaction.storage import redact

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Mapping

    from py4j.java_gateway import JavaGateway  # type: ignore[import-untyped]
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession
    from typing_extensions import TypeIs

# A session of Spark Connect; of all others their context, because Spark SQL, which nothing here needs, is slow to load.
Spark: TypeAlias = "SparkContext | SparkSession"

DEFAULT_PYTHON = "python3"  # of executors, by Spark's own default
_PYTHON = "spark.pyspark.python"  # the setting that names another one
DEFAULTS = {
    "spark.app.name": "iceberg-compaction",
    "spark.master": "local[*]",
    "spark.port.maxRetries": "64",  # several runs on one machine, each with its UI
    "spark.sql.shuffle.partitions": "8",
    "spark.ui.showConsoleProgress": "false",
}
_EMBEDDED = {
    # It talks to nobody but itself, which must work without a network and be out of others' reach.
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    # The JVM only passes rows on. Light compilation starts it a third faster and leaves the cores to the workers.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.python.daemon.module": daemon.__name__,
}
_HOME = str(Path(iceberg_compaction.__file__).resolve().parents[1])  # the folder that this package is in
# Catalogs are ours to talk to; without Iceberg's jar Spark could not use these, only show their credentials.
_NOT_FOR_SPARK = "spark.sql.catalog."


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenSession:
    """A session in use."""

    spark: Spark
    ours: bool  # made here, so it is stopped here

    def close(self) -> None:
        if self.ours:
            self.spark.stop()


def is_connect(spark: Spark) -> TypeIs[SparkSession]:
    return type(spark).__module__.startswith("pyspark.sql.connect")


def of(session: SparkSession) -> Spark:
    """The part of a session that tasks are performed with."""
    return session if is_connect(session) else session.sparkContext


def open_session(conf: Mapping[str, str], java_process: jvm.Jvm | None = None) -> OpenSession:
    """The session already active in this process, which stays its owner's; else a new one, in a JVM of its own if this
    process has none yet."""
    with interrupts.kept():
        return _open(conf, java_process or jvm.Jvm())


def _open(conf: Mapping[str, str], java_process: jvm.Jvm) -> OpenSession:
    from pyspark import SparkConf, SparkContext

    wanted = {key: value for key, value in conf.items() if not key.startswith(_NOT_FOR_SPARK)}
    remote = _remote(wanted)
    wanted.pop("spark.remote", None)
    if remote:
        return _connect(remote, wanted)
    if SparkContext._active_spark_context is not None:
        return OpenSession(spark=SparkContext._active_spark_context, ours=False)
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # started by spark-submit: JVM, master and settings are there
        return OpenSession(spark=SparkContext(conf=SparkConf().setAll(list(wanted.items()))), ours=True)
    return OpenSession(spark=_start(wanted, java_process), ours=True)


def _remote(conf: Mapping[str, str]) -> str | None:
    return conf.get("spark.remote") or (None if "spark.master" in conf else os.environ.get("SPARK_REMOTE"))


def describe(conf: Mapping[str, str]) -> str:
    """Spark for people, by where a new session would be."""
    if remote := _remote(conf):
        return f"Spark Connect at {_target(remote)}"
    master = conf.get("spark.master", DEFAULTS["spark.master"])
    return "Spark" if is_local(master) or "PYSPARK_GATEWAY_PORT" in os.environ else f"Spark on {master}"


def check_packages(conf: Mapping[str, str]) -> None:
    """ConfigError: a new session would be one of Spark Connect, and this Python lacks packages for it."""
    if remote := _remote(conf):
        installed.check_connect(_target(remote))


def _target(remote: str) -> str:
    return remote.split(";")[0]  # what follows may hold a token


def is_active() -> bool:
    """Whether this process has a context already, whoever made it."""
    spark = sys.modules.get("pyspark")
    return spark is not None and spark.SparkContext._active_spark_context is not None


def forget() -> None:
    """The JVM has ended without a stop of its context: the next session starts another one."""
    from pyspark import SparkContext

    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None


def is_local(master: str) -> bool:
    """Whether executors run inside this machine's one JVM, and so with this Python installation and these disks."""
    return master == "local" or master.startswith("local[")


def runs_here(spark: Spark) -> bool:
    """Whether the executors are local."""
    return not is_connect(spark) and is_local(spark.master or "")


def is_embedded(conf: Mapping[str, str]) -> bool:
    """Whether a new session would be in a JVM of this process."""
    elsewhere = _remote(conf) or "PYSPARK_GATEWAY_PORT" in os.environ
    return not elsewhere and is_local(conf.get("spark.master", DEFAULTS["spark.master"]))


def needs_daemon(conf: Mapping[str, str]) -> bool:
    """Whether a new embedded session would start our daemon with variables of ours. Those that the conf adds may have
    to be there when modules are imported."""
    from pyspark import SparkContext

    special = any(key.startswith(("spark.python.daemon.module", "spark.executorEnv.")) for key in conf)
    return SparkContext._gateway is None and not special


def worker_environment(conf: Mapping[str, str]) -> dict[str, str]:
    """The variables of embedded workers that Python and its libraries read when they are imported."""
    threads = os.environ.get("OMP_NUM_THREADS") or conf.get("spark.task.cpus", "1")  # as Spark does
    seed = os.environ.get("PYTHONHASHSEED", "0")
    return {**_environment(local=True), "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": threads}


def launch(conf: Mapping[str, str], java_process: jvm.Jvm) -> None:
    """Only start the JVM that a session on a cluster will need, if it will need one."""
    from pyspark import SparkContext

    if not _remote(conf) and "PYSPARK_GATEWAY_PORT" not in os.environ and SparkContext._gateway is None:
        java_process.launch({**DEFAULTS, **conf})


def _start(wanted: Mapping[str, str], java_process: jvm.Jvm) -> SparkContext:
    from pyspark import SparkConf, SparkContext

    local = is_local(wanted.get("spark.master", DEFAULTS["spark.master"]))
    # SparkContext knows whether this process has a JVM, and nothing public does.
    fresh = SparkContext._gateway is None
    conf = {**DEFAULTS, **({**_EMBEDDED, **sockets.conf(fresh=fresh)} if local else {}), **wanted}
    try:
        with jvm.environment(_environment(local)):
            gateway = java_process.launch(conf) if fresh else None
            settings = (
                SparkConf(loadDefaults=False).setAll(list(conf.items())) if local else _cluster_conf(conf, gateway)
            )
            context = SparkContext(conf=settings, gateway=gateway)
    except errors.CompactionError:
        raise
    except Exception as error:  # whatever Spark raises on its way up, from py4j or its own
        reason = _reason(error, java_process.said)
        raise errors.SetupError(f"Spark did not start on {conf['spark.master']}: {reason}") from error
    if not local and (python := context.getConf().get(_PYTHON)) is not None:
        context.pythonExec = python  # spark-submit reads it from the conf, a context only from a variable
    return context


def has_chosen_python(context: SparkContext) -> bool:
    """Whether somebody has named the Python of executors."""
    named = "PYSPARK_PYTHON" in os.environ or context.getConf().contains(_PYTHON)
    return named or context.pythonExec != DEFAULT_PYTHON


def _cluster_conf(conf: Mapping[str, str], gateway: JavaGateway | None) -> SparkConf:
    """Our settings over those of spark-defaults.conf, which a cluster depends on. They are in the JVM, unless it was
    started for an embedded Spark, which is the same everywhere. `spark.submit.*` are others there already."""
    from pyspark import SparkConf

    settings = SparkConf(_jvm=None if gateway is None else gateway.jvm)
    if is_local(settings.get("spark.master", "") or ""):
        return SparkConf(loadDefaults=False).setAll(list(conf.items()))
    return settings.setAll([(key, value) for key, value in conf.items() if not key.startswith("spark.submit.")])


def _environment(local: bool) -> dict[str, str]:
    if not local:
        return {}
    # Workers must run on this very Python, whatever the variables or the PATH say; only the environment tells Spark.
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    # They must find this package, too, however this process did.
    python["PYTHONPATH"] = os.pathsep.join(filter(None, (os.environ.get("PYTHONPATH"), _HOME)))
    # The UI listens on all interfaces unless it finds this variable.
    return python | {"SPARK_LOCAL_IP": os.environ.get("SPARK_LOCAL_IP", "127.0.0.1")}


def _connect(remote: str, wanted: Mapping[str, str]) -> OpenSession:
    from pyspark.sql import SparkSession

    target = _target(remote)
    installed.check_connect(target)
    try:
        from pyspark.sql.connect.session import SparkSession as ConnectSession

        ours = ConnectSession.getActiveSession() is None
        session = SparkSession.builder.remote(remote).config(map=dict(wanted)).getOrCreate()
    except ImportError as error:
        raise errors.SetupError(f"Spark Connect at {target} needs more packages: {_reason(error)}") from error
    except Exception as error:  # gRPC's and Spark's own errors share no class
        raise errors.SetupError(f"No Spark Connect session at {target}: {_reason(error)}") from error
    return OpenSession(spark=session, ours=ours)


def _reason(error: Exception, said: deque[str] | None = None) -> str:
    """The first line of the error, or else of what the JVM said before it went away, without secrets."""
    thrown = getattr(error, "java_exception", None)
    message = str(thrown.getMessage() if thrown is not None else error).strip() or type(error).__name__
    if thrown is None and said:
        message = next((line.partition("Exception: ")[2] for line in said if "Exception: " in line), " ".join(said))
    return redact.redact_text(message.splitlines()[0]).rstrip(".") + "."
