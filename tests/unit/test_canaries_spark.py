"""Canaries for Spark: parts of pyspark that are not promised to stay, and settings and sentences of its JVM, which are
looked up in the jar that comes with it. None of them starts a JVM."""

from __future__ import annotations

import inspect
import os
import re
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest
from pyspark import SparkContext, daemon, find_spark_home, java_gateway, worker
from tests.factories import canaries

from iceberg_compaction.execute.engines.spark import (
    daemon as own_daemon,
)
from iceberg_compaction.execute.engines.spark import (
    interrupts,
    jvm,
    labels,
    sockets,
    spark_session,
    submission,
    worker_watch,
)

HOME = Path(pyspark.__file__).parent


def _class_file(name: str) -> bytes:
    """The class file of Spark's core, with all its texts in it."""
    (jar,) = (HOME / "jars").glob("spark-core_*.jar")
    with zipfile.ZipFile(jar) as archive:
        return archive.read(f"org/apache/spark/{name}.class")


def test_the_main_function_of_a_worker_has_its_connection_in_infile() -> None:
    code = inspect.unwrap(worker.main).__code__
    reliance = "pyspark.worker.main(infile, ...) reads from the connection to the JVM"
    canaries.holds((code.co_name, code.co_varnames[0]) == ("main", "infile"), reliance, worker_watch)
    canaries.holds(
        "infile = os.fdopen(" in inspect.getsource(daemon.worker), "infile is a file with a descriptor", worker_watch
    )


def test_the_connection_is_found_from_below_the_main_function() -> None:
    """The other half: a frame of that name and with that variable is found, however deep below it the task is."""

    def main(infile: object) -> int | None:
        return task()

    def task() -> int | None:
        return worker_watch._find_connection()

    read, write = os.pipe()
    with os.fdopen(read, "rb") as infile:
        canaries.holds(main(infile) == read, "Python shows the variables of calling frames", worker_watch)
    os.close(write)
    assert sys._getframe().f_code.co_name != "main"
    assert task() is None


def test_spark_context_knows_its_jvm() -> None:
    for name in ("_active_spark_context", "_gateway", "_jvm"):
        reliance = f"SparkContext.{name} is None without a JVM"
        canaries.holds(name in SparkContext.__annotations__ and hasattr(SparkContext, name), reliance, spark_session)
    source = inspect.getsource(SparkContext)
    canaries.holds("SparkContext._active_spark_context = None" in source, "stop() forgets the context", spark_session)
    canaries.holds(
        "SparkContext._gateway = gateway or launch_gateway(conf)" in source,
        "SparkContext takes a gateway and keeps it in _gateway",
        spark_session,
    )


def test_a_jvm_of_ours_is_connected_as_sparks_own_is() -> None:
    source = inspect.getsource(java_gateway.launch_gateway)
    canaries.holds(
        'env["_PYSPARK_DRIVER_CONN_INFO_PATH"] = conn_info_file' in source and "stdin" in source,
        "a JVM writes its address to a file that the environment names, and ends with its standard input",
        jvm,
    )
    canaries.holds("read_int(info)" in source, "the address of a JVM is a port and a secret", jvm)
    canaries.holds(
        '"PYSPARK_GATEWAY_PORT" in os.environ' in source and '"PYSPARK_GATEWAY_SECRET"' in source,
        "PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET tell of a JVM that is there",
        spark_session,
    )
    canaries.holds(
        (Path(find_spark_home._find_spark_home()) / "bin" / "spark-submit").exists(), "Spark's home has a command", jvm
    )


def test_sparks_handler_of_ctrl_c_is_defined_in_a_module_of_pyspark() -> None:
    source = inspect.getsource(SparkContext)
    canaries.holds(
        "def signal_handler(" in source and "signal.signal(signal.SIGINT, signal_handler)" in source,
        "SparkContext handles Ctrl-C with a function of its own module",
        interrupts,
    )
    canaries.holds(SparkContext.__module__.startswith("pyspark."), "pyspark's modules begin with pyspark.", interrupts)


def test_sessions_of_spark_connect_are_of_another_module() -> None:
    path = HOME / "sql" / "connect" / "session.py"
    canaries.holds(
        path.exists() and "\nclass SparkSession:" in path.read_text(),
        "SparkSession of Spark Connect is defined in pyspark.sql.connect",
        labels,
    )


def test_workers_come_from_a_daemon_of_ours() -> None:
    source = inspect.getsource(daemon)
    canaries.holds(callable(daemon.manager), "pyspark.daemon.manager is the daemon", own_daemon)
    canaries.holds("worker_main" in source and "os.fork()" in source, "workers are forked from the daemon", own_daemon)
    canaries.holds(
        b"spark.python.daemon.module" in _class_file("internal/config/Python$"),
        "Spark knows the setting spark.python.daemon.module",
        spark_session,
    )


@pytest.mark.parametrize("key", [sockets._ENABLED, sockets._FOLDER])
def test_spark_knows_the_settings_for_sockets(key: str) -> None:
    canaries.holds(key.encode() in _class_file("internal/config/Python$"), f"Spark knows the setting {key}", sockets)


def test_spark_reads_its_python_from_the_environment() -> None:
    canaries.holds(
        '"PYSPARK_PYTHON"' in inspect.getsource(SparkContext),
        "Spark takes its workers' Python from PYSPARK_PYTHON",
        spark_session,
    )


def test_spark_says_in_known_words_that_it_gave_a_task_up() -> None:
    texts = _class_file("scheduler/TaskSetManager")
    formats = [text.decode() for text in re.findall(rb"Task %d in stage %s failed %d times", texts)]
    told = [text % (3, "1.0", 4) for text in formats]
    canaries.holds(
        told and submission._GAVE_UP.search(told[0]), "Spark says: Task 3 in stage 1.0 failed 4 times", submission
    )


def test_spark_calls_a_lost_executor_by_this_name() -> None:
    texts = _class_file("ExecutorLostFailure")
    canaries.holds(b"ExecutorLostFailure" in texts, "Spark says ExecutorLostFailure of a lost executor", submission)


def test_tracebacks_of_the_jvm_begin_with_known_words() -> None:
    source = (HOME / "errors" / "exceptions" / "captured.py").read_text()
    for marker, text in zip(
        submission._STACK_TRACES, (source.encode(), _class_file("scheduler/TaskSetManager")), strict=True
    ):
        canaries.holds(marker.encode() in text, f'Spark puts "{marker}" before Java\'s stack traces', submission)
