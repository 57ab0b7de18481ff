"""Names of tables as a Spark session reads them."""

from __future__ import annotations

import pytest

from iceberg_compaction import CatalogSettings, errors
from iceberg_compaction.interfaces.session_catalog import SPARKS_OWN, SessionCatalog
from iceberg_compaction.model import table_names

LAKE = SessionCatalog(name="lake", settings=CatalogSettings(uri="sqlite://"), others=frozenset({"other", SPARKS_OWN}))


@pytest.mark.parametrize(
    ("given", "own"),
    [
        ("lake.db.t", "db.t"),
        ("`lake`.`db`.`t`", "`db`.`t`"),
        ("lake.db.`a.b`", "db.`a.b`"),
        ("lake.a.b.t", "a.b.t"),
        ("lake.lake.t", "lake.t"),
        ("lake.t", "t"),
        ("lake.db.*", "db.*"),
        ("lake.*", "*"),
        ("db.t", "db.t"),
        ("t", "t"),
        ("lake", "lake"),
        ("*", "*"),
        ("lak*", "lak*"),
        ("`other.x`.t", "`other.x`.t"),
        ("Lake.db.t", "Lake.db.t"),
    ],
)
def test_the_catalog_in_front_of_a_name_is_this_one(given: str, own: str) -> None:
    assert LAKE.own_name(given) == own


@pytest.mark.parametrize("given", ["other.db.t", "`other`.t", "spark_catalog.db.t", "other.*"])
def test_tables_of_another_catalog_are_refused(given: str) -> None:
    with pytest.raises(errors.ConfigError, match=r'is of the Spark catalog "\w+", and this Compactor is of "lake"'):
        LAKE.own_name(given)


@pytest.mark.parametrize(
    ("name", "in_spark"),
    [
        ("db.t", "lake.db.t"),
        ('db."a.b"', "lake.db.`a.b`"),
        ("db.a-b", "lake.db.`a-b`"),
        ("other.t", "lake.other.t"),
        ("db.`x``y`", "lake.db.`x``y`"),
    ],
)
def test_names_for_spark_lead_back(name: str, in_spark: str) -> None:
    assert LAKE.spark_name(name) == in_spark
    assert table_names.parse(LAKE.own_name(in_spark)) == table_names.parse(name)
