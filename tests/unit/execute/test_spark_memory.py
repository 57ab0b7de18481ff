"""The memory of a Python process on an executor follows from the settings of its context."""

from __future__ import annotations

from typing import Any

import pytest

from iceberg_compaction.execute.engines.spark.executors import session_settings
from iceberg_compaction.execute.worker.budgets import MemoryShare

GIB = 2**30


class Context:
    """The part of Spark's context that has settings."""

    def __init__(self, master: str, conf: dict[str, str]) -> None:
        self.master = master
        self.defaultParallelism = 4
        self._conf = conf

    def getConf(self) -> dict[str, str]:
        return self._conf


@pytest.mark.parametrize(
    ("master", "conf", "share"),
    [
        ("local[4]", {}, MemoryShare(processes=4, beside=GIB)),
        ("local[4]", {"spark.task.cpus": "2", "spark.driver.memory": "3g"}, MemoryShare(processes=2, beside=3 * GIB)),
        ("yarn", {"spark.executor.cores": "4", "spark.executor.memoryOverhead": "4096"}, MemoryShare(bytes=GIB)),
        (
            "spark://host:7077",
            {"spark.executor.cores": "4", "spark.executor.memoryOverhead": "384m"},
            MemoryShare(processes=4, beside=GIB),
        ),
        ("yarn", {"spark.executor.cores": "2"}, MemoryShare(processes=2, beside=GIB)),
        (
            "yarn",
            {"spark.executor.memoryOverhead": "1g", "spark.executor.pyspark.memory": "2g"},
            MemoryShare(processes=8, beside=GIB),
        ),
    ],
)
def test_tasks_of_an_executor_share_its_memory(master: str, conf: dict[str, str], share: MemoryShare) -> None:
    spark: Any = Context(master, conf)
    settings = session_settings.read(spark)
    assert settings.memory_share() == share
    assert settings.memory_share(7) == MemoryShare(bytes=7)
