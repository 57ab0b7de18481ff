"""Row groups joined as bytes hold the rows of their sources, and all figures about them are true."""

from __future__ import annotations

import datetime
import decimal
import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import joined, parquet_files, spliced, tasks
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import page_headers, parquet_footer, thrift
from iceberg_compaction.formats.parquet.join import join_row_groups, ways

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

START = datetime.datetime(2020, 1, 1)
FLOATS = (float("nan"), -0.0, 0.0, float("inf"), float("-inf"), 1.5, -2.25)
WORDS = ("", "a", "ß", "\U0001f600", "z" * 5000, "word")


def _id(kind: pa.DataType, number: int, name: str = "element", *, nullable: bool = True) -> pa.Field:
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
    "struct": (lambda at: pa.struct([_id(pa.int32(), at, "x"), _id(pa.string(), at + 1, "n")]), _place),
    "list": (lambda at: pa.list_(_id(pa.int64(), at)), _list(_number)),
    "map": (lambda at: pa.map_(_id(pa.string(), at, "key", nullable=False), _id(pa.float64(), at + 1, "value")), _map),
    "deep": (
        lambda at: pa.list_(
            _id(pa.struct([_id(pa.list_(_id(pa.string(), at + 2)), at + 1, "l"), _id(pa.int32(), at + 3, "i")]), at)
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


def _schema(chance: random.Random) -> pa.Schema:
    fields = []
    for number, kind in enumerate(chance.sample(list(KINDS), 5)):
        nullable = chance.random() < 0.7
        fields.append(_id(KINDS[kind][0](100 * number + 101), number + 1, kind, nullable=nullable))
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


def _sources(chance: random.Random, folder: Path, schema: pa.Schema) -> tuple[list[str], pa.Table]:
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


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_joined_row_groups_hold_all_rows_and_true_figures(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("join")
    schema = _schema(chance)
    paths, table = _sources(chance, folder, schema)
    if not table.num_rows:
        return
    changes = {
        "data_page_version": chance.choice(("1.0", "2.0")),
        "max_rows_per_page": chance.choice((10, 200)),
        "compression": chance.choice(CODECS),
        "write_page_index": chance.random() < 0.9,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "_LEAST_PAGE", chance.choice((0, 0, 2**20)))
        patch.setattr(ways, "_LEAST_PAGE_ROWS", chance.choice((0, 10**6)))
        patch.setattr(ways, "_MOST_OF_CHUNK", chance.choice((0.0, 2.0)))
        patch.setattr(ways, "_BYTES_PER_VALUE", 0.0)
        patch.setattr(join_row_groups, "_USEFUL", chance.choice((0.0, 0.5)))
        joined.join_files(f"{folder}/out.parquet", paths, table, **changes)
    joined.check(f"{folder}/out.parquet", table)
    read = joined.rows_of(f"{folder}/out.parquet")
    assert tasks.comparable(read.to_pylist()) == tasks.comparable(table.to_pylist())


# Footers that do not say the truth


FLAT = pa.schema([_id(pa.int32(), 1, "n", nullable=False)])


def _flat(folder: Path, name: str, values: list[int], **options: Any) -> Path:
    table = pa.table([pa.array(values, pa.int32())], schema=FLAT)
    return folder.joinpath(spliced.write(folder / name, table, bloom_filter_options=None, **options))


def _change_meta(path: Path, change: Callable[[thrift.Struct], None]) -> str:
    def of_all(footer: thrift.Struct) -> None:
        for chunk in (chunk for group in parquet_files.chunks(footer) for chunk in group):
            change(chunk[parquet_files.META][1])

    return str(parquet_files.change_footer(path, of_all))


def _join_flat(folder: Path, sources: list[str], values: list[int]) -> dict[int, bool]:
    table = pa.table([pa.array(values, pa.int32())], schema=FLAT)
    moved = joined.join_files(f"{folder}/out.parquet", sources, table)
    assert joined.rows_of(f"{folder}/out.parquet")["n"].to_pylist() == values
    return moved


@pytest.fixture
def _small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_LEAST_PAGE", 0)
    monkeypatch.setattr(ways, "_MOST_OF_CHUNK", 2.0)


def _all_pages_are_indexes(meta: thrift.Struct) -> None:
    meta[joined.ENCODING_STATS] = (
        thrift.LIST,
        (thrift.STRUCT, [{1: (thrift.I32, 0), 2: (thrift.I32, 8), 3: (thrift.I32, 2)}]),
    )


@pytest.mark.usefixtures("_small_pages")
def test_plain_pages_that_the_footer_calls_indexes_are_not_taken_for_ranks(tmp_path: Path) -> None:
    """The writer gave its dictionary up after the first page; the plain values are valid ranks, too."""
    values = [*range(100), *(n % 90 for n in range(400))]
    fallback = {"dictionary_pagesize_limit": 100, "max_rows_per_page": 100, "write_batch_size": 100}
    path = _flat(tmp_path, "a.parquet", values, **fallback)
    assert len(parquet_files.pages(path, 0)) > 2
    other = _flat(tmp_path, "b.parquet", list(range(500)), **fallback)
    paths = [_change_meta(each, _all_pages_are_indexes) for each in (path, other)]
    assert _join_flat(tmp_path, paths, [*values, *range(500)]) == {}


@pytest.mark.usefixtures("_small_pages")
def test_a_dictionary_where_data_should_begin_is_not_moved_as_data(tmp_path: Path) -> None:
    def hide(meta: thrift.Struct) -> None:
        meta[parquet_files.DATA_PAGE] = meta.pop(parquet_files.DICTIONARY_PAGE)
        meta.pop(joined.ENCODING_STATS)
        meta[2] = (thrift.LIST, (thrift.I32, [0, 3]))

    values = [n % 10 for n in range(300)]
    paths = [_change_meta(_flat(tmp_path, f"{n}.parquet", values), hide) for n in range(2)]
    assert _join_flat(tmp_path, paths, [*values, *values]) == {}


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("dictionary", [True, False])
def test_values_beyond_those_of_the_footer_do_not_shift_rows(tmp_path: Path, dictionary: bool) -> None:
    """A reader of the first file sees its first 200 rows only."""
    values = [n % 10 for n in range(300)]
    paths = [_flat(tmp_path, f"{n}.parquet", values, use_dictionary=dictionary) for n in range(2)]

    def fewer(footer: thrift.Struct) -> None:
        (group,) = footer[parquet_files.ROW_GROUPS][1][1]
        group[3] = footer[3] = (thrift.I64, 200)
        group[1][1][1][0][parquet_files.META][1][parquet_files.NUM_VALUES] = (thrift.I64, 200)

    parquet_files.change_footer(paths[0], fewer)
    assert _join_flat(tmp_path, [str(path) for path in paths], [*values[:200], *values]) == {}


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("dictionary", [True, False])
def test_pages_move_without_a_change_where_footers_are_right(tmp_path: Path, dictionary: bool) -> None:
    values = [n % 10 for n in range(300)]
    paths = [str(_flat(tmp_path, f"{n}.parquet", values, use_dictionary=dictionary)) for n in range(3)]
    assert _join_flat(tmp_path, paths, values * 3) == {0: True}
    out, (source, *_) = tmp_path / "out.parquet", (parquet_footer.read(joined.IO, path) for path in paths)
    start, length = source.groups[0].chunks[0].data_pages
    assert (tmp_path / "1.parquet").read_bytes()[start : start + length] in out.read_bytes()
    assert pq.read_metadata(out).num_row_groups == 1


@pytest.mark.usefixtures("_small_pages")
def test_damaged_indexes_are_an_error(tmp_path: Path) -> None:
    paths = [_flat(tmp_path, f"{n}.parquet", [(n + m) % 10 for m in range(300)]) for n in range(2)]
    chunk = parquet_footer.read(joined.IO, str(paths[1])).groups[0].chunks[0]
    data = bytearray(paths[1].read_bytes())
    data[chunk.start + chunk.length - 3] ^= 0x55
    paths[1].write_bytes(bytes(data))
    table = pa.table([pa.array([0] * 600, pa.int32())], schema=FLAT)
    with pytest.raises((OSError, ValueError), match=r"CRC|checksum|decompress"):
        joined.join_files(f"{tmp_path}/out.parquet", [str(path) for path in paths], table)


# Dictionaries that save nothing


def _text_file(folder: Path, name: str, values: list[str | None]) -> tuple[Path, pa.Table]:
    schema = pa.schema([_id(pa.string(), 1, "t")])
    table = pa.table([pa.array(values, pa.string())], schema=schema)
    return folder.joinpath(spliced.write(folder / name, table, bloom_filter_options=None)), table


def _dictionary_payload(path: Path) -> bytes:
    chunk = parquet_footer.read(joined.IO, str(path)).groups[0].chunks[0]
    data = path.read_bytes()
    head = page_headers.header(data, chunk.start)
    assert head.kind == page_headers.DICTIONARY
    return data[head.body : head.end]


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("gaps", [0, 7])
def test_a_dictionary_of_distinct_values_becomes_a_page_as_it_is(tmp_path: Path, gaps: int) -> None:
    values = [[None if gaps and not m % gaps else f"{n} {m}" for m in range(300)] for n in range(3)]
    files = [_text_file(tmp_path, f"{n}.parquet", each) for n, each in enumerate(values)]
    table = pa.concat_tables([table for _, table in files])
    assert joined.join_files(f"{tmp_path}/out.parquet", [str(path) for path, _ in files], table) == {0: False}
    joined.check(f"{tmp_path}/out.parquet", table)
    assert joined.rows_of(f"{tmp_path}/out.parquet").equals(table)
    assert all(_dictionary_payload(path) in (tmp_path / "out.parquet").read_bytes() for path, _ in files)
    column = pq.read_metadata(tmp_path / "out.parquet").row_group(0).column(0)
    assert (column.has_dictionary_page, column.encodings) == (False, ("PLAIN", "RLE"))


@pytest.mark.usefixtures("_small_pages")
def test_texts_of_which_some_are_equal_are_decoded(tmp_path: Path) -> None:
    files = [_text_file(tmp_path, f"{n}.parquet", [f"{n} {max(1, m)}" for m in range(300)]) for n in range(2)]
    table = pa.concat_tables([table for _, table in files])
    assert joined.join_files(f"{tmp_path}/out.parquet", [str(path) for path, _ in files], table) == {}


@pytest.mark.usefixtures("_small_pages")
def test_numbers_of_which_some_are_equal_become_pages(tmp_path: Path) -> None:
    values = [*range(250), *range(50)]
    paths = [_flat(tmp_path, f"{n}.parquet", [n * 1000 + each for each in values]) for n in range(2)]
    assert _join_flat(tmp_path, [str(path) for path in paths], [*values, *(1000 + each for each in values)]) == {
        0: False
    }


@pytest.mark.usefixtures("_small_pages")
def test_a_dictionary_with_fewer_bytes_than_values_is_not_moved(tmp_path: Path) -> None:
    paths = [_flat(tmp_path, f"{n}.parquet", list(range(300)), write_page_checksum=False) for n in range(2)]
    chunk = parquet_footer.read(joined.IO, str(paths[1])).groups[0].chunks[0]
    data = paths[1].read_bytes()
    raw, body = thrift.parse(data, chunk.start)
    raw[7][1][1] = (thrift.I32, 301)
    paths[1].write_bytes(data[: chunk.start] + thrift.compose(raw) + data[body:])
    table = pa.table([pa.array([*range(300), *range(300)], pa.int32())], schema=FLAT)
    assert joined.join_files(f"{tmp_path}/out.parquet", [str(path) for path in paths], table) == {}
