"""What a URI says, and how PyIceberg's configuration joins in; no server is asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from iceberg_compaction import errors
from iceberg_compaction.catalog import catalog_uri, connect, jdbc
from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("http://rest:8181", {"type": "rest", "uri": "http://rest:8181"}),
        ("https://rest/api", {"type": "rest", "uri": "https://rest/api"}),
        ("sqlite:////c.db", {"type": "sql", "uri": "sqlite:////c.db"}),
        ("postgresql://u:p@h/d", {"type": "sql", "uri": "postgresql://u:p@h/d"}),
        ("postgresql+psycopg://h/d", {"type": "sql", "uri": "postgresql+psycopg://h/d"}),
        ("postgres://h/d", {"type": "sql", "uri": "postgresql://h/d"}),
        ("thrift://hms:9083", {"type": "hive", "uri": "thrift://hms:9083"}),
        ("glue://", {"type": "glue"}),
        ("glue://eu-west-1", {"type": "glue", "glue.region": "eu-west-1"}),
        ("glue://eu-west-1/123", {"type": "glue", "glue.region": "eu-west-1", "glue.id": "123"}),
    ],
)
def test_the_scheme_says_the_type(given: str, expected: dict[str, str]) -> None:
    assert catalog_uri.properties_of(given, None) == expected


def test_an_explicit_type_wins() -> None:
    assert catalog_uri.properties_of("mysql+pymysql://h/d", "jdbc") == {"type": "sql", "uri": "mysql+pymysql://h/d"}


@pytest.mark.parametrize("given", ["ftp://u:hunter2@h", "hunter2", ""])
def test_an_unknown_scheme_names_the_known_ones_and_not_the_uri(given: str) -> None:
    with pytest.raises(errors.ConfigError, match=r"http\(s\)://, sqlite:///") as caught:
        catalog_uri.properties_of(given, None)
    assert "hunter2" not in str(caught.value)


def test_an_unknown_type_names_the_known_ones() -> None:
    with pytest.raises(errors.ConfigError, match="rest, sql, hive, glue"):
        catalog_uri.properties_of("http://h", "nessie")


@pytest.mark.parametrize(
    ("properties", "environ", "region"),
    [
        ({"s3.region": "a"}, {"AWS_REGION": "b"}, None),
        ({}, {"AWS_REGION": "b", "AWS_DEFAULT_REGION": "c"}, "b"),
        ({}, {"AWS_DEFAULT_REGION": "c"}, "c"),
        ({"s3.endpoint": "http://own"}, {}, "us-east-1"),
        ({}, {}, None),
    ],
)
def test_the_region_is_found(properties: dict[str, str], environ: dict[str, str], region: str | None) -> None:
    assert catalog_uri.with_region(properties, environ).get("client.region") == region


@pytest.mark.parametrize(
    ("given", "user", "password", "expected"),
    [
        ("jdbc:sqlite:/data/c.db", None, None, "sqlite:////data/c.db"),
        ("jdbc:sqlite:c.db", None, None, "sqlite:///c.db"),
        ("jdbc:sqlite:file:/data/c.db?mode=ro", None, None, "sqlite:////data/c.db"),
        ("jdbc:postgresql://h:5432/d", "me", "p@ss/w", "postgresql://me:p%40ss%2Fw@h:5432/d"),
        ("jdbc:postgresql://h/d?user=a&password=b&sslmode=require&ApplicationName=x", None, None,
         "postgresql://a:b@h/d?sslmode=require"),
        ("jdbc:mysql://h/d", None, None, "mysql://h/d"),
    ],
)  # fmt: skip
def test_jdbc_uris(given: str, user: str | None, password: str | None, expected: str) -> None:
    assert jdbc.sqlalchemy_uri(given, user, password) == expected


@pytest.mark.parametrize("given", ["postgresql://h/d", "jdbc:postgresql"])
def test_what_is_no_jdbc_uri_is_refused(given: str) -> None:
    with pytest.raises(errors.ConfigError, match="jdbc:postgresql://host/database"):
        jdbc.sqlalchemy_uri(given)


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".pyiceberg.yaml").write_text(
        "default-catalog: prod\n"
        "catalog:\n"
        "  prod:\n    uri: http://prod:8181\n    token: prod-token\n"
        "  other:\n    type: glue\n"
    )
    monkeypatch.setenv("PYICEBERG_HOME", str(tmp_path))


@pytest.mark.usefixtures("configured")
def test_by_name_from_pyicebergs_file_and_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYICEBERG_CATALOG__PROD__S3__ENDPOINT", "http://minio")
    name, properties = connect.resolve(CatalogSettings(name="prod", properties={"token": "mine"}), {})
    assert name == "prod"
    assert properties == {
        "type": "rest",
        "uri": "http://prod:8181",
        "token": "mine",
        "s3.endpoint": "http://minio",
        "client.region": "us-east-1",
    }


@pytest.mark.usefixtures("configured")
def test_pyicebergs_default_catalog_is_taken() -> None:
    assert connect.resolve(CatalogSettings(), {})[0] == "prod"
    assert connect.resolve(CatalogSettings(name="other"), {}) == ("other", {"type": "glue"})


@pytest.mark.usefixtures("configured")
def test_a_uri_does_not_inherit_the_configuration_of_its_name() -> None:
    _, properties = connect.resolve(CatalogSettings(name="prod", uri="http://elsewhere"), {})
    assert properties == {"type": "rest", "uri": "http://elsewhere"}


@pytest.mark.usefixtures("configured")
def test_an_unknown_name_lists_the_configured_ones() -> None:
    with pytest.raises(errors.ConfigError, match="configured are other, prod"):
        connect.resolve(CatalogSettings(name="prdo"), {})


def test_a_type_alone_is_enough_for_glue() -> None:
    settings = CatalogSettings(type="glue", properties={"glue.region": "eu-west-1"})
    assert connect.resolve(settings, {}) == ("default", {"glue.region": "eu-west-1", "type": "glue"})


def test_a_rest_catalog_needs_a_uri() -> None:
    with pytest.raises(errors.ConfigError, match="has no URI"):
        connect.connect(CatalogSettings(type="rest"), {})


@pytest.mark.parametrize(
    ("given", "extra", "modules"),
    [
        ("thrift://127.0.0.1:9083", "hive", ["thrift"]),
        ("glue://eu-west-1", "glue", ["boto3"]),
        ("postgresql://me:hunter2@127.0.0.1/d", "postgres", ["psycopg", "psycopg2"]),
    ],
)
def test_a_missing_driver_names_the_extra(
    given: str, extra: str, modules: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    import pyiceberg.catalog

    from iceberg_compaction.catalog import drivers

    users = ("pyiceberg.catalog.hive", "pyiceberg.catalog.glue", "iceberg_compaction.catalog.drivers.hive")
    for loaded in [name for name in sys.modules if name.startswith(users)]:
        monkeypatch.delitem(sys.modules, loaded)
    for package in (drivers, pyiceberg.catalog):  # which keep what was imported from them
        monkeypatch.delattr(package, "hive", raising=False)
    for loaded in [name for name in sys.modules if name.startswith(tuple(f"{module}." for module in modules))]:
        monkeypatch.delitem(sys.modules, loaded)
    for module in modules:
        monkeypatch.setitem(sys.modules, module, None)  # importing it fails, installed or not
    with pytest.raises(errors.ConfigError, match=rf"pip install 'iceberg-compaction\[{extra}\]'") as caught:
        connect.connect(CatalogSettings(uri=given), {})
    assert "hunter2" not in str(caught.value)
