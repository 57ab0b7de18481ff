"""Iceberg Java as an independent oracle: a Spark session with its runtime, on the SQLite catalog that PyIceberg uses.
Jars come from Maven Central once and stay in `.jars`; only `make interop` and `make bench` need them."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

PACKAGES = "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0,org.xerial:sqlite-jdbc:3.50.3.0"
_IVY = Path(__file__).resolve().parents[2] / ".jars"
_CATALOG = "spark.sql.catalog.lake"
_RESOLVE = """
import sys
from pyspark.sql import SparkSession
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
builder.config("spark.jars.packages", sys.argv[1]).config("spark.jars.ivy", sys.argv[2]).getOrCreate().stop()
"""


def jars(packages: str = PACKAGES) -> list[str]:
    """The jars, fetched on first use. They must be on the driver's own class path: JDBC looks for drivers there."""
    names = [
        f"{group}_{artifact}-{version}.jar" for group, artifact, version in (p.split(":") for p in packages.split(","))
    ]
    paths = [_IVY / "jars" / name for name in names]
    _IVY.mkdir(exist_ok=True)
    with open(_IVY / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # test processes start side by side
        if not all(path.exists() for path in paths):
            subprocess.run([sys.executable, "-c", _RESOLVE, packages, str(_IVY)], check=True, capture_output=True)
    return [str(path) for path in paths]


def lake_conf(lake: Path) -> dict[str, str]:
    """What makes this folder the lake of a session that has not used its catalog yet."""
    return {f"{_CATALOG}.uri": f"jdbc:sqlite:{lake}/catalog.db", f"{_CATALOG}.warehouse": f"file://{lake}"}


def session(
    lake: Path, cores: int = 2, *, packages: str = PACKAGES, properties: Mapping[str, str] | None = None
) -> SparkSession:
    """A session whose catalog `lake` is the JdbcCatalog on `lake/catalog.db`, with these properties before others."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable  # workers run our code too
    catalog = _CATALOG
    conf = {
        "spark.driver.extraClassPath": ":".join(jars(packages)),
        "spark.jars": ",".join(jars(packages)),
        "spark.driver.memory": "3g",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.catalog-impl": "org.apache.iceberg.jdbc.JdbcCatalog",
        f"{catalog}.jdbc.schema-version": "V1",
        f"{catalog}.cache-enabled": "false",
        **lake_conf(lake),
        **{f"{catalog}.{key}": value for key, value in (properties or {}).items()},
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName("iceberg-java-oracle")
    for key, value in conf.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made
