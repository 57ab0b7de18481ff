"""Names our jobs for Spark's own pages, and stops them by tag. Both are per thread, and contexts and sessions of
Spark Connect have different calls for them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import spark_session
from iceberg_compaction.execute.worker import budgets

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_FALLBACK_CORES = 4  # a Connect server does not say how many it has
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40}  # a number alone counts mebibytes
_HEAP = "1g"  # of Spark's JVM, by its own default
_CONTAINERS = ("yarn", "k8s:")  # masters whose executors have a limit of memory
_USUAL_CORES = 8  # of an executor that takes all cores of its machine


def cores(spark: Spark) -> int:
    """How many tasks can run at once."""
    return max(1, _parallelism(spark) // task_cpus(spark))


def task_cores(spark: Spark, tasks: int) -> int:
    """How many cores each of so many tasks may use: those that Spark reserves for a task; on a local master also those
    that would have nothing to do."""
    reserved = task_cpus(spark)
    if not spark_session.runs_here(spark):
        return reserved
    return max(reserved, _parallelism(spark) // max(1, min(tasks, cores(spark))))


def task_cpus(spark: Spark) -> int:
    conf = spark.conf if spark_session.is_connect(spark) else spark.getConf()
    reserved = str(conf.get("spark.task.cpus", "1"))
    return max(1, int(reserved)) if reserved.isdigit() else 1


def _parallelism(spark: Spark) -> int:
    if not spark_session.is_connect(spark):
        return max(1, spark.defaultParallelism)
    parallelism = spark.conf.get("spark.default.parallelism", "")
    return int(parallelism) if parallelism and parallelism.isdigit() and int(parallelism) > 0 else _FALLBACK_CORES


def memory_share(spark: Spark, given: int | None = None) -> budgets.MemoryShare:
    """`given`: bytes of a process that the user has set. Else, on YARN and Kubernetes, spark.executor.memoryOverhead is
    shared by the tasks of an executor; without it the container or the machine beside Spark's JVM is.
    spark.executor.pyspark.memory limits a process by itself."""
    if given is not None:
        return budgets.MemoryShare(bytes=given)
    conf = spark.conf if spark_session.is_connect(spark) else spark.getConf()
    if spark_session.runs_here(spark):
        heap = _spark_size(str(conf.get("spark.driver.memory", _HEAP)))
        return budgets.MemoryShare(processes=cores(spark), beside=heap)
    stated = str(conf.get("spark.executor.cores", str(_USUAL_CORES)))
    processes = max(1, (int(stated) if stated.isdigit() else _USUAL_CORES) // task_cpus(spark))
    overhead = _spark_size(str(conf.get("spark.executor.memoryOverhead", "0")))
    # Only where executors are containers does the overhead limit anything.
    is_container = not spark_session.is_connect(spark) and (spark.master or "").startswith(_CONTAINERS)
    if overhead and is_container and not conf.get("spark.executor.pyspark.memory", ""):
        return budgets.MemoryShare(bytes=overhead // processes)
    return budgets.MemoryShare(processes=processes, beside=_spark_size(str(conf.get("spark.executor.memory", _HEAP))))


def _spark_size(text: str) -> int:
    """A size as Spark writes it; 0 for a text that is none."""
    size = _SIZE.fullmatch(text.strip())
    return int(size[1]) * _UNITS[size[2].lower()] if size else 0


def max_attempts(spark: Spark) -> int:
    """How often Spark starts a task before it gives up. Local masters have their own number: local[cores,attempts]."""
    if spark_session.is_connect(spark):
        return int(spark.conf.get("spark.task.maxFailures", "1") or 1)
    master = spark.master or ""
    if spark_session.is_local(master):
        return int(master.rstrip("]").split(",")[1]) if "," in master else 1
    return int(spark.getConf().get("spark.task.maxFailures", "4") or 4)


def speculates(spark: Spark) -> bool:
    """Whether Spark may perform a task twice at the same time. Nobody hears of the attempt that comes second."""
    conf = spark.conf if spark_session.is_connect(spark) else spark.getConf()
    return str(conf.get("spark.speculation", "false")).lower() == "true"


def label(spark: Spark, description: str, tag: str) -> None:
    """Names the jobs that this thread starts from now on."""
    if spark_session.is_connect(spark):
        spark.addTag(tag)
        return
    spark.setJobDescription(description)
    spark.addJobTag(tag)
    spark.setInterruptOnCancel(True)  # else Spark waits for a cancelled task to end by itself


def unlabel(spark: Spark, tag: str) -> None:
    if spark_session.is_connect(spark):
        spark.removeTag(tag)
        return
    spark.setJobDescription(None)  # type: ignore[arg-type] # this is how it is taken away again
    spark.removeJobTag(tag)


def stop(spark: Spark, tag: str) -> None:
    """Cancels the running jobs of that tag, from any thread. Jobs that start later are not affected."""
    if spark_session.is_connect(spark):
        spark.interruptTag(tag)
    else:
        spark.cancelJobsWithTag(tag)
