"""Row groups joined as bytes hold the rows of their sources, and all figures about them are true."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import join_sources, joined, parquet_files, spliced, tasks
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import page_headers, parquet_footer, thrift
from iceberg_compaction.formats.parquet.join import join_row_groups, ways

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@given(seed=st.integers(0, 2**32))
@examples(60)
def test_joined_row_groups_hold_all_rows_and_true_figures(tmp_path_factory: pytest.TempPathFactory, seed: int) -> None:
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("join")
    schema = join_sources.random_schema(chance)
    paths, table = join_sources.random_sources(chance, folder, schema)
    if not table.num_rows:
        return
    changes = {
        "data_page_version": chance.choice(("1.0", "2.0")),
        "max_rows_per_page": chance.choice((10, 200)),
        "compression": chance.choice(join_sources.CODECS),
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


FLAT = pa.schema([join_sources.column(pa.int32(), 1, "n", nullable=False)])


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
    schema = pa.schema([join_sources.column(pa.string(), 1, "t")])
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


@pytest.mark.usefixtures("_small_pages")
@pytest.mark.parametrize("repeats", [False, True], ids=["as it is", "in the order of rows"])
def test_a_dictionary_whose_compressed_bytes_end_early_is_not_moved(tmp_path: Path, repeats: bool) -> None:
    """A decompressor that gets fewer bytes than the header promises leaves the rest of its memory as it was."""
    values = [*range(290), *range(10)] if repeats else list(range(300))
    codec = {"compression": "lz4", "write_page_checksum": False}
    paths = [_flat(tmp_path, f"{n}.parquet", values, **codec) for n in range(2)]
    chunk = parquet_footer.read(joined.IO, str(paths[1])).groups[0].chunks[0]
    data = paths[1].read_bytes()
    for at in range(page_headers.header(data, chunk.start).body, chunk.data_pages[0]):
        paths[1].write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        try:
            pq.read_table(paths[1])
        except OSError as error:
            if "decompress to expected size" in str(error):
                break
    else:
        pytest.fail("no byte makes it shorter")
    table = pa.table([pa.array([*values, *values], pa.int32())], schema=FLAT)
    with pytest.raises(OSError, match="decompress to expected size"):  # the caller decodes, which names the file
        joined.join_files(f"{tmp_path}/out.parquet", [str(path) for path in paths], table)
