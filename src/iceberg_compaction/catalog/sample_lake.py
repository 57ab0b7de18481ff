"""A small real lake to try things on: four tables of a shop, three of them sick the way streaming writers make them.
A folder comes in, a SQLite catalog and tables with Parquet files go out. Seeded, so every lake holds the same rows."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io.pyarrow import (
    compute_statistics_plan,
    data_file_statistics_from_parquet_metadata,
    parquet_path_to_id_mapping,
    schema_to_pyarrow,
)
from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import DayTransform
from pyiceberg.typedef import Record
from pyiceberg.types import DoubleType, LongType, NestedField, StringType, TimestampType

from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

NAMESPACE = "shop"
EVENTS, CUSTOMERS, ORDERS = f"{NAMESPACE}.events", f"{NAMESPACE}.customers", f"{NAMESPACE}.orders"
VISITS = f"{NAMESPACE}.visits"  # the demo leaves it sick, for people to try things on
TABLES = (EVENTS, CUSTOMERS, ORDERS, VISITS)
CATALOG, WAREHOUSE, RUNS = "catalog.db", "warehouse", "runs.db"  # of the folder

EVENT_APPENDS, EVENT_DAYS = 64, 10  # every append reaches every day: 640 files
CUSTOMER_APPENDS, CUSTOMER_FILES = 40, 5  # 200 files
ORDER_FILES = 6
VISIT_APPENDS, VISIT_DAYS = 24, 5  # 120 files
_FIRST_DAY = np.datetime64("2026-01-01", "D")
_MIB = 2**20

# Called after each append: appends done and appends to do.
OnAppend: TypeAlias = "Callable[[int, int], None]"
_Part: TypeAlias = "tuple[Record, dict[str, pa.Array]]"


def create(folder: Path) -> CatalogSettings:
    """An empty catalog in a folder, and the settings by which to connect to it."""
    uri = f"sqlite:///{folder.absolute() / CATALOG}"
    warehouse = (folder.absolute() / WAREHOUSE).as_uri()
    settings = CatalogSettings(uri=uri, warehouse=warehouse)
    SqlCatalog(settings.name, uri=uri, warehouse=warehouse).close()
    return settings


def build(catalog: Catalog, on_append: OnAppend = lambda done, total: None) -> tuple[str, ...]:
    """Make the four tables; returns their names."""
    catalog.create_namespace_if_not_exists(NAMESPACE)
    random = np.random.default_rng(20260101)
    total = EVENT_APPENDS + CUSTOMER_APPENDS + 1 + VISIT_APPENDS
    done = 0
    for table, appends in (
        (_create_by_day(catalog, EVENTS), _events(random, appends=EVENT_APPENDS, days=EVENT_DAYS)),
        (_create(catalog, CUSTOMERS, _CUSTOMER_SCHEMA, target=4 * _MIB), _customers(random)),
        (_create(catalog, ORDERS, _ORDER_SCHEMA, target=2 * _MIB), _orders(random)),
        (_create_by_day(catalog, VISITS), _events(random, appends=VISIT_APPENDS, days=VISIT_DAYS, rows=250)),
    ):
        for parts in appends:
            append(table, parts)
            done += 1
            on_append(done, total)
    return TABLES


def full_scan_seconds(catalog: Catalog, name: str) -> float:
    """How long it takes to read a table whole, as a query without a filter would."""
    table = catalog.load_table(name)
    started = time.monotonic()
    table.scan().to_arrow()
    return time.monotonic() - started


def append(table: Table, parts: list[_Part]) -> None:
    """One append snapshot of one file for each part. PyIceberg's own writer needs a further library for a day
    partition and chooses the number of files itself."""
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as producer:
        for partition, columns in parts:
            producer.append_data_file(_write(table, partition, columns))


def _write(table: Table, partition: Record, columns: dict[str, pa.Array]) -> DataFile:
    schema = table.schema()
    spec = table.spec()
    folder = spec.partition_to_path(partition, schema) if spec.fields else ""
    path = "/".join(filter(None, (table.location(), "data", folder, f"{uuid.uuid4()}.parquet")))
    output = table.io.new_output(path)
    written: list[pq.FileMetaData] = []
    with output.create() as stream:
        rows = pa.table(columns, schema=schema_to_pyarrow(schema))
        pq.write_table(rows, stream, compression="zstd", metadata_collector=written)
    statistics = data_file_statistics_from_parquet_metadata(
        parquet_metadata=written[0],
        stats_columns=compute_statistics_plan(schema, table.properties),
        parquet_column_mapping=parquet_path_to_id_mapping(schema),
    )
    file = DataFile.from_args(
        content=DataFileContent.DATA,
        file_path=path,
        file_format=FileFormat.PARQUET,
        partition=partition,
        file_size_in_bytes=len(output),
        sort_order_id=None,
        **statistics.to_serialized_dict(),
    )
    file.spec_id = spec.spec_id
    return file


_EVENT_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "at", TimestampType(), required=True),
    NestedField(3, "user_id", LongType()),
    NestedField(4, "kind", StringType()),
    NestedField(5, "url", StringType()),
    NestedField(6, "amount", DoubleType()),
)
_CUSTOMER_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType()),
    NestedField(3, "city", StringType()),
    NestedField(4, "since", TimestampType()),
    NestedField(5, "balance", DoubleType()),
)
_ORDER_SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "customer_id", LongType()),
    NestedField(3, "at", TimestampType()),
    NestedField(4, "total", DoubleType()),
)


def _create(catalog: Catalog, name: str, schema: Schema, *, target: int) -> Table:
    return catalog.create_table(name, schema=schema, properties={"write.target-file-size-bytes": str(target)})


def _create_by_day(catalog: Catalog, name: str) -> Table:
    spec = PartitionSpec(PartitionField(source_id=2, field_id=1000, transform=DayTransform(), name="at_day"))
    properties = {"write.target-file-size-bytes": str(5 * _MIB // 4)}
    return catalog.create_table(name, schema=_EVENT_SCHEMA, partition_spec=spec, properties=properties)


def _times(random: np.random.Generator, first: np.datetime64, days: int, rows: int) -> pa.Array:
    micros = random.integers(0, days * 86_400_000_000, rows).astype("timedelta64[us]")
    return pa.array(first.astype("datetime64[us]") + np.sort(micros))


def _choices(random: np.random.Generator, words: list[str], rows: int) -> pa.Array:
    return pa.array(words).take(pa.array(random.integers(0, len(words), rows)))


def _events(random: np.random.Generator, *, appends: int, days: int, rows: int = 1000) -> Iterator[list[_Part]]:
    kinds = ["view", "search", "cart", "buy", "return"]
    urls = [f"/item/{number:05d}" for number in range(3000)]
    for number in range(appends):
        parts: list[_Part] = []
        for day in range(days):
            first = _FIRST_DAY + day
            start = (number * days + day) * rows
            columns = {
                "id": pa.array(np.arange(start, start + rows)),
                "at": _times(random, first, 1, rows),
                "user_id": pa.array(random.integers(0, 50_000, rows)),
                "kind": _choices(random, kinds, rows),
                "url": _choices(random, urls, rows),
                "amount": pa.array(random.gamma(2.0, 20.0, rows).round(2), mask=random.random(rows) < 0.7),
            }
            parts.append((Record(int(first.astype(int))), columns))
        yield parts


def _customers(random: np.random.Generator, rows: int = 600) -> Iterator[list[_Part]]:
    cities = ["Amsterdam", "Berlin", "Lagos", "Lima", "Mumbai", "Osaka", "Oslo", "Quito", "Seoul", "Toronto"]
    for number in range(CUSTOMER_APPENDS):
        parts: list[_Part] = []
        for file in range(CUSTOMER_FILES):
            start = (number * CUSTOMER_FILES + file) * rows
            columns = {
                "id": pa.array(np.arange(start, start + rows)),
                "name": pa.array([f"customer {key:x}" for key in random.integers(0, 2**40, rows)]),
                "city": _choices(random, cities, rows),
                "since": _times(random, _FIRST_DAY - 3650, 3650, rows),
                "balance": pa.array(random.normal(100, 40, rows)),
            }
            parts.append((Record(), columns))
        yield parts


def _orders(random: np.random.Generator, rows: int = 85_000) -> Iterator[list[_Part]]:
    parts: list[_Part] = []
    for file in range(ORDER_FILES):
        columns = {
            "id": pa.array(np.arange(file * rows, (file + 1) * rows)),
            "customer_id": pa.array(random.integers(0, 120_000, rows)),
            "at": _times(random, _FIRST_DAY, 90, rows),
            "total": pa.array(random.gamma(2.0, 30.0, rows)),
        }
        parts.append((Record(), columns))
    yield parts
