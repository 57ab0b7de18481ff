"""Which catalog a table is of: no two have the same identity, and none shows a secret (R48)."""

from __future__ import annotations

import platform
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_compaction.catalog import catalog_identity

if TYPE_CHECKING:
    from pathlib import Path

HERE = f" on {platform.node()}"
# Their drivers are not installed here, and kinds of catalogs are known by name.
GlueCatalog = type("GlueCatalog", (), {"__module__": "pyiceberg.catalog.glue"})
HiveCatalog = type("HiveCatalog", (), {"__module__": "pyiceberg.catalog.hive"})


def identity_of(kind: type[Any], name: str = "lake", **properties: str) -> str:
    """Of a table that such a catalog has given, without a server behind it."""
    catalog = object.__new__(kind)
    catalog.name, catalog.properties = name, {key.replace("_", "."): value for key, value in properties.items()}
    if kind is GlueCatalog:
        catalog.glue = SimpleNamespace(meta=SimpleNamespace(region_name="eu-west-1"))
        catalog._get_glue_table = lambda database, table: {"CatalogId": properties.get("account")}
    return catalog_identity.identity(cast("Any", SimpleNamespace(catalog=catalog, name=lambda: ("db", "t"))))


@pytest.mark.parametrize(
    ("told", "same"),
    [
        (identity_of(SqlCatalog, uri="postgresql://me:secret@db:5432/lake"), "sql postgresql://db:5432/lake name=lake"),
        (
            identity_of(SqlCatalog, uri="postgresql://localhost/lake"),
            f"sql postgresql://localhost/lake{HERE} name=lake",
        ),
        (identity_of(SqlCatalog, uri="sqlite:////data/c.db"), f"sql /data/c.db{HERE} name=lake"),
        (identity_of(RestCatalog, uri="https://u:secret@lake.example/api/"), "rest https://lake.example/api"),
        (identity_of(RestCatalog, uri="http://127.0.0.1:81/"), f"rest http://127.0.0.1:81{HERE}"),
        (
            identity_of(RestCatalog, uri="https://n/iceberg/main", prefix="main|w"),
            "rest https://n/iceberg/main prefix=main|w",
        ),
        (identity_of(HiveCatalog, uri="thrift://a:9083,thrift://b:9083"), "hive thrift://a:9083,thrift://b:9083"),
        (identity_of(GlueCatalog, account="123"), "glue eu-west-1/123"),
    ],
)
def test_a_catalog_is_told_by_where_it_is(told: str, same: str) -> None:
    assert told == same
    assert "secret" not in told


def test_catalogs_that_differ_have_different_identities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        found.append(identity_of(SqlCatalog, uri="sqlite:///catalog.db"))  # relative to where one stands
    found += [identity_of(SqlCatalog, name, uri="postgresql://db/lake") for name in ("one", "two")]
    found.append(identity_of(SqlCatalog, "one", uri="postgresql://db/lake?options=-csearch_path%3Dother"))
    rest = {"uri": "https://lake.example", "warehouse": "one"}
    found += [identity_of(RestCatalog, **rest | more) for more in ({}, {"warehouse": "two"}, {"prefix": "dev"})]
    found.append(identity_of(RestCatalog, **rest | {"header.Polaris-Realm": "b", "header.Authorization": "abc123"}))
    assert len(set(found)) == len(found)
    assert "abc123" not in found[-1]


def test_what_cannot_be_told_from_others_has_no_identity() -> None:
    assert identity_of(GlueCatalog) == ""  # not even the service tells the account
    assert identity_of(InMemoryCatalog, uri="sqlite:///:memory:") == ""
    assert identity_of(SqlCatalog) == ""
