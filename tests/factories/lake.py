"""A lake to test on: a catalog that can be written, the settings by which our own code finds it, and a few ways of
making tables that need compaction. Plain functions; the fixtures are in conftest."""

from __future__ import annotations

import contextlib
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec

from iceberg_compaction.settings import CatalogSettings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyiceberg.catalog import Catalog
    from pyiceberg.schema import Schema
    from pyiceberg.table import Table
    from tests.factories.servers import S3Server

NUMBERS = pa.schema([pa.field("id", pa.int64()), pa.field("name", pa.string()), pa.field("amount", pa.float64())])


@dataclass(frozen=True, slots=True, kw_only=True)
class Lake:
    """A catalog with a namespace of the test's own."""

    settings: CatalogSettings  # what our code connects with
    catalog: Catalog  # PyIceberg's own, to make tables with
    namespace: str

    def name(self, table: str) -> str:
        return f"{self.namespace}.{table}"


def local_catalog(directory: Path, name: str = "lake") -> SqlCatalog:
    """A SQLite catalog with the namespace `db`; its files lie in the directory."""
    catalog = SqlCatalog(name, uri=f"sqlite:///{directory}/{name}.db", warehouse=f"file://{directory}/warehouse")
    catalog.create_namespace_if_not_exists("db")
    return catalog


def file_lake(directory: Path, *, namespace: str = "db") -> Lake:
    """SQLite catalog and warehouse in a local folder, both created."""
    warehouse = directory / "warehouse"
    warehouse.mkdir(parents=True, exist_ok=True)
    uri = f"sqlite:///{directory / 'catalog.db'}"
    catalog = SqlCatalog("default", uri=uri, warehouse=warehouse.as_uri())
    catalog.create_namespace_if_not_exists(namespace)
    return Lake(settings=CatalogSettings(uri=uri, warehouse=warehouse.as_uri()), catalog=catalog, namespace=namespace)


@dataclass(frozen=True, slots=True, kw_only=True)
class Mould:
    """A local lake that is built once, and restored for each test that changes it. It stays in one folder: the paths in
    its metadata are absolute."""

    folder: Path

    @classmethod
    def of(cls, folder: Path, build: Callable[[Lake], object]) -> Mould:
        lake = file_lake(folder / "lake")
        build(lake)
        lake.catalog.close()
        shutil.copytree(folder / "lake", folder / "kept")
        return cls(folder=folder)

    @contextlib.contextmanager
    def cast(self) -> Iterator[Lake]:
        """The lake as it was built."""
        shutil.rmtree(self.folder / "lake")
        shutil.copytree(self.folder / "kept", self.folder / "lake")
        lake = file_lake(self.folder / "lake")
        yield lake
        lake.catalog.close()


def rest_lake(server: S3Server, *, namespace: str) -> Lake:
    """S3 and REST catalog of a running server."""
    settings = CatalogSettings(uri=server.rest_uri, warehouse=server.warehouse, properties=server.rest_properties)
    catalog = RestCatalog("default", uri=server.rest_uri, warehouse=server.warehouse, **server.rest_properties)
    catalog.create_namespace_if_not_exists(namespace)
    return Lake(settings=settings, catalog=catalog, namespace=namespace)


def close(lake: Lake) -> None:
    """Let go of connections, which Python would otherwise warn about."""
    lake.catalog.close()


def make_table(
    catalog: Catalog,
    name: str,
    schema: Schema | pa.Schema = NUMBERS,
    *,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    properties: dict[str, str] | None = None,
) -> Table:
    """An empty table `namespace.table`."""
    return catalog.create_table(name, schema, partition_spec=spec, properties=properties or {})


def append_small_files(table: Table, n_files: int, rows_each: int = 10, *, data: pa.Table | None = None) -> Table:
    """As many appends, each of one file per partition it touches. `data` is cut into equal parts; without it rows are
    made up in the table's own schema (see `rows`)."""
    schema = table.schema().as_arrow()
    for number in range(n_files):
        if data is None:
            part = rows(schema, rows_each, first=number * rows_each)
        else:
            step = -(-data.num_rows // n_files)
            part = data.slice(number * step, step)
        table.append(part)
    return table


def rows(schema: pa.Schema, count: int, *, first: int = 0) -> pa.Table:
    """Made-up rows: every column a function of the row's number, so content is reproducible; every seventh value of a
    nullable column is null."""
    columns = []
    for field in schema:
        values = [_value(field.type, n) for n in range(first, first + count)]
        if field.nullable:
            values = [None if (first + i) % 7 == 6 else value for i, value in enumerate(values)]
        columns.append(pa.array(values, type=field.type))
    return pa.table(columns, schema=schema)


_MICROS_PER_HOUR = 3_600_000_000
_EPOCH_2026 = 1_767_225_600_000_000


def _value(type_: pa.DataType, n: int) -> Any:
    if pa.types.is_boolean(type_):
        return n % 2 == 0
    if pa.types.is_integer(type_) or pa.types.is_decimal(type_):
        return n
    if pa.types.is_floating(type_):
        return n / 4
    if pa.types.is_date(type_):
        return pa.scalar(20_454 + n // 24, pa.int32()).cast(pa.date32()).as_py()
    if pa.types.is_timestamp(type_):
        return pa.scalar(_EPOCH_2026 + n * _MICROS_PER_HOUR, pa.int64()).cast(type_).as_py()
    if pa.types.is_binary(type_) or pa.types.is_large_binary(type_):
        return f"b{n}".encode()
    if pa.types.is_string(type_) or pa.types.is_large_string(type_):
        return f"value {n}"
    raise NotImplementedError(f"No made-up values for {type_}; pass data instead.")
