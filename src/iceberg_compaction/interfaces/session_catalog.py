"""A catalog as a Spark session has it. A session, classic or of Spark Connect, and the name of a catalog come in; the
settings by which we connect, and the reading of table names that Spark has, go out. Nothing is set in the session."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from iceberg_compaction import errors
from iceberg_compaction.catalog import spark_conf
from iceberg_compaction.model import table_names

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from iceberg_compaction.settings import CatalogSettings

SPARKS_OWN = "spark_catalog"  # every session has it


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionCatalog:
    """One catalog of a session."""

    name: str
    settings: CatalogSettings = field(repr=False)  # may have credentials
    others: frozenset[str]  # the session's other catalogs

    def own_name(self, name: str) -> str:
        """The name, or pattern, of a table without the catalog. As in Spark, a first part that is the name of a catalog
        means that catalog. ConfigError: it is another one."""
        first, rest = table_names.first_part(name)
        if rest and first == self.name:
            return rest
        if rest and first in self.others:
            meant = table_names.spark_text([self.name])
            raise errors.ConfigError(
                f'{name} is of the Spark catalog "{first}", and this Compactor is of "{self.name}"; '
                f'use Compactor.from_spark(spark, "{first}"), or write {meant}.{name} if {first} is a namespace.'
            )
        return name

    def spark_name(self, name: str) -> str:
        """The name of a table for Spark SQL."""
        return table_names.spark_text([self.name, *table_names.parse(name)])


def read(spark: SparkSession, name: str | None, properties: Mapping[str, str]) -> SessionCatalog:
    """The catalog of this name, else the session's current one. `properties` win over those of the session."""
    if spark is None:
        raise errors.ConfigError("A SparkSession is needed, such as SparkSession.builder.getOrCreate().")
    pairs = _settings(spark)
    chosen = name or str(spark.catalog.currentCatalog())
    mapped = spark_conf.map_catalog(chosen, pairs, if_none=" in this session")
    settings = mapped.model_copy(update={"properties": mapped.properties | dict(properties)})
    others = (spark_conf.catalogs(pairs) | {SPARKS_OWN}) - {chosen}
    return SessionCatalog(name=chosen, settings=settings, others=frozenset(others))


def checked(spark: Any) -> Any:
    """The session, or None. ConfigError: it is something else."""
    if spark is None or (hasattr(spark, "conf") and not isinstance(spark, type)):
        return spark
    raise errors.ConfigError(f"A SparkSession is needed, not a value of type {type(spark).__name__}.")


def _settings(spark: Any) -> dict[str, str]:
    """All settings of the session. Spark 3 lists them on its context, which Spark Connect does not have."""
    checked(spark)
    listed = hasattr(type(spark.conf), "getAll")
    try:
        return dict(spark.conf.getAll if listed else spark.sparkContext.getConf().getAll())
    except Exception as error:  # py4j's errors, gRPC's and Spark's own share no class
        remedy = "is it stopped?" if listed else "its version of Spark Connect is too old: it needs pyspark 4 or later."
        raise errors.SetupError(f"The Spark session does not list its settings; {remedy}") from error
