"""Lakes with very many tables for the service: few are made, and the others are rows of the catalog's database that
point to copies of one table's metadata. What the scheduler would know of them after a first look is written beside."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import sqlalchemy
from pyiceberg.catalog.sql import SqlCatalog

from iceberg_compaction.interfaces.service import service_house
from iceberg_compaction.interfaces.service.service_settings import ServedCatalog, ServiceSettings
from iceberg_compaction.model.table_schedule import TableWatch
from iceberg_compaction.record.service.schedule_book import ScheduleBook

ROWS = pa.table({"id": pa.array(range(10), pa.int64()), "name": pa.array(["x"] * 10)})


def make(folder: Path, count: int, real: int) -> SqlCatalog:
    """A SQLite catalog with so many tables `db.tNUMBER`, of which the first are real ones."""
    warehouse = folder / "warehouse"
    warehouse.mkdir(parents=True)
    catalog = SqlCatalog("lake", uri=f"sqlite:///{folder / 'catalog.db'}", warehouse=warehouse.as_uri())
    catalog.create_namespace("db")
    for number in range(real):
        catalog.create_table(f"db.t{number}", ROWS.schema).append(ROWS)
    template = Path(catalog.load_table("db.t0").metadata_location.removeprefix("file://"))
    copies = folder / "copies"
    copies.mkdir()
    shutil.copy(template, copies / "v.metadata.json")
    with catalog.engine.begin() as connection:
        if count == real:
            return catalog
        connection.execute(
            sqlalchemy.text(
                "insert into iceberg_tables (catalog_name, table_namespace, table_name, metadata_location)"
                " values ('lake', 'db', :name, :location)"
            ),
            [
                {"name": f"t{number}", "location": f"file://{copies}/{number:05d}.metadata.json"}
                for number in range(real, count)
            ],
        )
    return catalog


def settings(folder: Path, store: str, **more: Any) -> ServiceSettings:
    """The settings of a service over that catalog."""
    served = ServedCatalog(name="lake", uri=f"sqlite:///{folder / 'catalog.db'}", engine="inline")
    return ServiceSettings.model_validate({"store": store, "catalogs": {"lake": served}, **more})


def seed_watches(catalog: SqlCatalog, chosen: ServiceSettings, now_ms: int) -> None:
    """What the scheduler knows of all tables once it has seen them."""
    with catalog.engine.connect() as connection:
        rows = connection.execute(sqlalchemy.text("select table_name, metadata_location from iceberg_tables")).all()
    watches = [
        TableWatch(
            table=f"db.{name}",
            pointer=location,
            identity="sql bench",
            seen_ms=now_ms - 600_000,
            look_ms=now_ms - 60_000,
            updated_ms=now_ms - 86_400_000,
            scheduled_ms=now_ms,
            upkeep_ms=now_ms,
            born_ms=now_ms - 600_000,
        )
        for name, location in rows
    ]
    ScheduleBook(service_house.build(chosen).store.entries).save("lake", watches, (), {})


def bar(name: str, value: float, reach: float, unit: str = "") -> dict[str, Any]:
    """A bar where less is better."""
    return {"name": name, "value": round(value, 3), "reach": f"<= {reach:g}{unit}", "ok": value <= reach}


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def save_settings(chosen: ServiceSettings, folder: Path) -> Path:
    """The settings as a file for another process."""
    file = folder / "settings.json"
    file.write_text(json.dumps(json.loads(chosen.model_dump_json())))
    return file
