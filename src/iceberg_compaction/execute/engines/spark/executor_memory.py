"""The memory of a Python process on an executor, by the session's settings. A session comes in; the share of a process
goes out, which the process itself completes by the limits of its container."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from iceberg_compaction.execute.engines.spark import labels, spark_session
from iceberg_compaction.execute.worker import budgets

if TYPE_CHECKING:
    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40}  # a number alone counts mebibytes
_HEAP = "1g"  # of Spark's JVM, by its own default
_USUAL_CORES = 8  # of an executor that takes all cores of its machine


def share(spark: Spark, given: int | None = None) -> budgets.MemoryShare:
    """`given`: bytes of a process that the user has set. Else spark.executor.memoryOverhead is shared by the tasks of
    an executor, and without it the container or the machine beside Spark's JVM. spark.executor.pyspark.memory limits a
    process by itself."""
    if given is not None:
        return budgets.MemoryShare(bytes=given)
    conf = spark.conf if spark_session.is_connect(spark) else spark.getConf()
    if not spark_session.is_connect(spark) and spark_session.is_local(spark.master or ""):
        heap = _bytes(str(conf.get("spark.driver.memory", _HEAP)))
        return budgets.MemoryShare(processes=labels.cores(spark), beside=heap)
    cores = str(conf.get("spark.executor.cores", str(_USUAL_CORES)))
    processes = max(1, (int(cores) if cores.isdigit() else _USUAL_CORES) // labels.task_cpus(spark))
    overhead = _bytes(str(conf.get("spark.executor.memoryOverhead", "0")))
    if overhead and not conf.get("spark.executor.pyspark.memory", ""):
        return budgets.MemoryShare(bytes=overhead // processes)
    return budgets.MemoryShare(processes=processes, beside=_bytes(str(conf.get("spark.executor.memory", _HEAP))))


def _bytes(text: str) -> int:
    """A size as Spark writes it; 0 for a text that is none."""
    size = _SIZE.fullmatch(text.strip())
    return int(size[1]) * _UNITS[size[2].lower()] if size else 0
