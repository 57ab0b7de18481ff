"""Footers as values: columns and how they are laid out, where their bytes are, and whom not to copy from."""

from __future__ import annotations

import contextlib
import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files, spliced
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import parquet_footer, splice, thrift
from iceberg_compaction.formats.parquet.page_layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

IO = PyArrowFileIO()
REQUIRED, OPTIONAL, REPEATED = 0, 1, 2


def test_columns_with_their_ids_and_layouts(tmp_path: Path) -> None:
    found = parquet_footer.read(IO, spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10)))
    assert found.leaves == splice.template(spliced.SCHEMA, spliced.ARGUMENTS).leaves
    leaves = {".".join(leaf.path): leaf for leaf in found.leaves}
    assert {name: leaf.ids for name, leaf in leaves.items() if len(leaf.ids) > 1} == {
        "place.x": (8, 9),
        "place.names.list.element": (8, 10, None, 11),
        "counts.key_value.key": (12, None, 13),
        "counts.key_value.value": (12, None, 14),
    }
    assert [leaf.field_id for leaf in found.leaves] == [1, 2, 3, 4, 5, 6, 7, 9, 11, 13, 14]
    assert leaves["id"].layout == Layout("INT64", 0, (), (REQUIRED,))
    assert leaves["word"].layout == Layout("BYTE_ARRAY", 0, ("STRING",), (OPTIONAL,))
    assert leaves["raw"].layout == Layout("BYTE_ARRAY", 0, (), (OPTIONAL,))
    assert leaves["amount"].layout == Layout("INT64", 0, ("DECIMAL", 12, 2), (OPTIONAL,))
    assert leaves["at"].layout == Layout("INT64", 0, ("TIMESTAMP", True, "MICROS"), (OPTIONAL,))
    names = (OPTIONAL, OPTIONAL, REPEATED, OPTIONAL)
    assert leaves["place.names.list.element"].layout == Layout("BYTE_ARRAY", 0, ("STRING",), names)
    keys = (OPTIONAL, REPEATED, REQUIRED)
    assert leaves["counts.key_value.key"].layout == Layout("BYTE_ARRAY", 0, ("STRING",), keys)


def test_chunks_are_as_pyarrow_sees_them(tmp_path: Path) -> None:
    path = spliced.write(tmp_path / "in.parquet", spliced.rows(1, 500), group=200, compression="gzip")
    found, known = parquet_footer.read(IO, path), pq.read_metadata(path)
    assert (found.size, found.created_by) == (Path(path).stat().st_size, known.created_by)
    assert found.has_column_orders
    assert found.trusted
    assert not found.encrypted
    assert [group.rows for group in found.groups] == [200, 200, 100]
    for number, group in enumerate(found.groups):
        for chunk in group.chunks:
            column = known.row_group(number).column(chunk.leaf)
            dictionary = column.dictionary_page_offset if column.has_dictionary_page else column.data_page_offset
            assert chunk.start == min(dictionary, column.data_page_offset)
            assert chunk.length == column.total_compressed_size
            assert chunk.uncompressed == column.total_uncompressed_size
            assert (chunk.codec, chunk.values) == (column.compression, column.num_values)
            assert chunk.statistics[3][1] == column.statistics.null_count


# The same layout in other words

_UTF8, _DECIMAL, _DATE, _TIME_MICROS, _MICROS, _MILLIS, _INT_8, _INT_32, _INT_64, _UINT_32 = (
    0,
    5,
    6,
    8,
    10,
    9,
    15,
    17,
    18,
    13,
)


def _element(kind: pa.DataType, change: Callable[[thrift.Struct], Any] | None, folder: Path) -> Layout:
    path = folder / "one.parquet"
    table = pa.table([pa.array([None], kind)], pa.schema([pa.field("x", kind)]))
    pq.write_table(table, path, store_decimal_as_integer=True)
    if change is not None:
        parquet_files.change_footer(path, lambda found: change(parquet_files.elements(found)[1]))
    (leaf,) = parquet_footer.read(IO, str(path)).leaves
    return leaf.layout


def _only_converted(number: int) -> Callable[[thrift.Struct], None]:
    def change(element: thrift.Struct) -> None:
        element.pop(parquet_files.LOGICAL)
        element[parquet_files.CONVERTED] = (thrift.I32, number)

    return change


def _integer(bits: int, signed: bool) -> Callable[[thrift.Struct], None]:
    body = {1: (thrift.BYTE, bits), 2: (thrift.TRUE if signed else thrift.FALSE, signed)}

    def change(element: thrift.Struct) -> None:
        element[parquet_files.LOGICAL] = (thrift.STRUCT, {10: (thrift.STRUCT, body)})

    return change


def _with_converted(number: int) -> Callable[[thrift.Struct], None]:
    return lambda element: element.update({parquet_files.CONVERTED: (thrift.I32, number)})


@pytest.mark.parametrize(
    ("kind", "change", "same"),
    [
        (pa.string(), _only_converted(_UTF8), True),
        (pa.date32(), _only_converted(_DATE), True),
        (pa.timestamp("us", tz="UTC"), _only_converted(_MICROS), True),
        (pa.timestamp("us", tz="UTC"), _only_converted(_MILLIS), False),
        (pa.timestamp("us"), _only_converted(_MICROS), False),
        (pa.decimal128(9, 3), _only_converted(_DECIMAL), True),
        (pa.decimal128(30, 3), _only_converted(_DECIMAL), True),
        (pa.int32(), _with_converted(_INT_32), True),
        (pa.int64(), _with_converted(_INT_64), True),
        (pa.int32(), _integer(32, True), True),
        (pa.int64(), _integer(64, True), True),
        (pa.int32(), _integer(32, False), False),
        (pa.int32(), _integer(8, True), False),
        (pa.int32(), _with_converted(_INT_8), False),
        (pa.int32(), _with_converted(_UINT_32), False),
        (pa.string(), lambda element: [element.pop(10), element.pop(6)], False),
        (pa.string(), _only_converted(99), False),
        (pa.binary(4), lambda element: element.update({parquet_files.TYPE_LENGTH: (thrift.I32, 5)}), False),
        (pa.int64(), lambda element: element.update({parquet_files.REPETITION: (thrift.I32, REQUIRED)}), False),
        (pa.int64(), lambda element: element.update({10: (thrift.STRUCT, {77: (thrift.STRUCT, {})})}), False),
    ],
)
def test_layouts_are_compared_by_meaning(
    tmp_path: Path, kind: pa.DataType, change: Callable[[thrift.Struct], Any], same: bool
) -> None:
    assert (_element(kind, None, tmp_path) == _element(kind, change, tmp_path)) is same


def test_different_types_have_different_layouts(tmp_path: Path) -> None:
    kinds = [pa.int32(), pa.int64(), pa.uint32(), pa.int8(), pa.float32(), pa.float64(), pa.bool_(), pa.string()]
    kinds += [pa.binary(), pa.binary(16), pa.uuid(), pa.date32(), pa.time32("ms"), pa.time64("us"), pa.time64("ns")]
    kinds += [pa.timestamp(unit, tz=zone) for unit in ("ms", "us", "ns") for zone in (None, "UTC")]
    kinds += [pa.decimal128(9, 2), pa.decimal128(9, 3), pa.decimal128(8, 2), pa.decimal128(18, 2), pa.decimal128(38, 2)]
    kinds += [pa.list_(pa.int32()), pa.list_(pa.list_(pa.int32())), pa.struct({"x": pa.int32()}), pa.float16()]
    found = [_element(kind, None, tmp_path) for kind in kinds]
    assert len(set(found)) == len(kinds)


# Whom not to copy from


def _created_by(text: str | None) -> Callable[[thrift.Struct], None]:
    def change(found: thrift.Struct) -> None:
        found.pop(6)
        if text is not None:
            found[6] = (thrift.BINARY, text.encode())

    return change


@pytest.mark.parametrize(
    ("text", "trusted"),
    [
        ("parquet-mr version 1.8.1 (build 4aba4dae7bb0d4edbcf7923ae1339f28fd3f7fcf)", False),
        ("parquet-mr version 1.9.0", False),
        ("parquet-mr version 1.10.0 (build 031a6654009e3b82020012a18434c582bd74c73a)", True),
        ("parquet-mr version 1.15.2 (build 859eac165f08f927fa14590c34bc5f476405fb68)", True),
        ("parquet-mr (build 1)", False),
        ("parquet-mr", False),
        ("parquet-cpp version 1.5.1-SNAPSHOT", False),
        ("parquet-cpp-arrow version 3.0.0", True),
        ("DuckDB", False),
        ("DuckDB version v0.10.2 (build 1601d94f94)", False),
        ("DuckDB version v1.2.0 (build 5f5512b827)", True),
        ("Polars", True),
        ("parquet-rs version 55.2.0", True),
        ("impala version 4.0.0-RELEASE (build 1)", True),
        ("", False),
        (None, False),
    ],
)
def test_writers_that_readers_know_by_name_are_not_trusted(tmp_path: Path, text: str | None, trusted: bool) -> None:
    path = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10)))
    found = parquet_footer.read(IO, str(parquet_files.change_footer(path, _created_by(text))))
    assert found.trusted is trusted
    if not trusted:
        expected = "its writer is unknown" if not text else f"it was written by {text.split(' (')[0]}"
        assert found.why_not == expected


def _first(change: Callable[[thrift.Struct], Any]) -> Callable[[thrift.Struct], None]:
    return lambda found: change(parquet_files.chunks(found)[0][0])


@pytest.mark.parametrize(
    ("change", "why_not"),
    [
        (lambda found: found.pop(7), "it does not say how its bounds are ordered"),
        (lambda found: found[7][1][1].pop(), "it does not say how its bounds are ordered"),
        (
            lambda found: found[7][1][1].__setitem__(0, {2: (thrift.STRUCT, {})}),
            "it does not say how its bounds are ordered",
        ),
        (lambda found: found.update({8: (thrift.STRUCT, {})}), "it is encrypted"),
        (_first(lambda chunk: chunk.update({8: (thrift.STRUCT, {})})), "it is encrypted"),
        (_first(lambda chunk: chunk.update({1: (thrift.BINARY, b"x.parquet")})), "its columns are in other files"),
    ],
)
def test_files_that_are_not_trusted(tmp_path: Path, change: Callable[[thrift.Struct], Any], why_not: str) -> None:
    path = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10)))
    assert parquet_footer.read(IO, str(parquet_files.change_footer(path, change))).why_not == why_not


# Reading


@pytest.mark.parametrize(("columns", "reads"), [(3, 1), (200, 1), (900, 2)])
def test_one_read_unless_the_footer_is_large(tmp_path: Path, columns: int, reads: int) -> None:
    table = pa.table({f"column with a long name {at:09}": [at] for at in range(columns)})
    path = spliced.write(tmp_path / "in.parquet", table, bloom_filter_options=None)
    for size in (None, Path(path).stat().st_size):
        io = spliced.CountingIO()
        assert len(parquet_footer.read(io, path, size).leaves) == columns
        assert len(io.reads) == reads


@pytest.mark.parametrize(
    ("data", "wrong"),
    [
        (b"", "does not end like"),
        (b"PAR1", "does not end like"),
        (b"PAR1PAR1", "does not end like"),
        (b"x" * 100, "does not end like"),
        (b"PAR1" + b"\xff\xff\xff\x7fPAR1", "does not end like"),
        (b"PAR1" + b"\x00\x00\x00\x00PAR1", "Thrift"),
        (b"PARE" + b"\x00\x00\x00\x00PARE", "encrypted"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, data: bytes, wrong: str) -> None:
    path = tmp_path / "in.parquet"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=wrong):
        parquet_footer.read(IO, str(path))


def test_a_file_that_is_shorter_than_expected(tmp_path: Path) -> None:
    path = spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10))
    with pytest.raises(ValueError, match="fewer than the expected"):
        parquet_footer.read(IO, path, Path(path).stat().st_size + 1)


@examples(200, deadline=datetime.timedelta(seconds=10))
@given(st.data())
def test_damaged_footers_are_read_or_refused(whole: bytes, data: st.DataObject) -> None:
    length = int.from_bytes(whole[-8:-4], "little")
    damaged = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(len(whole) - 8 - length, len(whole) - 1))
        damaged[place] = data.draw(st.integers(0, 255))
    with contextlib.suppress(ValueError):
        found = parquet_footer.parse("x", bytes(damaged), len(damaged))
        for chunk in (chunk for group in found.groups for chunk in group.chunks):
            assert 0 <= chunk.start <= chunk.start + chunk.length <= found.body or not chunk.length


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    return Path(spliced.write(tmp_path_factory.mktemp("f") / "x.parquet", spliced.rows(1, 100), group=50)).read_bytes()
