"""One lake that Iceberg Java and this product share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession


# Tables here have a few rows: compiling and adapting plans would take longer than running them.
SMALL = {"spark.sql.adaptive.enabled": "false", "spark.sql.codegen.wholeStage": "false"}


@pytest.fixture(scope="session")
def java_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("java-lake")


@pytest.fixture(scope="session")
def java(java_lake: Path) -> Iterator[SparkSession]:
    from tests.factories import java as oracle

    session = oracle.session(java_lake)
    for key, value in SMALL.items():
        session.conf.set(key, value)
    session.sql("create namespace if not exists lake.db")
    yield session
    session.stop()
