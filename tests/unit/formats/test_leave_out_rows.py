"""Row groups joined as bytes leave rows out where that is asked for: the others stay, and all figures are true of them
alone."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.factories import join_sources, joined, spliced, tasks
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import page_layout, parquet_footer
from iceberg_compaction.formats.parquet.join import join_row_groups, leave_out_rows, source_chunks, ways

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from numpy.typing import NDArray

    Masks = list[NDArray[np.bool_] | None]


def _group_rows(paths: Sequence[str]) -> list[int]:
    footers = [parquet_footer.read(joined.IO, path) for path in paths]
    return [group.rows for footer in footers for group in footer.groups if group.rows]


def _mask(chance: random.Random, rows: int) -> NDArray[np.bool_] | None:
    """Rows that are left out: none, one, some, a run of them, or all but one."""
    of_rows = np.zeros(rows, bool)
    share = chance.choice((None, 0.0, 0.02, 0.3, 1.0))
    if share is None:
        return None
    of_rows[np.random.default_rng(chance.randrange(2**32)).random(rows) < share] = True
    if chance.random() < 0.3:
        start = chance.randrange(rows)
        of_rows[start : start + rows // 2] = True
    of_rows[chance.randrange(rows)] = False
    return of_rows if of_rows.any() else None


def _kept(table: pa.Table, rows: list[int], masks: Masks) -> pa.Table:
    deleted = [np.zeros(count, bool) if mask is None else mask for count, mask in zip(rows, masks, strict=True)]
    return table.filter(pa.array(~np.concatenate(deleted)))


def _check_with_duckdb(path: str, kept: pa.Table) -> None:
    """It sees in the file what it sees in one that pyarrow has made of the same rows."""
    plain = f"{path}.plain"
    pq.write_table(kept, plain)
    with duckdb.connect() as connection:
        tables = [connection.read_parquet(each).to_arrow_table() for each in (path, plain)]
    assert tasks.comparable(tables[0].to_pylist()) == tasks.comparable(tables[1].to_pylist())


@given(seed=st.integers(0, 2**32))
@examples(80)
def test_rows_that_stay_are_all_and_figures_are_true_of_them(
    tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    chance, folder = random.Random(seed), tmp_path_factory.mktemp("leave")
    schema = join_sources.random_schema(chance)
    paths, table = join_sources.random_sources(chance, folder, schema)
    if not table.num_rows:
        return
    rows = _group_rows(paths)
    masks = [_mask(chance, count) for count in rows]
    kept, out = _kept(table, rows, masks), f"{folder}/out.parquet"
    changes = {
        "data_page_version": chance.choice(("1.0", "2.0")),
        "max_rows_per_page": chance.choice((10, 200)),
        "compression": chance.choice(join_sources.CODECS),
        "write_page_index": chance.random() < 0.9,
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ways, "_LEAST_PAGE", 0)
        patch.setattr(ways, "_MOST_OF_CHUNK", chance.choice((0.0, 2.0)))
        patch.setattr(ways, "_BYTES_PER_VALUE", 0.0)
        patch.setattr(join_row_groups, "_USEFUL", chance.choice((0.0, 0.5)))
        patch.setattr(join_row_groups, "_DISTINCT", chance.choice((0.0, 0.85)))
        patch.setattr(leave_out_rows, "_AT_ONCE", chance.choice((100, 3000, 2**23)))
        joined.join_files(out, paths, kept, iter(masks), **changes)
    joined.check(out, kept)
    assert tasks.comparable(joined.rows_of(out).to_pylist()) == tasks.comparable(kept.to_pylist())
    _check_with_duckdb(out, kept)


# Each way of a column

SOME = [n % 7 == 3 for n in range(300)]
COLUMNS: dict[str, tuple[pa.DataType, Any]] = {
    "int": (pa.int32(), lambda n: n),
    "long": (pa.int64(), lambda n: -n << 40),
    "date": (pa.date32(), lambda n: n),
    "time": (pa.time64("us"), lambda n: n),
    "timestamp": (pa.timestamp("us", tz="UTC"), lambda n: n),
    "boolean": (pa.bool_(), lambda n: n % 3 == 0),
    "string": (pa.string(), lambda n: f"text {n}"),
    "binary": (pa.binary(), lambda n: b"\xff%d" % n),
    "fixed": (pa.binary(5), lambda n: n.to_bytes(5, "big")),
    "uuid": (pa.binary(16), lambda n: n.to_bytes(16, "little")),
}


def _files(
    folder: Path, kind: pa.DataType, values: list[list[Any]], *, nullable: bool = True, **options: Any
) -> tuple[list[str], pa.Table]:
    schema = pa.schema([spliced.with_id("c", kind, 1, nullable=nullable)])
    tables = [pa.table([pa.array(each, kind)], schema=schema) for each in values]
    options = {"bloom_filter_options": None, **options}
    paths = [spliced.write(folder / f"{number}.parquet", each, **options) for number, each in enumerate(tables)]
    return paths, pa.concat_tables(tables)


@pytest.fixture
def _small_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ways, "_LEAST_PAGE", 0)
    monkeypatch.setattr(ways, "_MOST_OF_CHUNK", 2.0)


@pytest.mark.usefixtures("_small_is_enough")
@pytest.mark.parametrize("dictionary", [True, False], ids=["indexes", "plain"])
@pytest.mark.parametrize("gaps", [0, 5], ids=["required", "nulls"])
@pytest.mark.parametrize("name", COLUMNS)
def test_columns_of_each_type_have_bounds_and_nulls_of_the_rows_that_stay(
    tmp_path: Path, name: str, gaps: int, dictionary: bool
) -> None:
    kind, make = COLUMNS[name]
    values = [[None if gaps and n % gaps == 0 else make(n % 100 + 5 * file) for n in range(300)] for file in range(3)]
    paths, table = _files(tmp_path, kind, values, nullable=bool(gaps), use_dictionary=dictionary, max_rows_per_page=50)
    masks: Masks = [np.array(SOME), None, np.array(SOME[1:] + SOME[:1])]
    kept, out = _kept(table, [300] * 3, masks), f"{tmp_path}/out.parquet"
    assert joined.join_files(out, paths, kept, iter(masks)) == {0: False}
    joined.check(out, kept)
    assert joined.rows_of(out).equals(kept)
    statistics = pq.read_metadata(out).row_group(0).column(0).statistics
    assert statistics.null_count == kept["c"].null_count
    assert statistics.has_min_max
    chunk = parquet_footer.read(joined.IO, out).groups[0].chunks[0]
    assert {4, 6} <= chunk.raw.keys(), "both page indexes"
    _check_with_duckdb(out, kept)


@pytest.mark.usefixtures("_small_is_enough")
@pytest.mark.parametrize("dictionary", [True, False])
def test_a_column_of_which_no_value_stays_is_all_null(tmp_path: Path, dictionary: bool) -> None:
    values = [[n if n < 10 else None for n in range(300)] for _ in range(2)]
    paths, table = _files(tmp_path, pa.int64(), values, use_dictionary=dictionary)
    masks: Masks = [np.arange(300) < 10] * 2
    kept, out = _kept(table, [300] * 2, masks), f"{tmp_path}/out.parquet"
    assert joined.join_files(out, paths, kept, iter(masks)) == {0: False}
    joined.check(out, kept)
    statistics = pq.read_metadata(out).row_group(0).column(0).statistics
    assert (statistics.null_count, statistics.has_min_max) == (580, False)


@pytest.mark.usefixtures("_small_is_enough")
@pytest.mark.parametrize("dictionary", [True, False])
def test_bounds_of_rows_that_were_left_out_do_not_stay(tmp_path: Path, dictionary: bool) -> None:
    values = [[n % 100 for n in range(300)] for _ in range(2)]
    paths, table = _files(tmp_path, pa.int64(), values, nullable=False, use_dictionary=dictionary)
    masks: Masks = [np.isin(np.arange(300) % 100, (0, 99))] * 2
    kept, out = _kept(table, [300] * 2, masks), f"{tmp_path}/out.parquet"
    assert joined.join_files(out, paths, kept, iter(masks)) == {0: False}
    found = pq.read_metadata(out).row_group(0).column(0).statistics
    assert (found.min, found.max, found.null_count) == (1, 98, 0)


@pytest.mark.usefixtures("_small_is_enough")
def test_pages_of_row_groups_that_lose_nothing_stay_as_they_are(tmp_path: Path) -> None:
    values = [[f"{file} {n}" for n in range(300)] for file in range(3)]
    paths, table = _files(tmp_path, pa.string(), values, use_dictionary=False, compression="gzip")
    masks: Masks = [None, np.array(SOME), None]
    kept, out = _kept(table, [300] * 3, masks), tmp_path / "out.parquet"
    joined.join_files(str(out), paths, kept, iter(masks), compression="zstd")
    assert joined.rows_of(str(out)).equals(kept)
    for number, stays in enumerate((True, False, True)):
        chunk = parquet_footer.read(joined.IO, paths[number]).groups[0].chunks[0]
        start, length = chunk.data_pages
        with open(paths[number], "rb") as file:
            assert (file.read()[start : start + length] in out.read_bytes()) is stays


@pytest.mark.usefixtures("_small_is_enough")
@pytest.mark.parametrize("dictionary", [True, False])
def test_chunks_that_lack_statistics_make_the_column_be_decoded(tmp_path: Path, dictionary: bool) -> None:
    """Manifests cannot fill the gap: they speak of the deleted rows, too. And nothing would prove the nulls."""
    values = [[f"{file} {n % 10}" for n in range(300)] for file in range(2)]
    paths, table = _files(tmp_path, pa.string(), values, use_dictionary=dictionary, write_statistics=False)
    masks: Masks = [None, np.array(SOME)]
    kept = _kept(table, [300] * 2, masks)
    assert joined.join_files(f"{tmp_path}/out.parquet", paths, kept, iter(masks)) == {}


@pytest.mark.usefixtures("_small_is_enough")
@pytest.mark.parametrize("few", [True, False])
def test_texts_of_which_many_are_equal_are_not_written_many_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, few: bool
) -> None:
    monkeypatch.setattr(join_row_groups, "_USEFUL", 0.5)
    values = [[f"{file} {n // 3 * 2 if few else n}" for n in range(300)] for file in range(2)]
    paths, table = _files(tmp_path, pa.string(), values)
    monkeypatch.setattr(join_row_groups, "_USEFUL", 0.1)
    masks: Masks = [np.array(SOME)] * 2
    kept = _kept(table, [300] * 2, masks)
    assert joined.join_files(f"{tmp_path}/out.parquet", paths, kept, iter(masks)) == ({} if few else {0: False})


@pytest.mark.usefixtures("_small_is_enough")
def test_row_groups_without_deletes_beside_others_may_have_dictionaries_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leave_out_rows, "_AT_ONCE", 1)  # each chunk is decoded alone
    values = [[f"{file} {n}" for n in range(300)] for file in range(3)]
    paths, table = _files(tmp_path, pa.string(), values)
    masks: Masks = [None, np.array(SOME), None]
    kept, out = _kept(table, [300] * 3, masks), f"{tmp_path}/out.parquet"
    assert joined.join_files(out, paths, kept, iter(masks)) == {0: False}
    joined.check(out, kept)
    assert joined.rows_of(out).equals(kept)


def _layout(physical: str, *annotation: Any, length: int = 0, repetitions: tuple[int, ...] = (1,)) -> Any:
    return page_layout.Layout(physical, length, annotation, repetitions)


INDEXES, PLAIN, DECODE = ways.JoinWay.INDEXES, ways.JoinWay.PLAIN, ways.JoinWay.DECODE


@pytest.mark.parametrize(
    ("layout", "indexes", "plain"),
    [
        (_layout("INT32"), INDEXES, PLAIN),
        (_layout("INT64", "DECIMAL", 18, 2), INDEXES, PLAIN),
        (_layout("BYTE_ARRAY", "STRING"), INDEXES, PLAIN),
        (_layout("FIXED_LEN_BYTE_ARRAY", "UUID", length=16), INDEXES, PLAIN),
        (_layout("FIXED_LEN_BYTE_ARRAY", "DECIMAL", 38, 2, length=16), INDEXES, DECODE),
        (_layout("BYTE_ARRAY", "STRING", repetitions=(1, 2, 1)), INDEXES, DECODE),
        (_layout("BYTE_ARRAY", "DECIMAL", 38, 2), DECODE, DECODE),
        (_layout("INT32", "INT", 32, False), DECODE, DECODE),
        (_layout("INT96"), DECODE, DECODE),
        (_layout("FLOAT"), DECODE, DECODE),
        (_layout("DOUBLE"), DECODE, DECODE),
        (_layout("FIXED_LEN_BYTE_ARRAY", "FLOAT16", length=2), DECODE, DECODE),
        (_layout("FIXED_LEN_BYTE_ARRAY", "INTERVAL", length=12), DECODE, DECODE),
    ],
)
def test_values_whose_order_or_nans_cannot_be_told_are_decoded(layout: Any, indexes: Any, plain: Any) -> None:
    assert ways.without_rows(ways.JoinWay.INDEXES, [], layout) is indexes
    assert ways.without_rows(ways.JoinWay.PAGES, [], layout) is plain
    assert ways.without_rows(ways.JoinWay.ENTRIES, [], layout) is plain
    assert ways.without_rows(ways.JoinWay.DECODE, [], layout) is DECODE


@pytest.mark.usefixtures("_small_is_enough")
def test_values_that_are_packed_are_not_made_plain(tmp_path: Path) -> None:
    options = {"use_dictionary": False, "column_encoding": {"c": "DELTA_BINARY_PACKED"}}
    paths, table = _files(tmp_path, pa.int64(), [list(range(300))] * 2, **options)
    masks: Masks = [np.array(SOME)] * 2
    kept = _kept(table, [300] * 2, masks)
    assert joined.join_files(f"{tmp_path}/out.parquet", paths, kept, iter(masks)) == {}


def test_nulls_of_deleted_rows_are_those_of_flat_columns() -> None:
    stored, kept = pa.chunked_array([[1, None], [None, 4]]), pa.array([True, False, True, False])
    assert source_chunks.deleted_nulls(stored, kept, _layout("INT64")) == 1
    assert source_chunks.deleted_nulls(stored, None, _layout("INT64")) == 0
    assert source_chunks.deleted_nulls(stored, kept, _layout("INT64", repetitions=(1, 1))) == 0
