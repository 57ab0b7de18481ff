"""The state of Spark for this process: installed or not, where a session would be, open or not. Nothing is started and
no module of Spark is imported."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.execute.engine_choice import SparkState
from iceberg_compaction.execute.engines.spark import installed, java, spark_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


def read(conf: Mapping[str, str], session: SparkSession | None = None) -> SparkState:
    """`session`: one that somebody has passed in."""
    if session is not None:
        return SparkState(ready=True)
    name = spark_session.describe(conf)
    try:
        installed.check_installed()
        spark_session.check_packages(conf)
        if spark_session.is_embedded(conf) and not spark_session.is_active():
            java.find()
    except errors.ConfigError as error:
        return SparkState(name=name, missing=str(error).rstrip("."))
    return SparkState(name=name, ready=spark_session.is_active())
