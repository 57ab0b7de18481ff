"""One Spark session for a whole test run, because a JVM takes seconds to start. Import `spark` in a conftest."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction.execute.engines.spark import spark_session

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """An embedded session like the product's own, but with a second attempt for tasks that fail. Tests that use it
    carry the marker `spark`."""
    from pyspark.sql import SparkSession

    opened = spark_session.open_session({"spark.master": "local[2,2]"})
    yield SparkSession(opened.spark)
    opened.close()
