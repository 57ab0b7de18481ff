"""Files put together of row groups of other files: their values, their footers and every byte between."""

from __future__ import annotations

import gc
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.io.pyarrow import PyArrowFileIO
from tests.factories import parquet_files, spliced
from tests.factories.examples import examples

from iceberg_compaction.formats.parquet import parquet_footer, splice, thrift

IO = PyArrowFileIO()
PLACE, COUNTS = (7, 8), (9, 10)  # the leaves of the nested columns


def _read(path: str) -> pa.Table:
    return pq.read_table(path, page_checksum_verification=True, partitioning=None)


def _same(path: str, *wanted: pa.Table) -> None:
    expected = pa.concat_tables(wanted)
    assert _read(path).cast(expected.schema).to_pylist() == expected.to_pylist()


@pytest.mark.parametrize("io", [PyArrowFileIO(), spliced.StreamIO()], ids=["local", "streams"])
def test_copied_and_encoded_row_groups_in_any_order(tmp_path: Path, io: PyArrowFileIO) -> None:
    tables = [spliced.rows(seed, 1000 + seed) for seed in range(4)]
    paths = [spliced.write(tmp_path / f"{seed}.parquet", tables[seed], group=450) for seed in range(3)]
    making = spliced.Making(f"{tmp_path}/new/out.parquet", io=io)
    making.encode(tables[3]).copy(paths[0]).copy(paths[1], digest=True).encode(tables[3]).encode(tables[3])
    path = making.copy(paths[2]).finish()
    _same(path, tables[3], tables[0], tables[1], tables[3], tables[3], tables[2])
    seen = spliced.check(path)
    assert (seen.groups, seen.offset_indexes, seen.column_indexes) == (12, 12 * 11, 12 * 11)
    assert seen.blooms == 12 * 2
    assert seen.pages > 12 * 11 * 2


@pytest.mark.parametrize(
    "arguments",
    [
        {"data_page_version": "2.0"},
        {"compression": "none", "write_page_checksum": False},
        {"compression": "snappy", "use_dictionary": False},
        {"compression": dict(zip(spliced.SCHEMA.names, ["gzip", "lz4", "brotli"] * 3, strict=True))},
        {"use_dictionary": False, "column_encoding": {"word": "DELTA_BYTE_ARRAY", "id": "DELTA_BINARY_PACKED"}},
        {"use_dictionary": False, "column_encoding": {"ratio": "BYTE_STREAM_SPLIT", "raw": "DELTA_LENGTH_BYTE_ARRAY"}},
        {"write_statistics": False},
        {"write_statistics": ["id"]},
        {"write_page_index": False},
        {"bloom_filter_options": None},
        {"dictionary_pagesize_limit": 100},
        {"store_schema": True},
    ],
    ids=lambda arguments: ",".join(arguments),
)
def test_files_of_all_sorts_are_taken_over(tmp_path: Path, arguments: dict[str, Any]) -> None:
    table = spliced.rows(1, 1500)
    source = spliced.write(tmp_path / "in.parquet", table, group=700, **arguments)
    path = spliced.Making(f"{tmp_path}/out.parquet").encode(table).copy(source, digest=True).finish()
    _same(path, table, table)
    seen, before = spliced.check(path), pq.read_metadata(source)
    indexed = sum(
        before.row_group(group).column(leaf).has_offset_index
        for group in range(before.num_row_groups)
        for leaf in range(before.num_columns)
    )
    assert seen.offset_indexes == indexed + spliced.LEAVES
    after = pq.read_metadata(path)
    for group in range(before.num_row_groups):
        for leaf in range(before.num_columns):
            old, new = before.row_group(group).column(leaf), after.row_group(group + 1).column(leaf)
            assert old.statistics == new.statistics
            assert old.encodings == new.encodings
            assert old.compression == new.compression


def test_columns_are_renamed_reordered_and_dropped(tmp_path: Path) -> None:
    table = spliced.rows(1, 600)
    source = spliced.write(tmp_path / "in.parquet", table)
    names = {"counts": "counts", "word": "text", "id": "id"}
    schema = pa.schema([spliced.SCHEMA.field(old).with_name(new) for old, new in names.items()])
    making = spliced.Making(f"{tmp_path}/out.parquet", schema=schema)
    path = making.copy(source, [*COUNTS, 1, 0]).finish()
    _same(path, table.select(list(names)).rename_columns(list(names.values())))
    assert spliced.check(path).blooms == 2
    assert parquet_footer.read(IO, path).leaves == splice.template(schema, {}).leaves


def test_columns_are_patched(tmp_path: Path) -> None:
    old, new = spliced.rows(1, 900), spliced.rows(2, 900)
    source = spliced.write(tmp_path / "in.parquet", old)
    making = spliced.Making(f"{tmp_path}/out.parquet")
    places = [0, None, 2, 3, None, None, 6, None, None, *COUNTS]
    patched = ["word", "flag", "ratio", "place"]
    patch = new.select(patched)
    sorted_by = {"sorting_columns": [pq.SortingColumn(8)]}  # of all columns, not of those of the patch
    making.copy(source, places, patch=patch, arguments={**spliced.ARGUMENTS, **sorted_by}, digest=True)
    path = making.finish()
    table = pa.table({name: (new if name in patched else old)[name] for name in old.column_names}, spliced.SCHEMA)
    _same(path, table)
    seen = spliced.check(path)
    assert (seen.groups, seen.offset_indexes, seen.blooms) == (1, spliced.LEAVES, 2)
    (copied,) = making.copied
    assert [digest is None for digest in copied.digests] == [place is None for place in places]
    assert copied.bytes == parquet_footer.read(IO, path).groups[0].bytes == sum(length for _, length in copied.spans)


def test_digests_are_those_of_what_storage_holds(tmp_path: Path) -> None:
    source = spliced.write(tmp_path / "in.parquet", spliced.rows(1, 900), group=300)
    making = spliced.Making(f"{tmp_path}/out.parquet")
    making.encode(spliced.rows(2, 50)).copy(source, digest=True)
    path = making.finish()
    spans = [span for copied in making.copied for span in copied.spans]
    digests = [digest for copied in making.copied for digest in copied.digests]
    assert len(set(digests)) > 20
    assert splice.digests(IO, path, spans) == digests
    assert splice.digests(spliced.StreamIO(), path, spans) == digests
    body = bytearray(Path(path).read_bytes())
    start, length = spans[7]
    body[start + length - 1] ^= 1
    Path(path).write_bytes(body)
    assert [new == old for new, old in zip(splice.digests(IO, path, spans), digests, strict=True)].count(False) == 1


def test_what_was_spliced_is_spliced_again(tmp_path: Path) -> None:
    tables = [spliced.rows(seed, 300) for seed in range(2)]
    paths = [spliced.write(tmp_path / f"{seed}.parquet", tables[seed]) for seed in range(2)]
    once = spliced.Making(f"{tmp_path}/once.parquet").copy(paths[0]).encode(tables[1]).finish()
    twice = spliced.Making(f"{tmp_path}/twice.parquet").copy(paths[1]).copy(once).copy(once).finish()
    _same(twice, tables[1], *tables, *tables)
    assert spliced.check(twice).blooms == 5 * 2


def test_dictionaries_in_memory_look_the_same_in_a_file(tmp_path: Path) -> None:
    table = spliced.rows(1, 300)
    source = spliced.write(tmp_path / "in.parquet", table)
    kind = pa.dictionary(pa.int32(), pa.string())
    schema = spliced.SCHEMA.set(1, spliced.SCHEMA.field("word").with_type(kind))
    encoded = table.set_column(1, schema.field(1), table["word"].cast(kind))
    path = spliced.Making(f"{tmp_path}/out.parquet", schema=schema).encode(encoded).copy(source).finish()
    _same(path, table, table)


def test_row_groups_without_rows(tmp_path: Path) -> None:
    nothing, table = spliced.rows(1, 0), spliced.rows(1, 10)
    with pq.ParquetWriter(tmp_path / "in.parquet", spliced.SCHEMA, **spliced.ARGUMENTS) as writer:
        for each in (nothing, table, nothing):
            writer.write_table(each)
    assert pq.read_metadata(tmp_path / "in.parquet").num_row_groups == 3
    making = spliced.Making(f"{tmp_path}/out.parquet").encode(nothing)
    path = making.copy(f"{tmp_path}/in.parquet", digest=True).finish()
    _same(path, table)
    assert pq.read_metadata(path).num_row_groups == 3
    empty = spliced.Making(f"{tmp_path}/empty.parquet").finish()
    assert _read(empty).num_rows == 0
    assert _read(empty).schema.equals(_read(path).schema)


_TOPS = {"id": [0], "word": [1], "amount": [2], "at": [3], "flag": [4], "ratio": [5], "raw": [6]}
_TOPS |= {"place": list(PLACE), "counts": list(COUNTS)}


@examples(25)
@given(st.data())
def test_any_columns_from_anywhere_in_any_order(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    folder = tmp_path_factory.mktemp("any")
    names = data.draw(st.lists(st.sampled_from(list(_TOPS)), min_size=1, unique=True))
    schema = pa.schema([spliced.SCHEMA.field(name) for name in names])
    making, wanted = spliced.Making(f"{folder}/out.parquet", schema=schema), []
    for number in range(data.draw(st.integers(1, 4))):
        count = data.draw(st.integers(1, 400))
        table, patch = spliced.rows(number, count), spliced.rows(number + 100, count)
        if data.draw(st.booleans()):
            making.encode(table.select(names))
            wanted.append(table.select(names))
            continue
        version = data.draw(st.sampled_from(["1.0", "2.0"]))
        source = spliced.write(folder / f"{number}.parquet", table, data_page_version=version)
        new = set(data.draw(st.lists(st.sampled_from(names), max_size=len(names) - 1))) if len(names) > 1 else set()
        places = [None if name in new else place for name in names for place in _TOPS[name]]
        patched = patch.select([name for name in names if name in new])
        making.copy(source, places, patch=patched, arguments=spliced.ARGUMENTS, digest=data.draw(st.booleans()))
        wanted.append(pa.table({name: (patch if name in new else table)[name] for name in names}, schema))
    path = making.finish()
    _same(path, *wanted)
    assert spliced.check(path).groups == len(wanted)


# What the footer says


def test_sorting_columns_are_kept_if_they_came_as_bytes(tmp_path: Path) -> None:
    table = spliced.rows(1, 100).select(["id", "word", "ratio"])
    schema = pa.schema([spliced.SCHEMA.field(name) for name in ["ratio", "word", "id"]])
    said = [pq.SortingColumn(2, descending=True), pq.SortingColumn(0)]
    source = spliced.write(tmp_path / "in.parquet", table, sorting_columns=said)
    making = spliced.Making(f"{tmp_path}/out.parquet", schema=schema)
    making.copy(source, [2, 1, 0])
    making.copy(source, [None, 1, 0], patch=table.select(["ratio"]), arguments=making.arguments)
    path = making.finish()
    metadata = pq.read_metadata(path)
    moved = [pq.SortingColumn(0, descending=True), pq.SortingColumn(2)]
    assert list(metadata.row_group(0).sorting_columns) == moved
    assert list(metadata.row_group(1).sorting_columns) == []


def test_unknown_fields_stay_and_old_bounds_go(tmp_path: Path) -> None:
    source = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 100)))

    def change(found: thrift.Struct) -> None:
        for group in found[parquet_files.ROW_GROUPS][1][1]:
            group[40] = (thrift.BINARY, b"of a group")
            for chunk in group[parquet_files.COLUMNS][1][1]:
                chunk[41] = (thrift.LIST, (thrift.I64, [1, -2]))
                meta = chunk[parquet_files.META][1]
                meta[42] = (thrift.STRUCT, {1: (thrift.TRUE, True)})
                meta[10] = (thrift.I64, 0)  # an index page offset, which some readers take seriously
                meta[parquet_files.STATISTICS][1].update({1: (thrift.BINARY, b"z"), 2: (thrift.BINARY, b"a")})
                meta[parquet_files.STATISTICS][1][43] = (thrift.I32, 5)

    parquet_files.change_footer(source, change)
    (group,) = parquet_footer.read(IO, spliced.Making(f"{tmp_path}/out.parquet").copy(str(source)).finish()).groups
    assert group.raw[40] == (thrift.BINARY, b"of a group")
    for chunk in group.chunks:
        assert chunk.raw[41] == (thrift.LIST, (thrift.I64, [1, -2]))
        assert chunk.meta[42] == (thrift.STRUCT, {1: (thrift.TRUE, True)})
        assert 10 not in chunk.meta
        assert not {1, 2} & chunk.statistics.keys()
        assert chunk.statistics[43] == (thrift.I32, 5)


def test_the_writer_is_named_as_java_reads_names(tmp_path: Path) -> None:
    making = spliced.Making(f"{tmp_path}/out.parquet").encode(spliced.rows(1, 1))
    found = pq.read_metadata(making.finish())
    java = re.fullmatch(r"(.*?)\s+version\s*(?:([^(]*?)\s*(?:\(\s*build\s*([^)]*?)\s*\))?)?", found.created_by)
    assert java is not None
    assert java[1] == "iceberg-compaction"
    assert re.fullmatch(r"\d+\.\d+\.\d+", java[2])
    assert found.metadata is None


def test_old_dictionary_offsets_of_zero(tmp_path: Path) -> None:
    table = spliced.rows(1, 100).select(["id"])
    source = Path(spliced.write(tmp_path / "in.parquet", table, use_dictionary=False))

    def change(found: thrift.Struct) -> None:
        parquet_files.chunks(found)[0][0][parquet_files.META][1][parquet_files.DICTIONARY_PAGE] = (thrift.I64, 0)

    parquet_files.change_footer(source, change)
    making = spliced.Making(f"{tmp_path}/out.parquet", schema=table.schema)
    path = making.copy(str(source)).copy(str(source)).finish()
    _same(path, table, table)
    assert spliced.check(path).pages
    assert not pq.read_metadata(path).row_group(1).column(0).has_dictionary_page


# What is refused


def test_a_file_that_is_there_is_not_touched(tmp_path: Path) -> None:
    path = tmp_path / "out.parquet"
    path.write_bytes(b"mine")
    for io in (PyArrowFileIO(), spliced.StreamIO()):
        with pytest.raises(FileExistsError):
            splice.SplicedFile(io, str(path), spliced.SCHEMA, spliced.ARGUMENTS)
    assert path.read_bytes() == b"mine"


def test_columns_of_another_layout_are_refused(tmp_path: Path) -> None:
    source = spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10))
    making = spliced.Making(f"{tmp_path}/out.parquet")
    with pytest.raises(ValueError, match="column word is laid out in another way"):
        making.copy(source, [0, 0, 2, 3, 4, 5, 6, 7, 8, 9, 10])
    with pytest.raises(ValueError, match="11 columns, not 10"):
        making.copy(source, list(range(10)))
    assert making.file.position == 0
    making.file.abandon()
    making.file.abandon()


@pytest.mark.parametrize(
    ("names", "count", "wrong"),
    [(["place"], 10, "word"), (["word", "place"], 9, "word"), (["word", "ratio"], 10, "place")],
)
def test_patches_that_do_not_fit_are_refused(tmp_path: Path, names: list[str], count: int, wrong: str) -> None:
    source = spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10))
    making = spliced.Making(f"{tmp_path}/out.parquet")
    places = [0, None, 2, 3, 4, 5, 6, None, None, *COUNTS]
    with pytest.raises(ValueError, match=f"of 10 rows lacks columns {wrong}"):
        making.copy(source, places, patch=spliced.rows(2, count).select(names), arguments=spliced.ARGUMENTS)
    making.file.abandon()


def test_half_a_nested_column_is_refused(tmp_path: Path) -> None:
    table = spliced.rows(1, 10)
    source = spliced.write(tmp_path / "in.parquet", table)
    making = spliced.Making(f"{tmp_path}/out.parquet")
    with pytest.raises(ValueError, match="columns place are not those of the file"):
        making.copy(source, [*range(8), None, *COUNTS], patch=table.select(["place"]), arguments=spliced.ARGUMENTS)
    making.file.abandon()


def test_rows_of_other_columns_are_refused_and_the_writer_keeps_still(tmp_path: Path) -> None:
    making = spliced.Making(f"{tmp_path}/out.parquet")
    with pytest.raises(ValueError, match="columns id are not those of the file"):
        making.encode(spliced.rows(1, 10).select(["id"]))
    nulls = spliced.SCHEMA.set(5, spliced.SCHEMA.field("ratio").with_nullable(False))
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        making.encode(pa.Table.from_arrays(spliced.rows(1, 500).columns, schema=nulls))
    written = making.file.position
    gc.collect()
    assert making.file.position == written == Path(making.path).stat().st_size
    making.file.abandon()


def test_mistrusted_files_are_refused(tmp_path: Path) -> None:
    source = Path(spliced.write(tmp_path / "in.parquet", spliced.rows(1, 10)))
    parquet_files.change_footer(source, lambda found: found.pop(parquet_files.COLUMN_ORDERS))
    making = spliced.Making(f"{tmp_path}/out.parquet")
    with pytest.raises(ValueError, match="how its bounds are ordered"):
        making.copy(str(source))
    making.file.abandon()
