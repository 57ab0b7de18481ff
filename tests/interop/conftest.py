"""Lakes that Iceberg Java and this product share: one JVM for a whole run, and in it a session and a lake of its own
for each module, so that the names of their tables cannot meet."""

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
def _jvm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from tests.factories import java as oracle

    session = oracle.session(tmp_path_factory.mktemp("no-lake"))
    yield session
    session.stop()


@pytest.fixture(scope="module")
def java_lake(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("java-lake")


@pytest.fixture(scope="module")
def java(_jvm: SparkSession, java_lake: Path) -> SparkSession:
    from tests.factories import java as oracle

    session = _jvm.newSession()
    for key, value in (SMALL | oracle.lake_conf(java_lake)).items():
        session.conf.set(key, value)
    session.sql("create namespace lake.db")
    return session
