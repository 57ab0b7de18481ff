"""Names our jobs for Spark's own pages, and stops them by tag. Both are per thread, and classic sessions and Spark
Connect sessions have different calls for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FALLBACK_CORES = 4  # a Connect server does not say how many it has


def is_connect(session: SparkSession) -> bool:
    return type(session).__module__.startswith("pyspark.sql.connect")


def cores(session: SparkSession) -> int:
    """How many tasks can run at once."""
    return max(1, _parallelism(session) // task_cpus(session))


def task_cores(session: SparkSession, tasks: int) -> int:
    """How many cores each of so many tasks may use: those that Spark reserves for a task; on a local master also those
    that would have nothing to do."""
    reserved = task_cpus(session)
    if is_connect(session) or not spark_session.is_local(session.sparkContext.master or ""):
        return reserved
    return max(reserved, _parallelism(session) // max(1, min(tasks, cores(session))))


def task_cpus(session: SparkSession) -> int:
    conf = session.conf if is_connect(session) else session.sparkContext.getConf()
    reserved = str(conf.get("spark.task.cpus", "1"))
    return max(1, int(reserved)) if reserved.isdigit() else 1


def _parallelism(session: SparkSession) -> int:
    if not is_connect(session):
        return max(1, session.sparkContext.defaultParallelism)
    parallelism = session.conf.get("spark.default.parallelism", "")
    return int(parallelism) if parallelism and parallelism.isdigit() and int(parallelism) > 0 else _FALLBACK_CORES


def max_attempts(session: SparkSession) -> int:
    """How often Spark starts a task before it gives up. Local masters have their own number: local[cores,attempts]."""
    if is_connect(session):
        return int(session.conf.get("spark.task.maxFailures", "1") or 1)
    master = session.sparkContext.master or ""
    if spark_session.is_local(master):
        return int(master.rstrip("]").split(",")[1]) if "," in master else 1
    return int(session.sparkContext.getConf().get("spark.task.maxFailures", "4") or 4)


def speculates(session: SparkSession) -> bool:
    """Whether Spark may perform a task twice at the same time. Nobody hears of the attempt that comes second."""
    conf = session.conf if is_connect(session) else session.sparkContext.getConf()
    return str(conf.get("spark.speculation", "false")).lower() == "true"


def label(session: SparkSession, description: str, tag: str) -> None:
    """Names the jobs that this thread starts from now on."""
    if is_connect(session):
        session.addTag(tag)
        return
    context = session.sparkContext
    context.setJobDescription(description)
    context.addJobTag(tag)
    context.setInterruptOnCancel(True)  # else Spark waits for a cancelled task to end by itself


def unlabel(session: SparkSession, tag: str) -> None:
    if is_connect(session):
        session.removeTag(tag)
        return
    session.sparkContext.setJobDescription(None)  # type: ignore[arg-type] # this is how it is taken away again
    session.sparkContext.removeJobTag(tag)


def stop(session: SparkSession, tag: str) -> None:
    """Cancels the running jobs of that tag, from any thread. Jobs that start later are not affected."""
    if is_connect(session):
        session.interruptTag(tag)
    else:
        session.sparkContext.cancelJobsWithTag(tag)
