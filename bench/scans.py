"""Queries over whole tables: a checksum that does not depend on the order of rows, and a scan that reads every column
and does little else, in the words of Spark and of DuckDB."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bench import sides

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructType

    from bench.sides import Measured

_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_DUCKDB = {"size": "len", "map_size": "cardinality", "unix_micros": "epoch_us"}
_SPARK = {"size": "size", "map_size": "size", "unix_micros": "unix_micros"}


def checksum(spark: SparkSession, table: str) -> tuple[int, int, int]:
    """The number of rows, and two sums over their hashes."""
    fields = spark.table(f"lake.{table}").schema.fields
    # Spark hashes no maps.
    columns = [f"to_json({field.name})" if "map<" in field.dataType.simpleString() else field.name for field in fields]
    rows = f"select xxhash64({', '.join(columns)}) as hash from lake.{table}"
    found = spark.sql(f"select count(*), bit_xor(hash), sum(pmod(hash, 1000000007)) from ({rows})").collect()[0]
    return int(found[0]), int(found[1]), int(found[2])


def every_column(schema: StructType, source: str, engine: str) -> str:
    """A query that needs every value of the source. Statistics cannot answer it."""
    sums = [part for field in schema.fields for part in _sums(field.name, field.dataType, engine)]
    return f"select count(*), {', '.join(sums)} from {source}"


def _sums(path: str, kind: DataType, engine: str) -> list[str]:
    words = _SPARK if engine == "spark" else _DUCKDB
    name = kind.simpleString()
    if name.startswith("struct"):
        return [part for field in kind.fields for part in _sums(f"{path}.{field.name}", field.dataType, engine)]  # type: ignore[attr-defined]
    if name.startswith("array"):
        return [f"sum({words['size']}({path}))"]
    if name.startswith("map"):
        return [f"sum({words['map_size']}({path}))"]
    if name.startswith("timestamp"):
        instant = f"cast({path} as timestamp)"  # Spark counts microseconds of times with a zone only
        return [f"sum({words['unix_micros']}({instant}) % 1000000)"]
    if name.startswith(_NUMBERS):
        return [f"sum({path})"]
    return [{"string": f"sum(length({path}))", "date": f"sum(day({path}))"}.get(name, f"sum(cast({path} as int))")]


def compare(run: Callable[[str], Measured], queries: Mapping[str, str], rounds: int) -> tuple[float, float]:
    """The best of the first query over the best of the second: CPU seconds and wall clock. They take turns, after one
    round to warm up, and must count the same rows."""
    runs: dict[str, list[Measured]] = {name: [] for name in queries}
    for _ in range(rounds + 1):
        for name, query in queries.items():
            runs[name].append(run(query))
    counts = {str(each.value[0]) for measured in runs.values() for each in measured}
    assert len(counts) == 1, f"rows differ: {counts}"
    first, second = (measured[1:] for measured in runs.values())
    cpu = min(each.cpu_seconds for each in first) / min(each.cpu_seconds for each in second)
    wall = min(each.seconds for each in first) / min(each.seconds for each in second)
    return round(cpu, 3), round(wall, 3)


def duckdb_runner(cores: int, file_system: Any = None) -> Callable[[str], Measured]:
    """Queries in this process, over local files or over those of an fsspec file system."""
    import duckdb

    database = duckdb.connect()
    if file_system is not None:
        database.register_filesystem(file_system)
    database.execute(f"set threads to {cores}")

    def run(query: str) -> Measured:
        started, before = time.perf_counter(), time.process_time()
        value = database.execute(query).fetchone()
        return sides.Measured(value, time.perf_counter() - started, time.process_time() - before, 0.0)

    return run


def parquet_source(paths: Sequence[str]) -> str:
    """Files as DuckDB reads them."""
    return f"read_parquet({list(paths)!r})"
