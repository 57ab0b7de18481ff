"""Spark's configuration of a catalog, in PyIceberg's terms."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors
from iceberg_compaction.catalog import spark_conf
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path

CLASS = "org.apache.iceberg.spark.SparkCatalog"


def conf(**options: str) -> dict[str, str]:
    named = {
        f"spark.sql.catalog.lake.{key.replace('__', '-').replace('_', '.')}": text for key, text in options.items()
    }
    return {"spark.sql.catalog.lake": CLASS} | named


def test_the_file_format_is_javas() -> None:
    text = "# comment\n! too\n\nspark.a  one two \nspark.b=2\nspark.c : 3\n"
    text += "spark.d   s3://x/y=z\nspark.e first,\\\n   second\n"
    assert spark_conf.parse_defaults(text) == {
        "spark.a": "one two",
        "spark.b": "2",
        "spark.c": "3",
        "spark.d": "s3://x/y=z",
        "spark.e": "first,second",
    }


def test_rest_with_s3() -> None:
    found = spark_conf.map_catalog(
        "lake",
        conf(type="rest", uri="http://r", warehouse="w", credential="id:s", token="t", scope="all")
        | {
            "spark.sql.catalog.lake.io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
            "spark.sql.catalog.lake.oauth2-server-uri": "http://t",
            "spark.sql.catalog.lake.header.X-Tenant": "a",
            "spark.sql.catalog.lake.s3.endpoint": "http://minio",
            "spark.sql.catalog.lake.s3.access-key-id": "k",
            "spark.sql.catalog.lake.s3.secret-access-key": "s",
            "spark.sql.catalog.lake.s3.path-style-access": "true",
            "spark.sql.catalog.lake.client.region": "eu",
            "spark.sql.catalog.lake.cache-enabled": "false",
            "spark.sql.catalog.lakehouse.uri": "http://another",
        },
    )
    assert found == CatalogSettings(
        name="lake",
        type="rest",
        uri="http://r",
        warehouse="w",
        properties={
            "credential": "id:s",
            "token": "t",
            "scope": "all",
            "oauth2-server-uri": "http://t",
            "header.X-Tenant": "a",
            "s3.endpoint": "http://minio",
            "s3.access-key-id": "k",
            "s3.secret-access-key": "s",
            "s3.force-virtual-addressing": "false",
            "client.region": "eu",
        },
    )


@pytest.mark.parametrize(
    ("implementation", "type_", "uri"),
    [
        ("org.apache.iceberg.rest.RESTCatalog", "rest", "http://r"),
        ("org.apache.iceberg.hive.HiveCatalog", "hive", "thrift://h"),
        ("org.apache.iceberg.aws.glue.GlueCatalog", "glue", None),
        ("org.apache.iceberg.jdbc.JdbcCatalog", "sql", "jdbc:sqlite:/c.db"),
    ],
)
def test_catalog_classes(implementation: str, type_: str, uri: str | None) -> None:
    options = {"spark.sql.catalog.lake.catalog-impl": implementation}
    found = spark_conf.map_catalog("lake", conf() | options | ({"spark.sql.catalog.lake.uri": uri} if uri else {}))
    assert found.type == type_


def test_jdbc_carries_user_and_password_and_its_name() -> None:
    found = spark_conf.map_catalog(
        "lake", conf(type="jdbc", uri="jdbc:postgresql://h/d", jdbc_user="me", jdbc_password="hunter2")
    )
    assert (found.name, found.type, found.uri) == ("lake", "sql", "postgresql://me:hunter2@h/d")
    assert found.properties == {}


def test_hive_is_the_default_and_takes_sparks_metastore() -> None:
    found = spark_conf.map_catalog("lake", conf() | {"spark.hadoop.hive.metastore.uris": "thrift://a,thrift://b"})
    assert (found.type, found.uri) == ("hive", "thrift://a,thrift://b")


def test_hadoops_s3_settings_fill_in() -> None:
    hadoop = {
        "spark.hadoop.fs.s3a.access.key": "k",
        "spark.hadoop.fs.s3a.secret.key": "s",
        "spark.hadoop.fs.s3a.endpoint": "minio:9000",
        "spark.hadoop.fs.s3a.connection.ssl.enabled": "false",
        "spark.hadoop.fs.s3a.path.style.access": "true",
    }
    assert spark_conf.map_catalog("lake", conf(type="rest", uri="http://r") | hadoop).properties == {
        "s3.access-key-id": "k",
        "s3.secret-access-key": "s",
        "s3.endpoint": "http://minio:9000",
        "s3.force-virtual-addressing": "false",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (conf(type="hadoop"), "Hadoop catalog"),
        (conf(type="nessie"), "not supported"),
        (conf(catalog__impl="com.acme.Catalog"), "com.acme.Catalog, which has no counterpart"),
        (conf(type="rest"), "spark.sql.catalog.lake.uri is not set"),
        ({"spark.sql.catalog.lake": "io.delta.Catalog"}, "not an Iceberg catalog but io.delta.Catalog"),
        ({"spark.sql.catalog.leak.type": "rest", "spark.sql.catalog.dev": CLASS}, "configured are dev, leak"),
        ({}, "SPARK_CONF_DIR"),
    ],
)
def test_what_cannot_be_mapped_is_said(options: dict[str, str], message: str) -> None:
    with pytest.raises(errors.ConfigError, match=message):
        spark_conf.map_catalog("lake", options)


def test_defaults_file_under_conf_pairs_under_flags(tmp_path: Path) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text(
        f"spark.sql.catalog.lake {CLASS}\nspark.sql.catalog.lake.type rest\nspark.sql.catalog.lake.uri http://file\n"
        "spark.sql.catalog.lake.token file\nspark.sql.catalog.lake.warehouse file\n"
    )
    settings = CatalogSettings(
        spark_catalog="lake",
        spark_conf={"spark.sql.catalog.lake.uri": "http://conf", "spark.sql.catalog.lake.token": "conf"},
        properties={"token": "flag"},
    )
    for environ in (
        {"SPARK_HOME": str(tmp_path)},
        {"SPARK_CONF_DIR": str(tmp_path / "conf"), "SPARK_HOME": "/nowhere"},
    ):
        found = spark_conf.read_settings(settings, environ)
        assert (found.uri, found.warehouse, found.properties) == ("http://conf", "file", {"token": "flag"})
    assert spark_conf.read_defaults({"SPARK_HOME": "/nowhere"}) == {}
