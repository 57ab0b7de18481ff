"""Expiry of snapshots whose files the table keeps under another spelling of their paths (R70)."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_compaction import Compactor

NAME = "shop.events"
ROWS = pa.table({"id": pa.array([1, 2], pa.int64())})


@pytest.mark.parametrize("way", ["dot", "parent", "slashes", "scheme", "percent", "link"])
def test_a_file_stays_that_is_kept_under_another_path(tmp_path: Path, way: str) -> None:
    lake = tmp_path / "la ke"
    lake.mkdir()
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{lake}")
    catalog.create_namespace("shop")
    table = catalog.create_table(NAME, ROWS.schema)
    table.append(ROWS)
    (task,) = table.scan().plan_files()
    path = task.file.file_path.removeprefix("file://")
    (tmp_path / "other").symlink_to(lake)
    spelt = {
        "dot": path.replace("/data/", "/./data/"),
        "parent": path.replace("/data/", "/data/../data/"),
        "slashes": path.replace("/data/", "//data/"),
        "scheme": f"file:{path}",
        "percent": path,
        "link": path.replace(str(lake), str(tmp_path / "other")),
    }[way]
    table.overwrite(pa.table({"id": pa.array([3], pa.int64())}))
    if way == "percent":  # the same file is there under both names
        encoded = Path(path.replace("la ke", "la%20ke"))
        encoded.parent.mkdir(parents=True)
        encoded.hardlink_to(path)
        spelt = str(encoded)
    table.add_files([spelt])
    outcome = Compactor(catalog, engine="inline").expire_snapshots(NAME, older_than="2100-01-01", allow_recent=True)
    assert outcome.kind.value == "maintained", outcome.sentence
    assert Path(path).exists()
    assert sorted(catalog.load_table(NAME).scan().to_arrow()["id"].to_pylist()) == [1, 2, 3]


def test_what_only_another_way_through_a_link_led_to_goes(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "other").symlink_to(tmp_path / "lake")
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/other")
    catalog.create_namespace("shop")
    table = catalog.create_table(NAME, ROWS.schema)
    table.append(ROWS)
    (task,) = table.scan().plan_files()
    table.overwrite(ROWS)
    Compactor(catalog, engine="inline").expire_snapshots(NAME, older_than="2100-01-01", allow_recent=True)
    assert not Path(task.file.file_path.removeprefix("file://")).exists()
    assert catalog.load_table(NAME).scan().to_arrow().num_rows == 2
