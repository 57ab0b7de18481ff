"""Names our jobs for Spark's own pages, and stops them by tag. Both are per thread, and contexts and sessions of
Spark Connect have different calls for them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark


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
