"""Small row groups are joined as bytes where that is right, and nobody can tell from rows and metrics."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    DoubleType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from tests.factories import joining, parquet_files, spliced, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.execute.worker.copy import copied_row_groups, join_choice
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.formats.parquet import parquet_footer, thrift
from iceberg_compaction.formats.parquet.join import ways
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _small_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of a few kilobytes are joined, too."""
    monkeypatch.setattr(ways, "_LEAST_PAGE", 0)
    monkeypatch.setattr(join_choice, "_GAIN", 1000.0)
    monkeypatch.setattr(read_files, "_TINY_CHUNK", 0)


@pytest.mark.parametrize("level", list(ProofLevel))
def test_small_row_groups_become_one(tmp_path: Path, level: ProofLevel) -> None:
    paths = joining.inputs(tmp_path, groups=2)
    result = joining.run(tmp_path, paths, verify=level)
    assert joining.efforts(result) == (0, 8, 0)
    assert result.effort.kept_from_copying == {}
    assert tasks.read_rows(result) == joining.stored(paths)
    assert [pq.read_metadata(file.file_path).num_row_groups for file in result.staged] == [1]
    assert (result.proof.rows, result.proof.copied.rows) == (4 * joining.ROWS, 4 * joining.ROWS)
    assert bool(result.proof.checksum) == (level is not ProofLevel.COUNTS)
    assert spliced.check(result.staged[0].file_path).column_indexes > 0


@pytest.mark.parametrize("mode", [CopyMode.NEVER, CopyMode.ALWAYS])
def test_nothing_is_joined_unless_the_choice_is_ours(tmp_path: Path, mode: CopyMode) -> None:
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, copy_row_groups=mode)
    assert result.effort.joined_groups == 0
    assert tasks.read_rows(result) == joining.stored(paths)


def test_rows_that_are_sorted_are_not_joined(tmp_path: Path) -> None:
    paths = joining.inputs(tmp_path)
    order = SortOrder(SortField(source_id=1, transform=IdentityTransform()), order_id=4)
    result = joining.run(tmp_path, paths, sort_order=order.model_dump_json())
    assert joining.efforts(result)[:2] == (0, 0)
    assert tasks.read_rows(result) == joining.stored(paths)


def test_a_column_with_a_bloom_filter_gets_a_new_one_for_all_rows(tmp_path: Path) -> None:
    properties = {"write.parquet.bloom-filter-enabled.column.name": "true"}
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, properties=properties)
    assert joining.efforts(result) == (0, 4, 0)
    (file,) = result.staged
    (group,) = parquet_footer.read(PyArrowFileIO(), file.file_path).groups
    assert [spliced.BLOOM in chunk.meta for chunk in group.chunks] == [False, True, False, False, False]
    assert tasks.read_rows(result) == joining.stored(paths)


def test_row_groups_are_smaller_where_decoded_columns_would_take_too_much_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    properties = {"write.parquet.bloom-filter-enabled.column.name": "true"}
    paths = joining.inputs(tmp_path, files=6)
    (group,) = parquet_footer.read(PyArrowFileIO(), str(paths[0])).groups
    monkeypatch.setattr(join_choice, "_DECODED_BYTES", int(2.5 * group.chunks[1].uncompressed))
    result = joining.run(tmp_path, paths, properties=properties)
    assert joining.efforts(result) == (0, 6, 0)
    assert [pq.read_metadata(file.file_path).num_row_groups for file in result.staged] == [3]
    assert tasks.read_rows(result) == joining.stored(paths)


def test_r51_partition_columns_have_the_value_of_the_partition(tmp_path: Path) -> None:
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "name"), spec_id=3)
    paths = joining.inputs(tmp_path)
    result = joining.run(tmp_path, paths, spec=spec, partition=json.dumps({"name": "here"}), verify=ProofLevel.CHECKSUM)
    assert result.effort.joined_groups == 4
    table = pq.read_table(result.staged[0].file_path)
    assert set(table["name"].to_pylist()) == {"here"}
    assert table["id"].to_pylist() == list(range(4 * joining.ROWS))


def test_columns_that_changed_are_encoded_and_missing_ones_become_nulls_or_defaults(tmp_path: Path) -> None:
    old = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=False),
        NestedField(3, "count", IntegerType(), required=False),
        NestedField(9, "dropped", DoubleType(), required=False),
    )
    now = Schema(
        NestedField(3, "count", LongType(), required=False),
        NestedField(2, "title", StringType(), required=False),
        NestedField(10, "extra", DoubleType(), required=False),
        NestedField(11, "kind", StringType(), required=False, initial_default="usual"),
        NestedField(12, "box", StructType(NestedField(13, "w", LongType(), required=False)), required=False),
        NestedField(14, "list", ListType(15, LongType(), element_required=False), required=False),
        NestedField(1, "id", LongType(), required=True),
        schema_id=1,
    )
    before = [{"id": n, "name": f"n{n % 7}", "count": n % 3, "dropped": 0.5} for n in range(500)]
    after = [
        {
            "count": n,
            "title": f"t{n % 9}",
            "extra": n / 4,
            "kind": "new",
            "box": {"w": n},
            "list": [n, None][: n % 3],
            "id": 1000 + n,
        }
        for n in range(500)
    ]
    paths = [
        joining.write(tmp_path / "old.parquet", before, old, use_dictionary=["name"]),
        joining.write(tmp_path / "new.parquet", after, now, use_dictionary=["title"]),
        joining.write(tmp_path / "old-too.parquet", before, old, use_dictionary=["name"]),
    ]
    result = joining.run(tmp_path, paths, schema=now)
    assert joining.efforts(result) == (0, 3, 0)
    filled = [
        {"count": n % 3, "title": f"n{n % 7}", "extra": None, "kind": "usual", "box": None, "list": None, "id": n}
        for n in range(500)
    ]
    assert tasks.read_rows(result) == tasks.comparable([*filled, *after, *filled])
    (file,) = result.staged
    assert {number: file.null_value_counts[number] for number in (10, 11, 13)} == {10: 1000, 11: 0, 13: 1000}
    (group,) = parquet_footer.read(PyArrowFileIO(), file.file_path).groups
    assert group.chunks[2].length < 6000, "500 doubles and two pages of nulls"


def test_row_groups_of_another_codec_are_encoded(tmp_path: Path) -> None:
    paths = [
        joining.write(tmp_path / f"{n}.parquet", joining.rows(joining.ROWS, n * joining.ROWS), compression=codec)
        for n, codec in enumerate(("zstd", "zstd", "snappy", "gzip", "zstd"))
    ]
    result = joining.run(tmp_path, paths)
    assert tasks.read_rows(result) == joining.stored(paths)
    assert result.effort.joined_groups == 2
    assert result.effort.kept_from_copying == {
        copied_row_groups.Kept.CODEC.value: 1,
        copied_row_groups.Kept.PAGES.value: 2,  # no column has one codec in both
    }


@pytest.mark.parametrize("statistics", [True, False])
def test_metrics_are_those_of_a_full_encode(tmp_path: Path, statistics: bool) -> None:
    long = joining.rows(joining.ROWS, 900)
    long = long.set_column(1, long.schema.field(1), pa.array(["ü" * 3000 + str(n % 9) for n in range(joining.ROWS)]))
    options = {"write_statistics": statistics, "write_page_index": statistics}
    paths = [*joining.inputs(tmp_path, **options), joining.write(tmp_path / "long.parquet", long, **options)]
    encoded = joining.run(tmp_path / "e", paths, copy_row_groups=CopyMode.NEVER).staged[0]
    joined = joining.run(tmp_path / "j", paths, of_task=joining.manifest_metrics(tmp_path, paths))
    assert joined.effort.joined_groups == 5
    for name in joining.METRICS:
        metrics, expected = getattr(joined.staged[0], name), getattr(encoded, name)
        assert metrics == {number: expected[number] for number in metrics}, name
        assert metrics.keys() >= ({2, 3, 5} & expected.keys()), name
    unknown = joining.run(tmp_path / "u", paths).staged[0]
    for name in joining.METRICS:
        metrics, expected = getattr(unknown, name), getattr(encoded, name)
        assert metrics == {number: expected[number] for number in metrics}, name


def test_an_encoded_column_without_statistics_is_not_called_all_null(tmp_path: Path) -> None:
    """It has a Bloom filter, so it is encoded, and the table wants no statistics of it: nothing counts its nulls."""
    properties = {
        "write.parquet.bloom-filter-enabled.column.name": "true",
        "write.parquet.stats-enabled.column.name": "false",
    }
    paths = joining.inputs(tmp_path)
    told = tuple({2: (5, b"name 1", b"name 9")} for _ in paths)
    result = joining.run(tmp_path, paths, properties=properties, of_task={"told": told})
    assert result.effort.joined_groups == 4
    encoded = joining.run(tmp_path / "e", paths, properties=properties, copy_row_groups=CopyMode.NEVER)
    for name in joining.METRICS:
        assert 2 not in getattr(encoded.staged[0], name), name
        assert 2 not in getattr(result.staged[0], name), name


@pytest.mark.parametrize("level", [ProofLevel.CHECKSUM, ProofLevel.DEEP])
def test_damaged_indexes_name_their_file(tmp_path: Path, level: ProofLevel) -> None:
    paths = joining.inputs(tmp_path, write_page_checksum=True)
    chunk = parquet_footer.read(PyArrowFileIO(), str(paths[2])).groups[0].chunks[1]
    data = bytearray(paths[2].read_bytes())
    data[chunk.start + chunk.length - 3] ^= 0x55
    paths[2].write_bytes(bytes(data))
    with pytest.raises(errors.CompactionError, match=r"in-2\.parquet"):
        joining.run(tmp_path, paths, verify=level)
    assert tasks.files_below(tmp_path) == []


@pytest.mark.parametrize("damaged", [(2,), (0, 1, 2, 3)], ids=["merged", "equal"])
def test_a_damaged_dictionary_names_its_file(tmp_path: Path, damaged: tuple[int, ...]) -> None:
    """A checksum that was computed anew over damaged values would hide the damage for ever."""
    words = ["one", "two"] * (joining.ROWS // 2)
    table = joining.rows(joining.ROWS).set_column(1, arrow_schemas.file_schema(joining.SCHEMA).field("name"), [words])
    options = {"write_page_checksum": True, "compression": "none"}
    paths = [joining.write(tmp_path / f"in-{number}.parquet", table, **options) for number in range(4)]
    for number in damaged:
        chunk = parquet_footer.read(PyArrowFileIO(), str(paths[number])).groups[0].chunks[1]
        data = bytearray(paths[number].read_bytes())
        data[data.index(b"two", chunk.start, chunk.data_pages[0])] ^= 1
        paths[number].write_bytes(bytes(data))
    with pytest.raises(errors.DamagedFileError, match=rf"in-{damaged[0]}\.parquet"):
        joining.run(
            tmp_path,
            paths,
            verify=ProofLevel.CHECKSUM,
            properties={"write.parquet.compression-codec": "uncompressed"},
        )
    assert tasks.files_below(tmp_path) == []


@pytest.mark.parametrize("field", [2, 3, 4, 5], ids=["values", "definition levels", "repetition levels", "kind"])
def test_a_page_with_a_damaged_header_names_its_file(tmp_path: Path, field: int) -> None:
    """Checksums do not cover headers, and a page that moves as bytes is not decoded."""
    paths = joining.inputs(tmp_path, write_page_checksum=True)
    chunk = parquet_footer.read(PyArrowFileIO(), str(paths[2])).groups[0].chunks[2]
    data = paths[2].read_bytes()
    head, body = thrift.parse(data, chunk.start)
    if field == 5:
        head[7] = head.pop(5)  # as if it were a dictionary
    else:
        head[5][1][field] = (thrift.I32, 1)
    changed = thrift.compose(head)
    assert len(changed) == body - chunk.start
    paths[2].write_bytes(data[: chunk.start] + changed + data[body:])
    try:
        result = joining.run(tmp_path, paths, verify=ProofLevel.CHECKSUM)
    except errors.DamagedFileError as error:
        assert error.path == str(paths[2])  # noqa: PT017 - readers need no repetition levels here
    else:
        assert tasks.read_rows(result) == joining.stored(paths)


def test_a_footer_with_too_few_values_is_never_joined(tmp_path: Path) -> None:
    """Readers see 150 rows of the file; pages with all 200 would shift the rows of the next one."""
    paths = joining.inputs(tmp_path)

    def fewer(footer: thrift.Struct) -> None:
        (group,) = footer[parquet_files.ROW_GROUPS][1][1]
        group[3] = footer[3] = (thrift.I64, 150)
        for chunk in parquet_files.chunks(footer)[0][:4]:
            chunk[parquet_files.META][1][parquet_files.NUM_VALUES] = (thrift.I64, 150)

    parquet_files.change_footer(paths[1], fewer)
    three = Schema(*(joining.SCHEMA.find_field(number) for number in (1, 2, 3)))
    result = joining.run(tmp_path, paths, schema=three)
    table = pa.concat_tables([pq.read_table(path, columns=["id", "name", "score"]) for path in paths])
    assert tasks.read_rows(result) == tasks.comparable(table.to_pylist())


def test_files_of_joined_row_groups_come_out_even_and_stay(tmp_path: Path) -> None:
    paths = joining.inputs(tmp_path, files=40)
    total = sum(path.stat().st_size for path in paths)
    target = total // 5
    properties = {"write.parquet.row-group-size-bytes": str(target // 3)}
    result = joining.run(tmp_path, paths, target=target, properties=properties, verify=ProofLevel.CHECKSUM)
    assert joining.efforts(result) == (0, 40, 0)
    assert tasks.read_rows(result) == joining.stored(paths)
    sizes = [file.file_size_in_bytes for file in result.staged]
    assert all(0.75 * target <= size <= 1.5 * target for size in sizes), [size / target for size in sizes]
    assert max(sizes) < 1.4 * min(sizes)
    assert all(len(file.split_offsets) >= 2 for file in result.staged)
