"""The settings of a Spark session that decide how tasks run. They are read once for a session, because every read
crosses into the JVM; answers about cores, memory and attempts come out of the value."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.execute.engines.spark import spark_session
from iceberg_compaction.execute.worker import budgets

if TYPE_CHECKING:
    from collections.abc import Mapping

    from iceberg_compaction.execute.engines.spark.spark_session import Spark

_FALLBACK_CORES = 4  # a Connect server does not say how many it has
_SIZE = re.compile(r"(\d+)\s*([kmgt]?)b?", re.IGNORECASE)
_UNITS = {"k": 2**10, "": 2**20, "m": 2**20, "g": 2**30, "t": 2**40}  # a number alone counts mebibytes
_HEAP = "1g"  # of Spark's JVM, by its own default
_CONTAINERS = ("yarn", "k8s:")  # masters whose executors have a limit of memory
_USUAL_CORES = 8  # of an executor that takes all cores of its machine
_NAMES = (
    "spark.default.parallelism",
    "spark.driver.memory",
    "spark.executor.cores",
    "spark.executor.memory",
    "spark.executor.memoryOverhead",
    "spark.executor.pyspark.memory",
    "spark.speculation",
    "spark.task.cpus",
    "spark.task.maxFailures",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSettings:
    """The settings of one session."""

    master: str | None  # None: that of a Connect server, which does not say
    parallelism: int  # cores of all executors
    conf: Mapping[str, str]  # settings that were given

    @property
    def runs_here(self) -> bool:
        """Whether the executors are local."""
        return self.master is not None and spark_session.is_local(self.master)

    @property
    def task_cpus(self) -> int:
        reserved = self.conf.get("spark.task.cpus", "1")
        return max(1, int(reserved)) if reserved.isdigit() else 1

    @property
    def cores(self) -> int:
        """How many tasks can run at once."""
        return max(1, self.parallelism // self.task_cpus)

    def task_cores(self, tasks: int) -> int:
        """How many cores each of so many tasks may use: those that Spark reserves for a task; on a local master also
        those that would have nothing to do."""
        if not self.runs_here:
            return self.task_cpus
        return max(self.task_cpus, self.parallelism // max(1, min(tasks, self.cores)))

    def memory_share(self, given: int | None = None) -> budgets.MemoryShare:
        """`given`: bytes of a process that the user has set. Else, on YARN and Kubernetes,
        spark.executor.memoryOverhead is shared by the tasks of an executor; without it the container or the machine
        beside Spark's JVM is. spark.executor.pyspark.memory limits a process by itself."""
        if given is not None:
            return budgets.MemoryShare(bytes=given)
        if self.runs_here:
            return budgets.MemoryShare(processes=self.cores, beside=self._size("spark.driver.memory", _HEAP))
        stated = self.conf.get("spark.executor.cores", str(_USUAL_CORES))
        processes = max(1, (int(stated) if stated.isdigit() else _USUAL_CORES) // self.task_cpus)
        overhead = self._size("spark.executor.memoryOverhead", "0")
        # Only where executors are containers does the overhead limit anything.
        is_container = (self.master or "").startswith(_CONTAINERS)
        if overhead and is_container and not self.conf.get("spark.executor.pyspark.memory"):
            return budgets.MemoryShare(bytes=overhead // processes)
        return budgets.MemoryShare(processes=processes, beside=self._size("spark.executor.memory", _HEAP))

    def _size(self, name: str, default: str) -> int:
        """A size as Spark writes it; 0 for a text that is none."""
        size = _SIZE.fullmatch(self.conf.get(name, default).strip())
        return int(size[1]) * _UNITS[size[2].lower()] if size else 0

    @property
    def max_attempts(self) -> int:
        """How often Spark starts a task before it gives up. Local masters have their own number:
        local[cores,attempts]."""
        if self.runs_here:
            _, _, attempts = (self.master or "").rstrip("]").partition(",")
            return int(attempts or 1)
        return int(self.conf.get("spark.task.maxFailures") or (1 if self.master is None else 4))

    @property
    def speculates(self) -> bool:
        """Whether Spark may perform a task twice at the same time. Nobody hears of the attempt that comes second."""
        return self.conf.get("spark.speculation", "false").lower() == "true"


def read(spark: Spark) -> SessionSettings:
    """The settings of a session. SetupError: its owner has stopped it."""
    if spark_session.is_connect(spark):
        conf = _conf(spark.conf)
        stated = conf.get("spark.default.parallelism", "")
        parallelism = int(stated) if stated.isdigit() and int(stated) > 0 else _FALLBACK_CORES
        return SessionSettings(master=None, parallelism=parallelism, conf=conf)
    conf = _conf(spark.getConf())
    try:
        parallelism = max(1, spark.defaultParallelism)
    except AttributeError as error:  # a context that is stopped has no Java side any more
        raise errors.SetupError("The Spark session is stopped; give a Compactor a session that runs.") from error
    return SessionSettings(master=spark.master or "", parallelism=parallelism, conf=conf)


def _conf(source: Any) -> dict[str, str]:
    return {name: str(value) for name in _NAMES if (value := source.get(name, ""))}
