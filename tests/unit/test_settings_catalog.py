"""Flags over environment, one value out, no secret shown."""

from __future__ import annotations

import subprocess
import sys

import pytest

from iceberg_compaction import errors
from iceberg_compaction.settings import CatalogFlags, CatalogSettings, load_catalog_settings


def test_nothing_given_is_the_default_catalog() -> None:
    assert load_catalog_settings(CatalogFlags(), {}) == CatalogSettings(name="default")


def test_environment_is_read() -> None:
    found = load_catalog_settings(
        CatalogFlags(),
        {
            "CATALOG_NAME": "prod",
            "CATALOG_URI": "http://rest:8181",
            "CATALOG_TYPE": "rest",
            "CATALOG_WAREHOUSE": "s3://w",
            "CATALOG_CREDENTIAL": "id:secret",
            "CATALOG_TOKEN": "t0ken",
        },
    )
    assert found == CatalogSettings(
        name="prod",
        uri="http://rest:8181",
        type="rest",
        warehouse="s3://w",
        properties={"credential": "id:secret", "token": "t0ken"},
    )


def test_flags_win_over_the_environment() -> None:
    environ = {"CATALOG_NAME": "e", "CATALOG_WAREHOUSE": "s3://e", "CATALOG_TOKEN": "e"}
    flags = CatalogFlags(name="f", warehouse="s3://f", properties=["token=f", "s3.endpoint=http://a=b"])
    found = load_catalog_settings(flags, environ)
    assert (found.name, found.warehouse) == ("f", "s3://f")
    assert found.properties == {"token": "f", "s3.endpoint": "http://a=b"}


def test_a_type_belongs_to_its_uri() -> None:
    environ = {"CATALOG_URI": "http://rest", "CATALOG_TYPE": "rest"}
    assert load_catalog_settings(CatalogFlags(uri="sqlite:////c.db"), environ).type is None
    assert load_catalog_settings(CatalogFlags(spark_catalog="lake"), environ).uri is None
    assert load_catalog_settings(CatalogFlags(type="hive"), environ).uri == "http://rest"


def test_empty_variables_say_nothing() -> None:
    environ = dict.fromkeys(("CATALOG_NAME", "CATALOG_URI", "CATALOG_TYPE", "CATALOG_WAREHOUSE", "CATALOG_TOKEN"), "")
    assert load_catalog_settings(CatalogFlags(), environ) == CatalogSettings()


@pytest.mark.parametrize("pair", ["token", "=hunter2", " =hunter2"])
def test_a_malformed_pair_is_not_echoed(pair: str) -> None:
    with pytest.raises(errors.ConfigError, match="--catalog-property number 2") as caught:
        load_catalog_settings(CatalogFlags(properties=["a=b", pair]), {})
    assert "hunter2" not in str(caught.value)


def test_uri_and_spark_catalog_exclude_each_other() -> None:
    with pytest.raises(errors.ConfigError, match="either --catalog-uri or --spark-catalog"):
        load_catalog_settings(CatalogFlags(uri="http://a", spark_catalog="b"), {})


def test_secrets_do_not_show() -> None:
    flags = CatalogFlags(
        uri="postgresql://u:hunter2@h/d", properties=["token=hunter2"], conf=["spark.sql.catalog.x.token=hunter2"]
    )
    assert "hunter2" not in repr(flags)
    assert "hunter2" not in repr(load_catalog_settings(flags, {}))


def test_nothing_heavy_is_imported() -> None:
    code = (
        "import sys; from iceberg_compaction import settings; from iceberg_compaction.catalog import connect, "
        "load_tables; from iceberg_compaction.storage import file_io; "
        "print(sorted({'pyiceberg', 'pyspark', 'pyarrow', 'sqlalchemy'} & set(sys.modules)))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"
