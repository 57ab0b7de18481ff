"""Words of Google's, Microsoft's and Amazon's clients become our errors."""

from __future__ import annotations

import sqlite3
import sys
from typing import TYPE_CHECKING

import pytest
from tests.factories import lake as lakes

from iceberg_compaction import errors
from iceberg_compaction.catalog import connect, load_tables
from iceberg_compaction.catalog.drivers import glue
from iceberg_compaction.settings import CatalogSettings
from iceberg_compaction.storage import store_trouble

if TYPE_CHECKING:
    from pathlib import Path

ABSENT = "Cannot connect to host 127.0.0.1:1 ssl:default [Connect call failed ('127.0.0.1', 1)]"
GOOGLE = "google::cloud::Status(UNAVAILABLE: Retry policy exhausted - CURL error [7]=Could not connect to server)"
DENIED = "Operation returned an invalid status 'Server failed to authenticate'\nErrorCode:AuthorizationFailure"


@pytest.mark.parametrize(
    ("location", "said", "kind", "words"),
    [
        ("abfss://lake@acme.dfs.core.windows.net/t/m.json", ABSENT, errors.UnreachableError, "abfss://acme.dfs"),
        ("gs://lake/t/m.json", GOOGLE, errors.UnreachableError, "check gcs.service.host"),
        ("abfss://lake@acme.dfs.core.windows.net/t/m.json", DENIED, errors.UnauthorizedError, "refuses the cred"),
    ],
)
def test_stores_in_words(location: str, said: str, kind: type[Exception], words: str) -> None:
    trouble = store_trouble.explain(OSError(said), location, {}, {})
    assert isinstance(trouble, kind)
    assert words in str(trouble)


def test_azures_driver_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lake = lakes.file_lake(tmp_path)
    lakes.make_table(lake.catalog, "db.events")
    lakes.close(lake)
    with sqlite3.connect(tmp_path / "catalog.db") as database:
        database.execute(
            "update iceberg_tables set metadata_location = 'abfss://lake@acme.dfs.core.windows.net/m.json'"
        )
    database.close()
    monkeypatch.setitem(sys.modules, "adlfs", None)
    with (
        connect.connect(lake.settings) as catalog,
        pytest.raises(errors.SetupError, match=r"pip install 'iceberg-compaction\[azure\]'"),
    ):
        load_tables.load_table(catalog, "db.events")


def test_a_region_is_asked_for() -> None:
    with pytest.raises(errors.ConfigError, match="glue://eu-west-1, or set AWS_REGION"):
        connect.connect(CatalogSettings(uri="glue://"), {})


def test_glue_counts_its_tries() -> None:
    assert glue.client_properties({"glue.max-retries": "3"}) == {"glue.max-retries": 3}
    for wrong in ("many", "0"):
        with pytest.raises(errors.ConfigError, match=r"glue\.max-retries must be a number"):
            glue.client_properties({"glue.max-retries": wrong})
