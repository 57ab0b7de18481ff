"""Names our jobs for Spark's own pages, and stops them by tag. Both are per thread, and contexts and sessions of
Spark Connect have different calls for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_FALLBACK_CORES = 4  # a Connect server does not say how many it has


def cores(spark: Spark) -> int:
    """How many tasks can run at once."""
    return max(1, _parallelism(spark) // task_cpus(spark))


def task_cores(spark: Spark, tasks: int) -> int:
    """How many cores each of so many tasks may use: those that Spark reserves for a task; on a local master also those
    that would have nothing to do."""
    reserved = task_cpus(spark)
    if spark_session.is_connect(spark) or not spark_session.is_local(spark.master or ""):
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
