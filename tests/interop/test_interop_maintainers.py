"""Rewrites by Iceberg's own procedures on Spark are recognised from the summaries that Iceberg Java really writes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import Compactor
from iceberg_compaction.metadata import maintainers
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.interop


def test_the_procedures_of_iceberg_are_a_maintainer_that_a_run_gives_way_to(
    java: SparkSession, java_lake: Path
) -> None:
    name = "lake.db.maintained"
    java.sql(f"create table {name} (id bigint, city string) using iceberg partitioned by (city)")
    for number in range(3):
        java.sql(f"insert into {name} values ({number}, 'Bern'), ({number}, 'Oslo')")
    java.sql(
        "call lake.system.rewrite_data_files(table => 'db.maintained', where => \"city = 'Bern'\", "
        "options => map('rewrite-all', 'true'))"
    )
    java.sql("call lake.system.rewrite_manifests('db.maintained')")
    java.sql(f"insert into {name} values (9, 'Bern'), (9, 'Oslo')")
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    compactor = Compactor(settings, engine="inline", options={"min-input-files": 2, "others": "yield"})
    (seen,) = maintainers.read(compactor.catalog.load_table("db.maintained").metadata, "main")
    assert (seen.maintainer.name, seen.maintainer.rewrites) == ("spark", 1)  # manifests alone do not count
    plan = compactor.plan_table("db.maintained")
    assert [group.partition for group in plan.groups] == ['{"city":"Oslo"}']
    assert plan.maintainers == compactor.inspect_table("db.maintained").maintainers == (seen.maintainer,)
    compactor.catalog.close()
