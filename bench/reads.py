"""What compaction is for: the same queries on 100 small files and on the three that they become, with Spark (Iceberg
Java's reader) and DuckDB, on local files and on S3.

Requests come in by time, but an id can be in any file. Before and after take turns, and the best time of each counts.
DuckDB gets the table's list of files, and reads S3 through Arrow's client. The S3 server runs on this machine: with a
store that is farther away, fewer files save more.
`python -m bench.reads [--quick]` prints a table, and as its last line one JSON object with the bars.
"""

from __future__ import annotations

import argparse
import datetime
import json
import statistics
import sys
import tempfile
import urllib.parse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pyarrow.fs import S3FileSystem
from pyiceberg.catalog.sql import SqlCatalog
from tests.factories import java, servers

from bench import arrow_files, scans, shape_tables, sides
from iceberg_compaction import Compactor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyiceberg.table import Table

    from bench.sides import Measured, Steps

CORES, BUCKET = 2, "reads"
ROUNDS, QUICK_ROUNDS, QUICK_SHARE = 5, 2, 0.2
SHAPE = shape_tables.Shape(
    "requests",
    "requests",
    ("hex(xxhash64(id, 69)) as request_id", *shape_tables.LOGS),
    3_200_000,
    100,
    target=40 * shape_tables.MB,
)
STORES, ENGINES = ("local", "s3"), ("spark", "duckdb")
# Times as fast as before, the median query. DuckDB opens local files in no time, so that it has little to gain there.
REACH = {("local", "spark"): 1.1, ("local", "duckdb"): 0.9, ("s3", "spark"): 1.2, ("s3", "duckdb"): 1.1}
AWS = "org.apache.iceberg:iceberg-aws-bundle:1.12.0"
FIRST, PER_SECOND = 1_700_000_000, 50  # of the requests
SHOWN = ("store", "engine", "query", "before_s", "after_s", "times")
Row = dict[str, Any]


def queries(engine: str, rows: int, request_id: str) -> dict[str, str]:
    """{} is the table. The full scan needs every column; its query follows from the schema."""
    begin, length = FIRST + rows * 45 // 100 // PER_SECOND, rows // 10 // PER_SECOND
    times = [datetime.datetime.fromtimestamp(each, datetime.timezone.utc) for each in (begin, begin + length)]
    word = "timestamp" if engine == "spark" else "timestamptz"
    first, last = (f"{word} '{each:%Y-%m-%d %H:%M:%S}+00:00'" for each in times)
    return {
        "point look-up": f"select count(*), max(latency) from {{}} where request_id = '{request_id}'",
        "range": f"select count(*), sum(latency) from {{}} where ts >= {first} and ts < {last}",
        "full scan": "",
        "aggregate": "select count(*), max(mean) from (select host, avg(latency) as mean from {} group by host)",
    }


def open_reader(root: Path, properties: Mapping[str, str]) -> Steps:
    """Iceberg Java on Spark: makes the table, and reads it."""
    packages = f"{java.PACKAGES},{AWS}" if properties else java.PACKAGES
    spark = java.session(root, CORES, packages=packages, properties=properties)
    return {
        "make": lambda share: shape_tables.make(spark, root, SHAPE, share),
        "schema": lambda: spark.table(f"lake.{SHAPE.table}").schema,
        "query": lambda query: tuple(map(str, spark.sql(query).collect()[0])),
    }


def measure(root: Path, share: float, rounds: int, server: servers.S3Server | None) -> tuple[list[Row], list[int]]:
    """Times of each engine and query, and the number of files before and after."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{root}/catalog.db", **_catalog_properties(root, server))
    catalog.create_namespace(shape_tables.NAMESPACE)
    reader = sides.Side(open_reader, root, _java_properties(server))
    try:
        reader.do("make", share)
        tables = [catalog.load_table(SHAPE.table)]
        compactor = Compactor(catalog, target_file_size=SHAPE.target, options={"rewrite-all": True}, engine="inline")
        assert compactor.compact_table(SHAPE.table).kind.value == "compacted"
        tables.append(catalog.load_table(SHAPE.table))
        picked = f"select max(request_id) from lake.{SHAPE.table} where request_id < '8'"
        request_id = reader.do("query", picked).value[0]
        schema, duckdb = reader.do("schema").value, _duckdb(server)
        found = []
        for engine in ENGINES:
            run: Callable[[str], Measured] = duckdb if engine == "duckdb" else lambda text: reader.do("query", text)
            sources = [_source(table, engine) for table in tables]
            for name, query in queries(engine, round(SHAPE.rows * share), request_id).items():
                texts = [query.format(source) or scans.every_column(schema, source, engine) for source in sources]
                found.append({"engine": engine, "query": name} | _compare(run, texts, rounds))
                print(f"  {'s3' if server else 'local'} {found[-1]}", flush=True)
    finally:
        reader.close()
    return found, [len(_paths(table)) for table in tables]


def _compare(run: Callable[[str], Measured], texts: list[str], rounds: int) -> Row:
    """The best wall clock and CPU seconds before and after, in turns."""
    runs = [[run(text) for text in texts] for _ in range(rounds + 1)][1:]
    assert len({str(each.value[0]) for pair in runs for each in pair}) == 1, f"rows differ: {runs}"
    before, after = (min(pair[place].seconds for pair in runs) for place in (0, 1))
    cpu = [min(pair[place].cpu_seconds for pair in runs) for place in (0, 1)]
    row = {"before_s": round(before, 3), "after_s": round(after, 3), "times": round(before / after, 2)}
    return row | {"before_cpu_s": round(cpu[0], 3), "after_cpu_s": round(cpu[1], 3)}


def _catalog_properties(root: Path, server: servers.S3Server | None) -> dict[str, str]:
    return {"warehouse": f"s3://{BUCKET}", **server.s3_properties} if server else {"warehouse": f"file://{root}"}


def _java_properties(server: servers.S3Server | None) -> dict[str, str]:
    if server is None:
        return {}
    return {
        "warehouse": f"s3://{BUCKET}",
        "io-impl": "org.apache.iceberg.aws.s3.S3FileIO",
        "s3.endpoint": server.s3_endpoint,
        "s3.path-style-access": "true",
        "s3.access-key-id": server.access_key,
        "s3.secret-access-key": server.secret_key,
        "client.region": "us-east-1",
    }


def _paths(table: Table) -> list[str]:
    return [task.file.file_path for task in table.scan().plan_files()]


def _source(table: Table, engine: str) -> str:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    if engine == "spark":
        return f"lake.{SHAPE.table} version as of {snapshot.snapshot_id}"
    urls = [urllib.parse.urlparse(path) for path in _paths(table)]
    s3 = f"{arrow_files.PROTOCOL}://"
    return scans.parquet_source([f"{s3}{url.netloc}{url.path}" if url.scheme == "s3" else url.path for url in urls])


def _duckdb(server: servers.S3Server | None) -> Callable[[str], Measured]:
    return scans.duckdb_runner(CORES, arrow_files.ArrowFiles(_client(server)) if server else None)


def _client(server: servers.S3Server) -> S3FileSystem:
    return S3FileSystem(
        endpoint_override=server.s3_endpoint,
        access_key=server.access_key,
        secret_key=server.secret_key,
        region="us-east-1",
        allow_bucket_creation=True,
    )


def bars(rows: list[Row]) -> list[dict[str, Any]]:
    made = []
    for (store, engine), reach in REACH.items():
        times = [row["times"] for row in rows if (row["store"], row["engine"]) == (store, engine)]
        if times:
            name, value = f"{store}, {engine}, median query: times as fast as before", statistics.median(times)
            made.append({"name": name, "value": round(value, 2), "reach": f">= {reach:g}", "ok": value >= reach})
    return made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a fifth of the rows and fewer rounds")
    parser.add_argument("--store", choices=STORES, help="this one only")
    arguments = parser.parse_args()
    share, rounds = (QUICK_SHARE, QUICK_ROUNDS) if arguments.quick else (1.0, ROUNDS)
    rows, files = [], []
    for store in [arguments.store] if arguments.store else STORES:
        with tempfile.TemporaryDirectory(prefix="bench-reads-") as name:
            if store == "local":
                measured, files = measure(Path(name), share, rounds, None)
            else:
                with servers.seaweedfs() as server:
                    _client(server).create_dir(BUCKET)
                    measured, files = measure(Path(name), share, rounds, server)
        rows += [{"store": store} | row for row in measured]
    for row in rows:
        print("  ".join(f"{row[name]:>14}" for name in SHOWN))
    print(json.dumps({"bench": "reads", "files": files, "bars": bars(rows), "queries": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
