"""A look at the executors of a cluster before any work: one task tells which Python they have and what it lacks. So a
cluster that cannot perform tasks is one sentence, and not a failure of every group. On a local master there is no need:
executors run this very Python."""

from __future__ import annotations

import logging
import re
import sys
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import shipping, spark_session, submission
from iceberg_compaction.execute.engines.spark.executors import facts
from iceberg_compaction.model import plurals

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_log = logging.getLogger(__name__)
_VERSIONS = re.compile(r"PYTHON_VERSION_MISMATCH\].*?version: (\S+) than that in driver: (\S+?),")
_NO_PROGRAM = re.compile(r'Cannot run program "([^"]+)"')
_NO_MODULE = re.compile(r"No module named '([^'.]+)")


class UnfitPythonError(errors.SetupError):
    """The Python of executors cannot perform tasks."""


def check(spark: Spark) -> None:
    """Raises SetupError if executors cannot perform tasks. If nobody has chosen their Python, it is the one at the
    path of this process, where executors have it and it is fit, and else Spark's default."""
    if spark_session.is_connect(spark):
        shipping.ship(spark)
        _judge(_on_connect(spark), spark)
        return
    if spark_session.is_local(spark.master or ""):
        return
    shipping.ship(spark)
    if spark_session.has_chosen_python(spark):
        _judge(_on_context(spark), spark)
        return
    spark.pythonExec = sys.executable
    try:
        _judge(_on_context(spark), spark)
    except UnfitPythonError as error:
        _log.info("Executors have no Python like this one: %s", error)
        spark.pythonExec = spark_session.DEFAULT_PYTHON
        _judge(_on_context(spark), spark)


def _on_context(context: SparkContext) -> facts.ExecutorFacts:
    collect = facts.collector()

    def collect_facts(_: Iterable[int]) -> Iterator[str]:
        yield collect()

    try:
        context.setJobDescription("iceberg-compaction: a look at the Python of executors")
        (text,) = context.parallelize([0], 1).mapPartitions(collect_facts).collect()
    except Exception as error:
        raise _translate(error, context) from error
    finally:
        context.setJobDescription(None)  # type: ignore[arg-type] # this is how it is taken away again
    return facts.parse(text)


def _on_connect(session: SparkSession) -> facts.ExecutorFacts:
    collect = facts.collector()

    def collect_facts(batches: Iterator[object]) -> Iterator[object]:
        import pyarrow as pa

        for _ in batches:
            pass
        yield pa.RecordBatch.from_pylist([{"facts": collect()}], schema=pa.schema([("facts", pa.string())]))

    try:
        (row,) = session.range(1).coalesce(1).mapInArrow(collect_facts, "facts string").collect()  # type: ignore[arg-type]
    except Exception as error:
        raise _translate(error, session) from error
    return facts.parse(row[0])


def _judge(python: facts.ExecutorFacts, spark: Spark) -> None:
    _log.info("Executors of %s: %s", _name(spark), python)
    lack = ""
    if python.missing:
        lack = f"which lacks {plurals.listed(python.missing)}"
    elif unfit := python.unfit(facts.requirements()):
        lack = f"which has {plurals.listed(unfit)}"
    elif python.error:
        lack = f"which cannot import the code of a task ({python.error})"
    if lack:
        where = f"({python.executable} on {python.host})"
        raise UnfitPythonError(
            f"Executors of {_name(spark)} run Python {python.python} {where}, {lack}; {_advice(spark)}"
        )


def _translate(error: Exception, spark: Spark) -> errors.CompactionError:
    """The error of a task that did not even come to look."""
    text = str(error)
    if versions := _VERSIONS.search(text):
        return UnfitPythonError(
            f"Executors of {_name(spark)} run Python {versions[1]}, and this process runs Python {versions[2]}, where "
            f"Spark needs the same version on both sides; {_advice(spark)}"
        )
    if program := _NO_PROGRAM.search(text):
        return UnfitPythonError(f"Executors of {_name(spark)} have no {program[1]}; {_advice(spark)}")
    if module := _NO_MODULE.search(text):
        return UnfitPythonError(f"Executors of {_name(spark)} run a Python that lacks {module[1]}; {_advice(spark)}")
    return errors.SetupError(f"Executors of {_name(spark)} perform no task: {submission.gist(text)}")


def _advice(spark: Spark) -> str:
    version = f"Python {sys.version_info.major}.{sys.version_info.minor} that has iceberg-compaction"
    if spark_session.is_connect(spark):
        return f"start the server with PYSPARK_PYTHON set to the path of a {version}."
    return (
        f"give the path of a {version} there with --conf spark.pyspark.python=PATH, or send one along with "
        "--conf spark.archives=env.tar.gz#env --conf spark.pyspark.python=./env/bin/python."
    )


def _name(spark: Spark) -> str:
    if spark_session.is_connect(spark):
        return f"Spark Connect at {spark.client.host}"  # type: ignore[operator] # a property that is decorated
    return str(spark.master)
