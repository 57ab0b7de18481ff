"""After a crash of every class Iceberg Java reads the table: as the crash left it, and as the next run leaves it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
from tests.factories import java_deletes
from tests.factories import lake as lakes
from tests.factories import nursery as nurseries
from tests.lab import meddle, points, scene

from iceberg_compaction import CatalogSettings, Compactor, Kind

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession
    from tests.factories.reader import Row
    from tests.lab.points import Point

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def nursery(tmp_path_factory: pytest.TempPathFactory) -> Iterator[nurseries.Nursery]:
    with nurseries.nursery({"ICEBERG_COMPACTION_CACHE": str(tmp_path_factory.mktemp("cache"))}) as made:
        yield made


@pytest.mark.parametrize("point", points.CLASSES, ids=lambda point: point.name)
def test_java_reads_what_a_crash_leaves(
    java: SparkSession, java_lake: Path, nursery: nurseries.Nursery, tmp_path: Path, point: Point
) -> None:
    settings = CatalogSettings(name="lake", uri=f"sqlite:///{java_lake}/catalog.db", warehouse=f"file://{java_lake}")
    name = f"db.crash{points.CLASSES.index(point)}"
    catalog = lakes.SqlCatalog("lake", uri=settings.uri, warehouse=settings.warehouse)
    scene.build(catalog, name)
    job = nurseries.Job(
        settings=settings.model_dump_json(),
        table=name,
        state=str(tmp_path / "runs.db"),
        options=scene.OPTIONS,
        meddle=point.meddle,
        **dataclasses.asdict(point.moment),
    )
    model = scene.model()
    assert read(java, name) == model

    assert nursery.run(job).killed
    meddle.apply(point.meddle, model)
    assert read(java, name) == model

    compactor = Compactor(catalog, "small-files", options=scene.OPTIONS, engine="inline", state=tmp_path / "runs.db")
    outcome = compactor.compact_table(name)
    assert outcome.kind is Kind.COMPACTED, outcome.sentence
    assert read(java, name) == model
    assert {len(deletes) for deletes in java_deletes.applied(java_deletes.load(java, name)).values()} == {0}
    assert bool(scene.unexplained(catalog.load_table(name))) == point.doubtful  # what nobody can tell of stays
    catalog.close()


def read(java: SparkSession, name: str) -> Counter[Row]:
    rows = java.sql(f"select id, day, name from lake.{name}").collect()
    return type(scene.model())((row["id"], row["day"], row["name"]) for row in rows)
