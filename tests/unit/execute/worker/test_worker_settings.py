"""The table's writer settings (R44) and paths (R45), each looked up in the file as written, page by page."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, MapType, NestedField, StringType, StructType
from tests.factories import parquet_files, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, execute_task
from iceberg_compaction.execute.worker.output import column_encodings, locations, parquet_options

_ATTEMPTS = itertools.count()


def _optional(field_id: int, name: str, kind: Any) -> NestedField:
    return NestedField(field_id, name, kind, required=False)


TABLE = Schema(
    _optional(1, "id", LongType()),
    _optional(2, "word", StringType()),
    _optional(3, "s", StructType(_optional(4, "x.y", DoubleType()))),
    _optional(5, "l", ListType(6, StringType(), element_required=False)),
    _optional(7, "m", MapType(8, StringType(), 9, StructType(_optional(10, "v", LongType())), value_required=False)),
)
ID, WORD, S_X, L_ELEMENT, M_KEY, M_V = range(6)
COUNT = 30_000


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    words = pa.array(np.array([f"word-{at}" for at in range(500)])[np.arange(COUNT) % 500])
    offsets = pa.array(np.arange(COUNT + 1, dtype=np.int32))
    columns = arrow_schemas.file_schema(TABLE)
    plain = {
        "id": pa.array(np.random.default_rng(1).permutation(COUNT)),
        "word": words,
        columns.names[2]: pa.StructArray.from_arrays(
            [pa.array(np.arange(COUNT) / 7)], [columns.field(2).type.field(0).name]
        ),
        "l": pa.ListArray.from_arrays(offsets, words),
        "m": pa.MapArray.from_arrays(offsets, words, pa.StructArray.from_arrays([pa.array(np.arange(COUNT))], ["v"])),
    }
    path = tmp_path_factory.mktemp("settings") / "in.parquet"
    return tasks.write_input(path, pa.table(plain).cast(columns), TABLE)


def _written(source: Path, root: Path, **properties: str) -> str:
    named = {f"write.parquet.{key.replace('_', '-')}": value for key, value in properties.items()}
    context = tasks.make_context(root, TABLE, properties=named)
    (file,) = execute_task.rewrite(tasks.make_task([source]), context, str(next(_ATTEMPTS))).staged
    return file.file_path


def _chunk(path: str, column: int) -> Any:
    return pq.read_metadata(path).row_group(0).column(column)


@pytest.mark.parametrize("codec", ["zstd", "GZIP", "snappy", "lz4", "lz4_raw", "brotli", "uncompressed"])
def test_r44_codecs(source: Path, tmp_path: Path, codec: str) -> None:
    chunk = _chunk(_written(source, tmp_path, compression_codec=codec), ID)
    assert chunk.compression.lower() == codec.lower().removesuffix("_raw")


def test_r44_zstd_is_the_default_and_levels_matter_where_a_codec_has_them(source: Path, tmp_path: Path) -> None:
    def size(**properties: str) -> int:
        return Path(_written(source, tmp_path, **properties)).stat().st_size

    assert _chunk(_written(source, tmp_path), ID).compression == "ZSTD"
    assert size(compression_level="19") < size(compression_level="1")
    assert size(compression_codec="gzip") < size(compression_codec="gzip", compression_level="1")
    assert size(compression_codec="gzip", compression_level="6") == size(compression_codec="gzip")
    for codec in ("snappy", "lz4"):
        assert size(compression_codec=codec, compression_level="9") == size(compression_codec=codec)


def _data_pages(path: str, column: int) -> list[tuple[int, int, int]]:
    return [page for page in parquet_files.pages(path, column) if page[0] != parquet_files.DICTIONARY]


def test_r44_pages_end_at_the_row_limit_and_at_the_byte_limit(source: Path, tmp_path: Path) -> None:
    usual = _written(source, tmp_path)
    assert [values for _, values, _ in _data_pages(usual, ID)] == [20_000, 10_000]
    rows = _written(source, tmp_path, page_row_limit="3000")
    for column in range(6):
        assert [values for _, values, _ in _data_pages(rows, column)] == [3000] * 10, column
    small = _data_pages(_written(source, tmp_path, page_size_bytes="4096"), ID)
    assert len(small) > 10
    assert max(size for _, _, size in small) < 3 * 4096


def test_r44_page_versions(source: Path, tmp_path: Path) -> None:
    def kinds(**properties: str) -> set[int]:
        return {kind for kind, _, _ in _data_pages(_written(source, tmp_path, **properties), WORD)}

    assert kinds() == kinds(page_version="v1") == {parquet_files.DATA_V1}
    assert kinds(page_version="v2") == {parquet_files.DATA_V2}


def test_r44_dictionaries_stay_within_their_size(source: Path, tmp_path: Path) -> None:
    """What does not fit is written plainly from there on; the default is 2 MiB."""
    kind, _, size = parquet_files.pages(_written(source, tmp_path), WORD)[0]
    assert (kind, size) == (parquet_files.DICTIONARY, sum(4 + len(f"word-{at}") for at in range(500)))
    small = _written(source, tmp_path, **{"dict-encoding-enabled.column.id": "true", "dict-size-bytes": "1000"})
    kind, _, size = parquet_files.pages(small, ID)[0]
    assert kind == parquet_files.DICTIONARY
    assert size < 20_000
    assert "PLAIN" in _chunk(small, ID).encodings


def test_r44_dictionaries_can_be_switched_off_by_column_at_every_level(source: Path, tmp_path: Path) -> None:
    names = {WORD: "word", S_X: "s.x.y", L_ELEMENT: "l.element", M_KEY: "m.key", M_V: "m.value.v"}
    for column, name in names.items():
        wanted = {"dict-encoding-enabled.column.id": "true", "dict-encoding-enabled.column.s.x.y": "true"}
        path = _written(source, tmp_path, **{**wanted, f"dict-encoding-enabled.column.{name}": "false"})
        has = [_chunk(path, index).has_dictionary_page for index in range(6)]
        assert has == [index != column for index in range(6)], name


def test_no_dictionary_is_tried_where_all_values_differ(source: Path, tmp_path: Path) -> None:
    """Unless the table asks for one. Below lists and maps it is always tried."""
    has = [_chunk(_written(source, tmp_path), index).has_dictionary_page for index in range(6)]
    assert has == [False, True, False, True, True, True]


@pytest.mark.parametrize(
    ("values", "useful"),
    [
        (np.arange(100_000), False),
        (np.arange(100_000) % 25_000, True),  # neighbours differ, and yet each value comes four times
        (np.repeat(np.arange(50_000), 2), True),
        (np.random.default_rng(1).integers(0, 10**6, 100_000), False),
        (np.random.default_rng(1).zipf(1.5, 100_000), True),
        (np.where(np.arange(100_000) < 99_000, 7, np.arange(100_000)), True),
        (np.full(100_000, 7), True),
    ],
)
def test_what_a_dictionary_is_good_for(values: np.ndarray[Any, Any], useful: bool) -> None:
    for column in (pa.array(values), pa.array([f"{value:0>12}" for value in values.tolist()])):
        nested = pa.StructArray.from_arrays([column], ["x"])
        table = pa.table({"c": pa.chunked_array([column[:30_000], column[30_000:]]), "s": nested})
        paths = {(0,), (1, 0)}
        assert column_encodings.without_dictionary(table, paths, 2**21) == (set() if useful else paths)
        assert column_encodings.without_dictionary(table[:4000], paths, 2**21) == set()


def test_a_dictionary_that_would_overflow_is_not_tried() -> None:
    words = pa.array([f"{value % 20_000:0>200}" for value in range(100_000)])
    table = pa.table({"c": words})
    assert column_encodings.without_dictionary(table, [(0,)], 2**22) == set()  # it takes 4 MB
    assert column_encodings.without_dictionary(table, [(0,)], 2**20) == {(0,)}
    mostly_null = pa.table({"c": pa.array(range(100_000), mask=np.arange(100_000) % 20 > 0)})
    assert column_encodings.without_dictionary(mostly_null, [(0,)], 2**21) == set()


def test_the_number_of_values_is_guessed_from_those_that_were_seen() -> None:
    random = np.random.default_rng(5)
    for count in (500, 5000, 50_000, 500_000):
        seen = len(np.unique(random.integers(0, count, 16_000)))
        assert 0.8 * count < column_encodings.distinct_values(seen, 16_000) < 1.25 * count


def test_r44_bloom_filters_by_column_at_every_level(source: Path, tmp_path: Path) -> None:
    names = {ID: "id", S_X: "s.x.y", L_ELEMENT: "l.element", M_V: "m.value.v"}
    path = _written(source, tmp_path, **{f"bloom-filter-enabled.column.{name}": "true" for name in names.values()})
    assert [_chunk(path, index).bloom_filter_offset is not None for index in range(6)] == [i in names for i in range(6)]


def test_r44_bloom_filters_grow_with_distinct_values_and_certainty_up_to_their_limit(
    source: Path, tmp_path: Path
) -> None:
    def size(**properties: str) -> int:
        named = {f"bloom-filter-{key.replace('_', '-')}.column.id": value for key, value in properties.items()}
        limit = named.pop("bloom-filter-max-bytes.column.id", None)
        more = {} if limit is None else {"bloom-filter-max-bytes": limit}
        path = _written(source, tmp_path, **{"bloom-filter-enabled.column.id": "true", **named, **more})
        return int(_chunk(path, ID).bloom_filter_length)

    usual = size()
    assert 2**15 <= usual < 2**16 + 64  # 30,000 values at 1 %
    assert size(fpp="0.5") < usual < size(fpp="0.0001")
    assert size(ndv="100") < usual
    for limit in (1000, 4096, 20_000):
        assert limit / 2 <= size(max_bytes=str(limit), fpp="0.0001") <= limit + 64  # and a header


def test_r44_a_filter_fits_whatever_its_certainty() -> None:
    for size, chance in itertools.product((32, 1000, 2**20), (0.5, 0.01, 1e-9)):
        bits = -8 * parquet_options._fitting(size, chance) / np.log(1 - chance ** (1 / 8))
        assert bits / 8 <= size


def test_r44_page_index_statistics_and_their_switches(source: Path, tmp_path: Path) -> None:
    def shown(path: str, column: int) -> tuple[bool, bool, bool]:
        chunk = parquet_files.chunks(parquet_files.footer(path))[0][column]
        return (
            parquet_files.STATISTICS in chunk[parquet_files.META][1],
            parquet_files.COLUMN_INDEX in chunk,
            parquet_files.OFFSET_INDEX in chunk,
        )

    usual = _written(source, tmp_path)
    assert [shown(usual, column) for column in range(6)] == [(True, True, True)] * 6
    names = {ID: "id", S_X: "s.x.y", M_V: "m.value.v"}
    path = _written(source, tmp_path, **{f"stats-enabled.column.{name}": "false" for name in names.values()})
    assert [shown(path, column)[:2] for column in range(6)] == [(c not in names, c not in names) for c in range(6)]


def test_r44_pages_carry_checksums_and_columns_their_ids(source: Path, tmp_path: Path) -> None:
    path = Path(_written(source, tmp_path))
    data = bytearray(path.read_bytes())
    at = _chunk(str(path), WORD).data_page_offset + 60
    data[at] ^= 1
    path.write_bytes(data)
    with pytest.raises(OSError, match="CRC"):
        pq.read_table(path, columns=["word"], page_checksum_verification=True)


def _path(root: Path, table_location: str | None = None, partition: str = "", **properties: str) -> str:
    named = {f"write.{key.replace('__', '.').replace('_', '-')}": value for key, value in properties.items()}
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "word"), spec_id=1)
    context = tasks.make_context(root, TABLE, spec=spec, properties=named)
    if table_location is not None:
        context = context.model_copy(update={"table_location": table_location})
    return locations.output_locations(tasks.make_task([]), context, "a", partition).path(0)


NAME = "00000-a-5b1e-00000.parquet"


def test_r45_paths(tmp_path: Path) -> None:
    assert _path(tmp_path) == f"{tmp_path}/table/data/{NAME}"
    assert _path(tmp_path, "s3://b/db/t/", "word=x") == f"s3://b/db/t/data/word=x/{NAME}"
    assert _path(tmp_path, partition="word=x", data__path="s3://b/else/") == f"s3://b/else/word=x/{NAME}"


def test_r45_hashed_paths_for_object_stores(tmp_path: Path) -> None:
    on = {"object_storage__enabled": "true"}
    hashed = _path(tmp_path, "s3://b/db/t", **on)
    assert hashed.startswith("s3://b/db/t/data/")
    parts = hashed.removeprefix("s3://b/db/t/data/").split("/")
    assert [len(part) for part in parts] == [4, 4, 4, 8, len(NAME)]
    assert set("".join(parts[:-1])) <= {"0", "1"}
    deep = _path(tmp_path, "s3://b/db/t", "word=x", **on)
    assert deep.endswith(f"/word=x/{NAME}")
    assert deep.split("/")[6:10] != parts[:4]  # the partition is part of what is hashed
    flat = _path(tmp_path, "s3://b/db/t", "word=x", object_storage__partitioned_paths="false", **on)
    assert flat.removeprefix("s3://b/db/t/data/") == f"{'/'.join(parts[:4])}-{NAME}"
    apart = {"data__path": "s3://other/files", **on}
    assert _path(tmp_path, "s3://b/db/t", **apart) == f"s3://other/files/{'/'.join(parts[:4])}/db/t/{NAME}"
    assert _path(tmp_path, "s3://b/db/t", "word=x", **apart).endswith(f"/db/t/word=x/{NAME}")
    flat = _path(tmp_path, "s3://b/db/t", "word=x", object_storage__partitioned_paths="false", **apart)
    assert flat == f"s3://other/files/{'/'.join(parts[:4])}/db/t/{NAME}"
    within = _path(tmp_path, "s3://b/db/t", data__path="s3://b/db/t/files", **on)
    assert within == f"s3://b/db/t/files/{'/'.join(parts[:4])}/{NAME}"


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"location_provider__impl": "org.acme.Provider"}, r"org\.acme\.Provider is a Java class"),
        ({"py_location_provider__impl": "no.such.Provider"}, "cannot be loaded"),
        ({"folder_storage__path": "/old"}, r"write\.folder-storage\.path is out of use"),
        ({"object_storage__path": "/old", "object_storage__enabled": "true"}, r"write\.object-storage\.path is out"),
    ],
)
def test_r45_places_that_cannot_be_known_are_refused(tmp_path: Path, properties: dict[str, str], words: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=words):
        _path(tmp_path, **properties)


def test_r45_old_names_do_not_matter_beside_the_new_one(tmp_path: Path) -> None:
    assert _path(tmp_path, folder_storage__path="/old", data__path="/new") == f"/new/{NAME}"
    assert _path(tmp_path, object_storage__path="/old") == f"{tmp_path}/table/data/{NAME}"


def test_columns_keep_the_names_that_other_writers_give_them() -> None:
    names = [leaf.path for leaf in arrow_schemas.leaves(arrow_schemas.file_schema(TABLE))]
    assert len(names) == 6
    assert list(parquet_options._columns_by_name(TABLE, arrow_schemas.file_schema(TABLE)).values()) == [
        "id",
        "word",
        "s.x_x2Ey",
        "l.list.element",
        "m.key_value.key",
        "m.key_value.value.v",
    ]


_HUGE = str(2**63 - 1)


def test_settings_may_be_as_large_as_a_long(source: Path, tmp_path: Path) -> None:
    names = ("row_group_size_bytes", "page_size_bytes", "page_row_limit", "dict_size_bytes", "bloom_filter_max_bytes")
    more = {"bloom_filter_enabled.column.id": "true", "bloom_filter_ndv.column.id": _HUGE}
    path = _written(source, tmp_path, **dict.fromkeys(names, _HUGE), **more)
    assert pq.read_metadata(path).num_row_groups == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("row_group_size_bytes", "0"),
        ("row_group_size_bytes", "-5"),
        ("page_size_bytes", str(2**63)),
        ("page_row_limit", "9" * 5000),
        ("dict_size_bytes", "2MB"),
        ("compression_level", "1000"),
        ("compression_level", str(2**31)),
    ],
)
def test_settings_that_make_no_sense_are_told_in_a_sentence(source: Path, tmp_path: Path, name: str, text: str) -> None:
    with pytest.raises(errors.UnsupportedError, match=f"write.parquet.{name.replace('_', '-')} is") as raised:
        _written(source, tmp_path, **{name: text})
    assert len(str(raised.value)) < 200
