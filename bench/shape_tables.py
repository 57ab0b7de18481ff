"""Tables of many shapes, as engines leave them behind: small files that Spark wrote through Iceberg Java (one shape:
that PyIceberg wrote). Values come from seeds, so that every run has the same rows."""

from __future__ import annotations

import dataclasses
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MB = 2**20
WORDS, LETTERS = 1200, "etaoinshrdlucmfwypvbgkqjxz"
NAMESPACE = "bench"
SPLIT = "write.target-file-size-bytes"


@dataclass(frozen=True, slots=True)
class Shape:
    """A table: `columns` are Spark SQL over `id`; `basis` is a shape whose files it shares."""

    name: str
    words: str  # for people
    columns: tuple[str, ...]
    rows: int
    files: int
    target: int | None = None  # None: the default of tables
    codec: str = "zstd"
    partitions: int = 0  # of the column `part`; each task writes one file to each
    deletes: tuple[str, ...] = ()  # conditions, each of them a commit of position deletes
    basis: str = ""

    @property
    def table(self) -> str:
        return f"{NAMESPACE}.{self.name}"


def _words() -> list[str]:
    """Words of three to ten letters, frequent letters first."""
    source = random.Random(17)
    weights = [len(LETTERS) - place for place in range(len(LETTERS))]
    return ["".join(source.choices(LETTERS, weights, k=source.randint(3, 10))) for _ in range(WORDS)]


WORD_LIST = f"array({','.join(repr(word) for word in _words())})"


def number(seed: int, count: int) -> str:
    """A number from 0 to below `count`."""
    return f"cast(rand({seed}) * {count} as bigint)"


def word(seed: int, count: int = WORDS) -> str:
    """One of the first `count` words."""
    return f"element_at({WORD_LIST}, cast(rand({seed}) * {count} as int) + 1)"


def text(seed: int, words: int) -> str:
    """So many words in a row."""
    return f"concat_ws(' ', {', '.join(word(seed + place) for place in range(words))})"


def long_text(seed: int, least: int, more: int) -> str:
    """From `least` words on, up to `more` further ones."""
    picked = f"element_at({WORD_LIST}, cast(pmod(xxhash64(id, i, {seed}), {WORDS}) as int) + 1)"
    count = f"cast({least} + rand({seed}) * {more} as int)"
    return f"array_join(transform(sequence(1, {count}), i -> {picked}), ' ')"


def nullable(seed: int, share: float, expression: str) -> str:
    return f"if(rand({seed}) < {share}, null, {expression})"


LINEITEM = (
    "cast(id div 4 as bigint) * 8 + 1 as l_orderkey",
    f"{number(1, 200_000)} as l_partkey",
    f"{number(2, 10_000)} as l_suppkey",
    "cast(id % 7 + 1 as int) as l_linenumber",
    f"cast({number(3, 50)} + 1 as decimal(12, 2)) as l_quantity",
    f"cast(900 + {number(4, 9_500_000)} / 100 as decimal(12, 2)) as l_extendedprice",
    f"cast({number(5, 11)} / 100 as decimal(12, 2)) as l_discount",
    f"cast({number(6, 9)} / 100 as decimal(12, 2)) as l_tax",
    "element_at(array('A', 'N', 'R'), cast(rand(7) * 3 as int) + 1) as l_returnflag",
    "if(rand(8) < 0.5, 'O', 'F') as l_linestatus",
    "date_add(date'1992-01-02', cast(rand(9) * 2526 as int)) as l_shipdate",
    f"{text(10, 5)} as l_comment",
)
EVENTS = (
    "concat(hex(xxhash64(id, 1)), '-', hex(xxhash64(id, 2))) as event_id",
    "timestamp_micros(1700000000000000 + id * 150000 + cast(rand(20) * 100000 as bigint)) as ts",
    f"named_struct('id', {number(21, 500_000)}, 'name', {word(22)}, 'country', {word(23, 40)}) as user",
    f"array({word(24, 60)}, {word(25, 60)}, {word(26, 60)}) as tags",
    f"map('browser', {word(27, 12)}, 'campaign', {word(28, 80)}, 'page', {word(29, 300)}) as attributes",
    'concat(\'{"session":"\', hex(xxhash64(id, 30)), \'","ms":\', cast(rand(31) * 100000 as int), '
    f"',\"query\":\"', {text(32, 6)}, '\",\"ok\":', if(rand(39) < 0.9, 'true', 'false'), '}}') as payload",
    "rand(40) * 100 as score",
)
WIDE = (
    *(f"{number(100 + place, 10 ** (2 + place % 8))} as n{place}" for place in range(40)),
    *(f"rand({200 + place}) * 1000 as d{place}" for place in range(30)),
    *(f"{word(300 + place, 8 << place % 6)} as s{place}" for place in range(30)),
    *(f"{text(400 + 2 * place, 2)} as t{place}" for place in range(10)),
    *(
        f"timestamp_micros(1700000000000000 + id * 1000000 + {number(500 + place, 10**6)}) as m{place}"
        for place in range(10)
    ),
)
NESTED = (
    "id as order_id",
    "named_struct('id', cast(rand(60) * 100000 as bigint), 'address', named_struct('city', "
    f"{word(61, 200)}, 'geo', named_struct('lat', rand(62) * 180, 'lon', rand(63) * 360))) as customer",
    "transform(sequence(1, cast(1 + rand(64) * 4 as int)), i -> named_struct('sku', hex(xxhash64(id, i)), 'quantity', "
    "cast(pmod(xxhash64(i, id, 1), 20) as int), 'options', transform(sequence(1, 1 + cast(pmod(xxhash64(id, i, 2), 3) "
    "as int)), j -> named_struct('name', concat('option', pmod(xxhash64(id, i, j), 50)), 'value', "
    "cast(pmod(xxhash64(j, i, id), 100000) as int))))) as items",
    f"map({word(65, 30)}, array(named_struct('at', id * 1000, 'note', {text(66, 3)}))) as history",
)
LOGS = (
    "timestamp_micros(1700000000000000 + id * 20000 + cast(rand(70) * 15000 as bigint)) as ts",
    f"concat('host-', {number(71, 400)}) as host",
    "element_at(array('INFO', 'INFO', 'INFO', 'WARN', 'ERROR'), cast(rand(72) * 5 as int) + 1) as level",
    f"concat('GET /', {word(73)}, '/', {number(74, 10**7)}, '?q=', {word(75)}) as request",
    "element_at(array(200, 200, 200, 301, 404, 500), cast(rand(76) * 6 as int) + 1) as status",
    "cast(exp(rand(77) * 10) as int) as latency",
    f"{text(78, 6)} as message",
)
SENSORS = (
    "timestamp_micros(1700000000000000 + id * 10000) as ts",
    f"{number(80, 5_000)} as sensor",
    *(f"round(20 + {place} + sin(id / 1000.0) * 5 + rand({81 + place}), 3) as v{place}" for place in range(5)),
    "cast(rand(88) * 100 as float) as battery",
    "rand(89) < 0.02 as alarm",
)
STORE_SALES = (
    "id as ss_ticket_number",
    *(
        f"{nullable(900 + place, 0.045, number(920 + place, 10 ** (2 + place % 5)))} as ss_key{place}"
        for place in range(9)
    ),
    f"{nullable(940, 0.045, f'cast({number(941, 100)} as int)')} as ss_quantity",
    *(
        nullable(950 + place, 0.045, f"cast({number(970 + place, 2_000_000)} / 100 as decimal(7, 2))")
        + f" as ss_amount{place}"
        for place in range(12)
    ),
)
SHAPES = (
    Shape("lineitem", "TPC-H lineitem, 12 columns", LINEITEM, 6_000_000, 120, target=64 * MB),
    Shape(
        "lineitem_deletes",
        "lineitem, position deletes on 2 % of rows",
        LINEITEM,
        6_000_000,
        120,
        64 * MB,
        deletes=("pmod(xxhash64(l_orderkey, l_partkey, l_comment), 50) = 0",),
        basis="lineitem",
    ),
    Shape("events", "events: struct, list, map, JSON text", EVENTS, 1_650_000, 80),
    Shape("events_partitions", "events in 24 partitions", EVENTS, 1_150_000, 240, partitions=24),
    Shape("wide", "120 columns", WIDE, 315_000, 60, target=64 * MB),
    Shape("tiny", "files of 40 KB", (*LINEITEM, f"{text(50, 6)} as note"), 830_000, 1000),
    Shape(
        "long_text",
        "three long texts",
        ("id", *(f"{long_text(55 + place, 40, 400)} as text{place}" for place in range(3))),
        70_000,
        40,
    ),
    Shape(
        "dictionaries",
        "20 columns of few values",
        tuple(f"{word(600 + place, 4 << place % 7)} as c{place}" for place in range(20)),
        8_000_000,
        60,
    ),
    Shape("pyarrow", "written by PyIceberg", (), 2_000_000, 40, target=64 * MB),
    Shape("nested", "lists of structs of lists", NESTED, 1_300_000, 40),
    Shape("gzip", "logs in gzip", LOGS, 3_200_000, 80, codec="gzip"),
    Shape("snappy", "sensors in snappy", SENSORS, 4_400_000, 80, target=64 * MB, codec="snappy"),
    Shape("store_sales", "store sales: nulls and decimals", STORE_SALES, 2_000_000, 60),
    Shape(
        "store_sales_deletes",
        "store sales, ten delete commits",
        STORE_SALES,
        2_000_000,
        60,
        basis="store_sales",
        deletes=tuple(f"ss_ticket_number % 500 = {place}" for place in range(10)),
    ),
)


def make(spark: SparkSession, root: Path, shape: Shape, share: float = 1.0) -> None:
    """Create the shape's table, or the first `share` of its rows and files."""
    properties = {
        "format-version": "2",
        "write.parquet.compression-codec": shape.codec,
        "write.distribution-mode": "none",
        "write.spark.fanout.enabled": "true",
        "write.delete.mode": "merge-on-read",
        "write.delete.granularity": "file" if len(shape.deletes) == 1 else "partition",
        **({SPLIT: str(shape.target)} if shape.target else {}),
    }
    if shape.basis:
        _share_files(root, shape, properties)
    elif shape.columns:
        _write(spark, shape, properties, share)
    else:
        _append(root, shape, properties, share)
    for condition in shape.deletes:
        spark.sql(f"DELETE FROM lake.{shape.table} WHERE {condition}")


def _write(spark: SparkSession, shape: Shape, properties: dict[str, str], share: float) -> None:
    tasks = (
        max(1, round(shape.files * share))
        if not shape.partitions
        else max(2, round(shape.files * share / shape.partitions))
    )
    rows = spark.range(0, round(shape.rows * share), 1, tasks).selectExpr(
        *shape.columns, *([f"cast(id % {shape.partitions} as int) as part"] if shape.partitions else [])
    )
    writer = rows.writeTo(f"lake.{shape.table}").using("iceberg")
    for key, value in properties.items():
        writer = writer.tableProperty(key, value)
    if shape.partitions:
        writer = writer.partitionedBy(rows["part"])
    writer.create()


def _append(root: Path, shape: Shape, properties: dict[str, str], share: float) -> None:
    """By PyIceberg, one file for each append."""
    from bench import proof, rewrite

    table = rewrite.connect(root).create_table(shape.table, proof.SCHEMA, properties=properties)
    for place in range(max(1, round(shape.files * share))):
        table.append(proof.make_table(shape.rows // shape.files, place))


def _share_files(root: Path, shape: Shape, properties: dict[str, str]) -> None:
    from bench import copy, rewrite

    catalog = rewrite.connect(root)
    basis = catalog.load_table(f"{NAMESPACE}.{shape.basis}")
    copy.refer(catalog.create_table(shape.table, basis.schema(), properties=properties), basis)


def find(name: str) -> Shape:
    return next(shape for shape in SHAPES if shape.name == name)


def warm(shape: Shape) -> Shape:
    """The same under another name, to warm up with."""
    return dataclasses.replace(shape, name=f"warm_{shape.name}", basis=shape.basis and f"warm_{shape.basis}")
