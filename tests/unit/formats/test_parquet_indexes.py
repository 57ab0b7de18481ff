"""Page indexes and Bloom filters are carried over if they are right, and left out if they are not."""

from __future__ import annotations

import datetime
import itertools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files, spliced
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import column_index, offset_index, page_indexes, parquet_footer, thrift
from iceberg_compaction.formats.parquet.page_layout import Layout

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER = Layout("INT64", 0, (), (1,))
TEXT = Layout("BYTE_ARRAY", 0, ("STRING",), (1,))
FIXED = Layout("FIXED_LEN_BYTE_ARRAY", 3, (), (1,))
_FILES = itertools.count()


def _offsets(pages: list[tuple[int, int, int]], **more: Any) -> bytes:
    listed = [{1: (thrift.I64, at), 2: (thrift.I32, size), 3: (thrift.I64, row)} for at, size, row in pages]
    extra = {int(number.removeprefix("field_")): value for number, value in more.items()}
    return thrift.compose({1: (thrift.LIST, (thrift.STRUCT, listed)), **extra})


def _move(data: bytes, shift: int, chunk: tuple[int, int], rows: int) -> tuple[int, bytes] | None:
    (moved,) = offset_index.move([offset_index.OffsetIndex(data, chunk, rows)], [shift])
    return moved


_PAGES = st.lists(st.tuples(st.integers(1, 2**31 - 1), st.integers(1, 2**33)), min_size=1)


@examples(200, deadline=datetime.timedelta(seconds=10))
@given(_PAGES, st.integers(4, 2**40), st.integers(-(2**39), 2**40), st.booleans())
def test_pages_move(made: list[tuple[int, int]], start: int, shift: int, sized: bool) -> None:
    shift = max(shift, 4 - start)
    pages, at, row = [], start, 0
    for size, count in made:
        pages.append((at, size, row))
        at, row = at + size, row + count
    more = {"field_2": (thrift.LIST, (thrift.I64, list(range(len(pages)))))} if sized else {}
    wanted = (len(pages), _offsets([(at + shift, size, row) for at, size, row in pages], **more))
    data, span = _offsets(pages, **more), (start, at - start)
    assert _move(data, shift, span, row) == wanted
    # The same pages would not be those of any other chunk, nor of one with fewer rows.
    assert _move(data, shift, (start, at - start - 1), row) is None
    assert _move(data, shift, (start, at - start + 1), row) is None
    assert _move(data, shift, (start + 1, at - start - 1), row) is None
    assert _move(data, shift, (start - 1, at - start + 1), row) is None
    assert _move(data, shift, span, pages[-1][2]) is None
    # Many indexes at once are moved as each alone, and those that are cut off do not matter to others.
    some = [data, data[:-1], data, b"", data[: len(data) // 2], data + b"\0", data]
    indexes = [offset_index.OffsetIndex(each, span, row) for each in some]
    other = (len(pages), data)
    assert offset_index.move(indexes, [shift, shift, 0, 0, 0, 0, shift]) == [
        wanted,
        None,
        other,
        None,
        None,
        None,
        wanted,
    ]


@pytest.mark.parametrize("at_once", [1, 25, 60])
def test_large_indexes_are_moved_some_at_a_time(at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offset_index, "_AT_ONCE", at_once)
    some = [[(10 * page, 10, page) for page in range(count)] for count in (1, 3, 2, 9, 1)]
    stored = [offset_index.OffsetIndex(_offsets(pages), (0, 10 * len(pages)), 10) for pages in some]
    shifts = [5, 600, 70_000, 0, 8]
    assert offset_index.move(stored, shifts) == [
        (len(pages), _offsets([(at + shift, size, row) for at, size, row in pages]))
        for pages, shift in zip(some, shifts, strict=True)
    ]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x00",
        b"\x19",
        b"\x19\x0c\x00",  # no pages
        b"\x19\xfc",
        b"\x19\xfc\xff\xff\xff\xff\x0f",
        b"\x19\x1c\x16\x08\x15\x14\x16\x00\x00",  # the end is missing
        b"\x19\x1c\x16\x08\x15\x14\x16\x00\x00\x00\x00",  # something behind the end
        b"\x19\x1c\x16\x08\x15\x14\x16\x00\x00\x1b",
        b"\x19\x2c\x16\x08\x15\x14\x16\x00\x00\x00",  # fewer pages than said
        b"\x19\x1c\x16\x08\x15\x14\x15\x00\x00\x00",  # a field of another type
        b"\x19\x1c\x16\x08\x15\x14\x16\x00\x15\x00\x00",  # a field too many
        b"\x19\x1c\x16\x07\x15\x14\x16\x00\x00\x00",  # negative
        b"\x19\x1c\x16" + b"\xff" * 9 + b"\x01\x15\x14\x16\x00\x00\x00",
        b"\x29\x1c\x16\x08\x15\x14\x16\x00\x00\x00",
        b"\x19\x15\x08\x00",
        _offsets([(4, 10, 1)]),  # rows before the first page
        _offsets([(4, 10, 0), (14, 10, 0)]),  # no rows in a page
        _offsets([(4, 6, 0), (9, 5, 5)]),  # one page in another
        _offsets([(4, 4, 0), (9, 5, 5)]),  # a gap between pages
        _offsets([(4, 9, 0)]),  # a gap behind the last page
        _offsets([(5, 9, 0)]),  # a gap before the first page
        _offsets([(4, 11, 0)]),
        _offsets([(9, 5, 0), (4, 5, 5)]),
        _offsets([(4, 10, 0), (14, 0, 5)]),
        _offsets([(4, 5, 0), (9, 5, 5)], field_2=(thrift.LIST, (thrift.I64, [7]))),  # a size for one of two pages
    ],
)
def test_offset_indexes_that_make_no_sense(data: bytes) -> None:
    right, moved = b"\x19\x1c\x16\x08\x15\x14\x16\x00\x00\x00", (1, _offsets([(104, 10, 0)]))
    indexes = [offset_index.OffsetIndex(each, (4, 10), 10) for each in (right, data, right)]
    assert offset_index.move(indexes, [100] * 3) == [moved, None, moved]
    assert _move(data, 100, (4, 10), 10) is None


def test_no_wrong_byte_of_an_offset_index_moves_a_page() -> None:
    pages = [(4000, 300, 0), (4300, 70_000, 200), (74_300, 164, 250)]
    right = _offsets(pages, field_2=(thrift.LIST, (thrift.I64, [5000, 6000, 7])))
    damaged = [right[:at] + bytes([byte]) + right[at + 1 :] for at in range(len(right)) for byte in range(256)]
    indexes = [offset_index.OffsetIndex(data, (4000, 70_464), 300) for data in damaged]
    for moved in offset_index.move(indexes, [10] * len(indexes)):
        if moved is not None:
            locations = thrift.parse(moved.data)[0][1][1][1]
            assert [(each[1][1], each[2][1]) for each in locations] == [(at + 10, size) for at, size, _ in pages]


@examples(200, deadline=datetime.timedelta(seconds=10))
@given(st.lists(st.binary(max_size=60), max_size=5), st.integers(-(2**40), 2**40))
def test_bytes_of_any_kind_are_no_offset_index(some: list[bytes], shift: int) -> None:
    """Or they happen to be one, and then the same comes out as by taking them apart."""
    some += [b"\x19\x2c\x16" + each for each in some]
    indexes = [offset_index.OffsetIndex(each, (0, 2**50), 2**50) for each in some]
    for data, moved in zip(some, offset_index.move(indexes, [shift] * len(some)), strict=True):
        if moved is not None:
            struct, end = thrift.parse(data)
            assert end == len(data)
            pages = struct[1][1][1]
            for page in pages:
                page[1] = (thrift.I64, page[1][1] + shift)
            assert moved == (len(pages), thrift.compose(struct))


def _bounds(nulls: list[bool], low: list[bytes], high: list[bytes], null_counts: list[int] | None = None) -> bytes:
    counts = {} if null_counts is None else {5: (thrift.LIST, (thrift.I64, null_counts))}
    return thrift.compose(
        {
            1: (thrift.LIST, (thrift.TRUE, nulls)),
            2: (thrift.LIST, (thrift.BINARY, low)),
            3: (thrift.LIST, (thrift.BINARY, high)),
            4: (thrift.I32, 0),
            **counts,
        }
    )


def test_column_indexes_must_have_a_bound_for_every_page() -> None:
    eight, none = b"12345678", b""
    right = _bounds([False, True], [eight, none], [eight, none])
    assert column_index.fits(right, 2, NUMBER)
    assert not column_index.fits(right, 1, NUMBER)
    assert not column_index.fits(right, 3, NUMBER)
    assert not column_index.fits(right + b"\0", 2, NUMBER)
    assert not column_index.fits(right[:-1], 2, NUMBER)
    assert not column_index.fits(right, 2, FIXED)
    assert not column_index.fits(b"", 2, NUMBER)
    assert not column_index.fits(b"\0", 0, NUMBER)
    assert column_index.fits(_bounds([False] * 2, [eight] * 2, [eight] * 2, null_counts=[0, 1]), 2, NUMBER)
    assert not column_index.fits(_bounds([False] * 2, [eight] * 2, [eight] * 2, null_counts=[0]), 2, NUMBER)
    empty = _bounds([False, True], [none, none], [none, none])
    assert not column_index.fits(empty, 2, NUMBER)
    assert column_index.fits(empty, 2, TEXT)  # of texts without a letter
    assert not column_index.fits(_bounds([False], [eight], [b"1234"]), 1, NUMBER)
    assert not column_index.fits(_bounds([False, False], [eight], [eight, eight]), 2, NUMBER)
    assert column_index.fits(_bounds([False], [b"123"], [b"456"]), 1, FIXED)


# Files whose indexes are damaged


def _spliced(source: Path) -> tuple[str, spliced.Seen]:
    path = spliced.Making(f"{source.parent}/out{next(_FILES)}.parquet").copy(str(source)).finish()
    assert pq.read_table(path).to_pylist() == pq.read_table(source).to_pylist()
    return path, spliced.check(path)


def _first(change: Callable[[thrift.Struct], Any]) -> Callable[[thrift.Struct], None]:
    return lambda found: change(parquet_files.chunks(found)[0][0])


def _meta(change: Callable[[thrift.Struct], Any]) -> Callable[[thrift.Struct], None]:
    return _first(lambda chunk: change(chunk[parquet_files.META][1]))


@pytest.mark.parametrize(
    ("change", "lost"),
    [
        (_first(lambda chunk: chunk.pop(5)), (1, 1, 0)),
        (_first(lambda chunk: chunk.pop(4)), (1, 1, 0)),
        (_first(lambda chunk: chunk.update({5: (thrift.I32, chunk[5][1] - 1)})), (1, 1, 0)),
        (_first(lambda chunk: chunk.update({5: (thrift.I32, 2**31 - 1)})), (1, 1, 0)),
        (_first(lambda chunk: chunk.update({4: (thrift.I64, 3)})), (1, 1, 0)),
        (_first(lambda chunk: chunk.update({4: (thrift.I64, -5)})), (1, 1, 0)),
        (_first(lambda chunk: chunk.update({4: (thrift.I64, chunk[4][1] + 1)})), (1, 1, 0)),
        (_first(lambda chunk: chunk.pop(6)), (0, 1, 0)),
        (_first(lambda chunk: chunk.update({7: (thrift.I32, chunk[7][1] - 2)})), (0, 1, 0)),
        (_first(lambda chunk: chunk.update({6: (thrift.I64, chunk[6][1] - 1)})), (0, 1, 0)),
        (_meta(lambda meta: meta.pop(spliced.BLOOM)), (0, 0, 1)),
        (_meta(lambda meta: meta.pop(spliced.BLOOM_LENGTH)), (0, 0, 1)),
        (_meta(lambda meta: meta.update({14: (thrift.I64, meta[14][1] + 1)})), (0, 0, 1)),
        (_meta(lambda meta: meta.update({15: (thrift.I32, meta[15][1] + 1)})), (0, 0, 1)),
        (_meta(lambda meta: meta.update({14: (thrift.I64, 2**50)})), (0, 0, 1)),
    ],
)
def test_what_is_not_right_is_left_out(
    tmp_path: Path, change: Callable[[thrift.Struct], None], lost: tuple[int, int, int]
) -> None:
    source = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 900)))
    parquet_files.change_footer(source, change)
    _, seen = _spliced(source)
    found = (spliced.LEAVES - seen.offset_indexes, spliced.LEAVES - seen.column_indexes, 2 - seen.blooms)
    assert found == lost


def test_indexes_of_another_column_are_left_out(tmp_path: Path) -> None:
    source = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 900)))

    def change(found: thrift.Struct) -> None:
        first, second, *_ = parquet_files.chunks(found)[0]
        for number in (4, 5):
            first[number], second[number] = second[number], first[number]

    parquet_files.change_footer(source, change)
    assert _spliced(source)[1].offset_indexes == spliced.LEAVES - 2


_DAMAGE = st.lists(st.tuples(st.integers(0, 2**14), st.integers(0, 255)), min_size=1, max_size=30)


@examples(60)
@given(damage=_DAMAGE)
@example(damage=[(2082, 0)])  # the size of a last page
@example(damage=[(2451, 128)])  # the offset of a first page
def test_whatever_happens_to_indexes_none_leads_astray(whole: Path, damage: list[tuple[int, int]]) -> None:
    damaged = bytearray(whole.read_bytes())
    found = parquet_footer.read(PyArrowFileIO(), str(whole))
    end = max(chunk.start + chunk.length for group in found.groups for chunk in group.chunks)
    first = min(chunk.raw[6][1] for group in found.groups for chunk in group.chunks)
    assert end < first
    for place, byte in damage:
        damaged[first + place % (found.body - first)] = byte
    source = whole.with_name(f"damaged{next(_FILES)}.parquet")
    source.write_bytes(damaged)
    _, seen = _spliced(source)
    assert 0 < seen.offset_indexes <= 3 * spliced.LEAVES


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    return Path(spliced.write(folder / "in.parquet", spliced.rows(1, 900), group=300))


# Reading


def _reads_of_finish(folder: Path, io: spliced.CountingIO) -> list[tuple[str, int, int]]:
    sources = [spliced.write(folder / f"{seed}.parquet", spliced.rows(seed, 900), group=300) for seed in range(3)]
    making = spliced.Making(f"{folder}/out.parquet", io=io)
    for source in sources:
        making.copy(source)
    making.encode(spliced.rows(9, 100))
    io.reads.clear()
    path = making.finish()
    seen = spliced.check(path)
    assert (seen.groups, seen.offset_indexes, seen.blooms) == (10, 10 * spliced.LEAVES, 20)
    return io.reads


def test_indexes_are_read_with_one_read_of_each_file(tmp_path: Path) -> None:
    reads = _reads_of_finish(tmp_path, spliced.CountingIO())
    assert len(reads) == 2 * 3  # Bloom filters, page indexes
    for seed in range(3):
        assert sum(path.endswith(f"/{seed}.parquet") for path, _, _ in reads) == 2


def test_reads_of_indexes_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_indexes, "_AT_ONCE", 2000)
    reads = _reads_of_finish(tmp_path, spliced.CountingIO())
    assert len(reads) > 2 * 3
    assert max(size for _, _, size in reads) <= 2000


def test_indexes_that_are_too_large_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 900)))
    monkeypatch.setattr(page_indexes, "_MOST", 200)
    seen = _spliced(source)[1]
    assert (seen.offset_indexes, seen.column_indexes, seen.blooms) == (0, 0, 0)


def test_spans_that_lie_apart_are_read_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    class File:
        reads: list[tuple[int, int]] = []

        def read(self, start: int, length: int) -> bytes:
            self.reads.append((start, length))
            return bytes(at % 251 for at in range(start, start + length))

    monkeypatch.setattr(page_indexes, "_GAP", 10)
    monkeypatch.setattr(page_indexes, "_AT_ONCE", 100)
    spans = [(500, 20), (0, 5), (5, 5), (20, 5), (36, 4), (5, 2), (600, 300), (10, 60), (510, 95)]
    found = dict(page_indexes._read(File(), spans))
    assert found == {at: bytes(place % 251 for place in range(a, a + n)) for at, (a, n) in enumerate(spans)}
    assert File.reads == [(0, 70), (500, 20), (510, 95), (600, 300)]
