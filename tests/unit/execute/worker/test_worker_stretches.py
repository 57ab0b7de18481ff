"""Tiny files of one form are decoded as a single file: the rows are those of each file by itself, whatever their types,
nulls, dictionaries, codecs and row groups; files that differ are decoded one by one, and so are those that turn out to
be damaged."""

from __future__ import annotations

import datetime
import decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import budgets
from iceberg_compaction.execute.worker.input import read_files, stored_columns, stretches
from iceberg_compaction.formats.parquet import merged_file, thrift

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

KINDS: dict[str, tuple[pa.DataType, Any]] = {
    "bool": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [1, -5, 2**31 - 1]),
    "long": (pa.int64(), list(range(40))),
    "double": (pa.float64(), [0.5, -0.0, float("inf")]),
    "day": (pa.date32(), [datetime.date(2020, 1, day) for day in range(1, 9)]),
    "moment": (pa.timestamp("us", tz="UTC"), [datetime.datetime(2020, 1, 1, 3, tzinfo=datetime.timezone.utc)]),
    "amount": (pa.decimal128(12, 2), [decimal.Decimal("1.25"), decimal.Decimal("-7.00")]),
    "text": (pa.string(), ["", "a", "zebra", "ü" * 9]),
    "bytes": (pa.binary(), [b"", b"\x00\xff"]),
    "fixed": (pa.binary(4), [b"abcd", b"\x00\x01\x02\x03"]),
    "list": (pa.list_(pa.field("element", pa.int64())), [[], [1], [2, None, 3]]),
    "struct": (pa.struct([pa.field("a", pa.int32()), pa.field("b", pa.int64())]), [{"a": 1, "b": None}]),
}


def with_ids(kind: pa.DataType, counter: list[int]) -> pa.DataType:
    if pa.types.is_list(kind):
        return pa.list_(identified(kind.value_field, counter))
    if pa.types.is_struct(kind):
        return pa.struct([identified(kind.field(at), counter) for at in range(kind.num_fields)])
    return kind


def identified(field: pa.Field, counter: list[int]) -> pa.Field:
    counter[0] += 1
    number = str(counter[0])
    return pa.field(field.name, with_ids(field.type, counter), field.nullable, {"PARQUET:field_id": number})


def schema_of(kinds: Sequence[str]) -> pa.Schema:
    counter = [0]
    return pa.schema([identified(pa.field(f"c_{kind}", KINDS[kind][0]), counter) for kind in kinds])


def read(paths: Sequence[Path], dictionaries: frozenset[int] = frozenset()) -> tuple[pa.Table, list[stretches.Stretch]]:
    opened = read_files.DataFileReader(io=PyArrowFileIO(), budgets=budgets.Budgets(files_ahead=1))
    inputs = [
        read_files.InputFacts(path=str(path), rows=pq.read_metadata(path).num_rows, size=path.stat().st_size)
        for path in paths
    ]
    footers = opened.footers(inputs)
    seen = list(opened.rows_of([read_files.FilePart(footer) for footer in footers], dictionaries))
    schema = None if seen else pq.read_schema(paths[0])
    return pa.Table.from_batches([stretch.batch for stretch in seen], schema), seen


@st.composite
def tables(draw: st.DrawFn) -> tuple[list[pa.Table], dict[str, Any]]:
    kinds = draw(st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=5, unique=True))
    schema = schema_of(kinds)
    made = []
    for rows in draw(st.lists(st.integers(0, 60), min_size=2, max_size=6)):
        columns = [
            pa.array(draw(st.lists(st.sampled_from([None, *KINDS[kind][1]]), min_size=rows, max_size=rows)), field.type)
            for kind, field in zip(kinds, schema, strict=True)
        ]
        made.append(pa.Table.from_arrays(columns, schema=schema))
    options = {
        "compression": draw(st.sampled_from(["none", "snappy", "gzip", "zstd", "brotli"])),
        "use_dictionary": draw(st.booleans()),
        "data_page_version": draw(st.sampled_from(["1.0", "2.0"])),
        "row_group_size": draw(st.sampled_from([7, 1000])),
        "dictionary_pagesize_limit": draw(st.sampled_from([8, 2**20])),  # given up half-way, or not
        "write_page_checksum": draw(st.booleans()),
        "write_page_index": draw(st.booleans()),
        "store_decimal_as_integer": draw(st.booleans()),
    }
    return made, options


@given(tables())
@examples(120)
def test_rows_are_those_of_each_file(tmp_path_factory: pytest.TempPathFactory, made: Any) -> None:
    parts, options = made
    folder = tmp_path_factory.mktemp("rows_of")
    paths = [folder / f"{number}.parquet" for number in range(len(parts))]
    for path, table in zip(paths, parts, strict=True):
        pq.write_table(table, path, **options)
    rows, seen = read(paths)
    expected = pa.concat_tables(parts)
    assert rows.num_rows == expected.num_rows
    for at, name in enumerate(expected.column_names):
        assert rows.column(at).to_pylist() == expected.column(name).to_pylist(), name
    filled = [(str(path), table.num_rows) for path, table in zip(paths, parts, strict=True) if table.num_rows]
    spans = [span for stretch in seen for span in stretch.spans]
    assert [(span.footer.path, span.rows) for span in spans if span.rows] == filled
    assert {span.first for span in spans} <= {0}
    if len(filled) > 1:
        assert len(seen) == 1, "files of one form were decoded one by one"


def write(path: Path, texts: Sequence[str | None], **options: Any) -> Path:
    pq.write_table(pa.table({"c_text": pa.array(texts, pa.string())}, schema=schema_of(["text"])), path, **options)
    return path


def test_dictionaries_of_many_files_become_one(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", ["same", f"own {n}", None] * 9) for n in range(30)]
    rows, seen = read(paths, frozenset({1}))
    assert len(seen) == 1
    assert pa.types.is_dictionary(seen[0].batch.column(0).type)
    assert rows.column(0).to_pylist() == [text for n in range(30) for text in ["same", f"own {n}", None] * 9]


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (lambda footer: footer.update({1: (thrift.I32, 77)}), {}),
        (lambda footer: footer.update({6: (thrift.BINARY, b"someone else")}), {}),
        (None, {"compression": "lz4"}),  # footers have two names for it
    ],
    ids=["another head", "another writer", "another codec"],
)
def test_files_of_different_forms_are_read_one_by_one(tmp_path: Path, change: Any, options: dict[str, Any]) -> None:
    paths = [write(tmp_path / f"{n}.parquet", [f"{n}"] * 5) for n in range(5)]
    write(paths[2], ["2"] * 5, **options)
    if change:
        parquet_files.change_footer(paths[2], change)
    rows, seen = read(paths)
    assert [[span.footer.path for span in stretch.spans] for stretch in seen] == [[str(path)] for path in paths]
    assert rows.column(0).to_pylist() == [str(n) for n in range(5) for _ in range(5)]


def take(opened: read_files.DataFileReader, footers: Sequence[read_files.Footer], rows: list[str]) -> None:
    for _, _, batch in opened.batches([read_files.FilePart(footer) for footer in footers], frozenset()):
        rows += batch.column(0).to_pylist()


def test_a_damaged_file_is_named_and_the_rows_before_it_come(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", [f"{n}"] * 50, compression="none") for n in range(9)]
    data = bytearray(paths[5].read_bytes())
    data[6:40] = bytes(34)
    opened = read_files.DataFileReader(io=PyArrowFileIO(), budgets=budgets.Budgets(files_ahead=1))
    footers = opened.footers(
        [read_files.InputFacts(path=str(path), rows=50, size=path.stat().st_size) for path in paths]
    )
    paths[5].write_bytes(data)
    rows: list[str] = []
    with pytest.raises(errors.DamagedFileError, match=r"5\.parquet"):
        take(opened, footers, rows)
    assert rows == [str(n) for n in range(5) for _ in range(50)][: len(rows)]


def test_rows_that_are_too_wide_are_refused_with_the_name_of_their_file(tmp_path: Path) -> None:
    paths = [write(tmp_path / f"{n}.parquet", ["x" * (40_000 if n == 3 else 5)] * 200) for n in range(6)]
    limits = budgets.Budgets(files_ahead=1, batch_bytes=20_000, row_bytes=20_000)
    opened = read_files.DataFileReader(io=PyArrowFileIO(), budgets=limits)
    footers = opened.footers(
        [read_files.InputFacts(path=str(path), rows=200, size=path.stat().st_size) for path in paths]
    )
    rows: list[str] = []
    with pytest.raises(errors.UnsupportedError, match=r"3\.parquet"):
        take(opened, footers, rows)
    assert len(rows) == 600


def test_the_footer_says_where_pages_are_and_nothing_is_taken_from_outside(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", ["a", "b"])

    def outside(footer: thrift.Struct) -> None:
        meta = parquet_files.chunks(footer)[0][0][parquet_files.META][1]
        meta[7] = (thrift.I64, 10**6)

    forms = merged_file.FileForms()

    def stored(changed: Path) -> merged_file.StoredFile | None:
        data, metadata = changed.read_bytes(), pq.read_metadata(changed)
        groups = stored_columns.of_file(metadata)
        return forms.stored(data, len(data), metadata.created_by, groups, "schema")

    assert stored(path) is not None
    assert stored(parquet_files.change_footer(path, outside)) is None
