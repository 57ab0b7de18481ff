"""Small Parquet files with random columns of all types, written in random ways, to join their row groups."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from tests.factories import spliced

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

START = datetime.datetime(2020, 1, 1)
FLOATS = (float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.5, -2.25)
WORDS = ("", "a", "ß", "\U0001f600", "z" * 5000, "word")


def column(kind: pa.DataType, number: int, name: str = "element", *, nullable: bool = True) -> pa.Field:
    return spliced.with_id(name, kind, number, nullable=nullable)


def _number(chance: random.Random, few: int) -> int:
    return chance.randrange(-few, few)


def _float(chance: random.Random, few: int) -> float:
    return chance.choice(FLOATS) if chance.random() < 0.3 else float(_number(chance, few)) / 4


def _text(chance: random.Random, few: int) -> str:
    return chance.choice(WORDS) if chance.random() < 0.1 else f"t{chance.randrange(few)}"


def _bytes(length: int) -> Callable[[random.Random, int], bytes]:
    return lambda chance, few: (chance.randrange(few) * 2654435761 % 2**31).to_bytes(length, "big")


def _decimal(scale: int) -> Callable[[random.Random, int], decimal.Decimal]:
    return lambda chance, few: decimal.Decimal(_number(chance, few)).scaleb(-scale)


def _maybe(chance: random.Random, value: Any) -> Any:
    return None if chance.random() < 0.2 else value


def _list(make: Callable[[random.Random, int], Any]) -> Callable[[random.Random, int], list[Any]]:
    return lambda chance, few: [_maybe(chance, make(chance, few)) for _ in range(chance.randrange(4))]


def _place(chance: random.Random, few: int) -> dict[str, Any]:
    return {"x": _maybe(chance, _number(chance, few)), "n": _maybe(chance, _text(chance, few))}


def _map(chance: random.Random, few: int) -> list[tuple[str, Any]]:
    return [(f"k{key}", _maybe(chance, _float(chance, few))) for key in range(chance.randrange(3))]


# A type, given the first field id below it, and a function that makes its values: few different ones, or many.
KINDS: dict[str, tuple[Callable[[int], pa.DataType], Callable[[random.Random, int], Any]]] = {
    "int": (lambda _: pa.int32(), _number),
    "long": (lambda _: pa.int64(), lambda chance, few: _number(chance, few) << 40),
    "float": (lambda _: pa.float32(), _float),
    "double": (lambda _: pa.float64(), _float),
    "decimal_int": (lambda _: pa.decimal128(9, 2), _decimal(2)),
    "decimal_long": (lambda _: pa.decimal128(18, 4), _decimal(4)),
    "decimal_bytes": (lambda _: pa.decimal128(38, 10), _decimal(10)),
    "date": (lambda _: pa.date32(), lambda chance, few: START.date() + datetime.timedelta(_number(chance, few) // 4)),
    "time": (lambda _: pa.time64("us"), lambda chance, few: datetime.time(1, 2, 3, chance.randrange(few))),
    "timestamp": (
        lambda _: pa.timestamp("us"),
        lambda chance, few: START + datetime.timedelta(seconds=_number(chance, few)),
    ),
    "timestamptz": (
        lambda _: pa.timestamp("us", tz="UTC"),
        lambda chance, few: START.replace(tzinfo=datetime.timezone.utc) + datetime.timedelta(0, _number(chance, few)),
    ),
    "string": (lambda _: pa.string(), _text),
    "binary": (lambda _: pa.binary(), lambda chance, few: _text(chance, few).encode()),
    "fixed": (lambda _: pa.binary(5), _bytes(5)),
    "uuid": (lambda _: pa.binary(16), _bytes(16)),
    "boolean": (lambda _: pa.bool_(), lambda chance, few: chance.random() < 0.5),
    "struct": (lambda at: pa.struct([column(pa.int32(), at, "x"), column(pa.string(), at + 1, "n")]), _place),
    "list": (lambda at: pa.list_(column(pa.int64(), at)), _list(_number)),
    "map": (
        lambda at: pa.map_(column(pa.string(), at, "key", nullable=False), column(pa.float64(), at + 1, "value")),
        _map,
    ),
    "deep": (
        lambda at: pa.list_(
            column(
                pa.struct(
                    [column(pa.list_(column(pa.string(), at + 2)), at + 1, "l"), column(pa.int32(), at + 3, "i")]
                ),
                at,
            )
        ),
        _list(lambda chance, few: {"l": _maybe(chance, _list(_text)(chance, few)), "i": _number(chance, few)}),
    ),
}
ENCODINGS = {
    "int": "DELTA_BINARY_PACKED",
    "long": "BYTE_STREAM_SPLIT",
    "float": "BYTE_STREAM_SPLIT",
    "double": "BYTE_STREAM_SPLIT",
    "string": "DELTA_BYTE_ARRAY",
    "binary": "DELTA_LENGTH_BYTE_ARRAY",
    "boolean": "RLE",
}
CODECS = ("zstd", "snappy", "gzip", "none", "brotli", "lz4")


def random_schema(chance: random.Random) -> pa.Schema:
    fields = []
    for number, kind in enumerate(chance.sample(list(KINDS), 5)):
        nullable = chance.random() < 0.7
        fields.append(column(KINDS[kind][0](100 * number + 101), number + 1, kind, nullable=nullable))
    return pa.schema(fields)


def _table(chance: random.Random, schema: pa.Schema, rows: int) -> pa.Table:
    columns = []
    for field in schema:
        few, gaps = chance.choice((3, 40, 10**6)), chance.choice((0.0, 0.1, 1.0)) if field.nullable else 0.0
        make = KINDS[field.name][1]
        columns.append(
            pa.array([None if chance.random() < gaps else make(chance, few) for _ in range(rows)], field.type)
        )
    return pa.table(columns, schema=schema)


def _options(chance: random.Random, schema: pa.Schema) -> dict[str, Any]:
    options: dict[str, Any] = {
        "use_dictionary": chance.choice((True, True, False)),
        "data_page_version": chance.choice(("1.0", "2.0")),
        "data_page_size": chance.choice((200, 5000, 2**20)),
        "max_rows_per_page": chance.choice((7, 50, 20_000)),
        "dictionary_pagesize_limit": chance.choice((200, 2**20, 2**20)),
        "write_page_index": chance.random() < 0.8,
        "write_page_checksum": chance.random() < 0.7,
        "write_statistics": chance.random() < 0.9,
        "write_batch_size": 10,
        "bloom_filter_options": None,
    }
    if not options["use_dictionary"] and chance.random() < 0.5:
        options["column_encoding"] = {name: ENCODINGS[name] for name in schema.names if name in ENCODINGS}
    return options


def random_sources(chance: random.Random, folder: Path, schema: pa.Schema) -> tuple[list[str], pa.Table]:
    """Files that were mostly written in one way, and all their rows."""
    paths, tables = [], []
    codec, options = chance.choice(CODECS), _options(chance, schema)
    same = _table(chance, schema, chance.randrange(1, 200))
    for number in range(chance.randrange(1, 6)):
        rows = chance.choice((0, 1, 30, 200))
        table = same if chance.random() < 0.2 else _table(chance, schema, rows)
        missing = [field.name for field in schema if field.nullable and chance.random() < 0.1]
        kept = table.drop_columns(missing) if len(missing) < len(schema) else table
        group = chance.choice((None, 50))
        for_this = _options(chance, schema) if chance.random() < 0.1 else options
        paths.append(spliced.write(folder / f"{number}.parquet", kept, group, **{**for_this, "compression": codec}))
        nulls = [pa.nulls(len(table), field.type) if field.name not in kept.column_names else None for field in schema]
        columns = [kept.column(field.name) if each is None else each for field, each in zip(schema, nulls, strict=True)]
        tables.append(pa.table(columns, schema=schema))
    return paths, pa.concat_tables(tables)
