"""Row groups that need no change are taken over as bytes, others are encoded, and nobody can tell from the rows."""

from __future__ import annotations

import pathlib
import struct
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyiceberg.schema import Schema
from pyiceberg.types import (
    DoubleType,
    FloatType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
)
from tests.factories import delete_files, tasks
from tests.factories.examples import examples

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.execute.worker.copy import copied_row_groups
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.output import output_file
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import DeleteFile, RewriteTask, TaskResult

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "score", DoubleType(), required=False),
    NestedField(4, "place", StructType(NestedField(5, "x", IntegerType(), required=False)), required=False),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
)
KB = 1000


def make_rows(count: int, first: int = 0, seed: int = 0) -> pa.Table:
    """Rows that hardly compress, so that sizes are what they look like."""
    random = np.random.default_rng(seed + first)
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count), pa.int64()),
            "name": pa.array([None if n % 17 == 0 else f"name {n:x}" for n in random.integers(0, 2**40, count)]),
            "score": pa.array(random.random(count)),
            "place": pa.array([None if n % 11 == 0 else {"x": int(n)} for n in random.integers(0, 2**30, count)]),
            "tags": pa.array([[f"t{n % 5}", None][: n % 3] for n in range(count)], pa.list_(pa.string())),
        },
        schema=arrow_schemas.file_schema(SCHEMA),
    )


def write_inputs(root: Path, files: int, rows: int, *, groups: int = 4, **options: Any) -> list[Path]:
    return [
        tasks.write_input(
            root / f"in-{number}.parquet",
            make_rows(rows, number * rows),
            SCHEMA,
            **{"row_group_size": rows // groups, "compression": "zstd", **options},
        )
        for number in range(files)
    ]


def run(
    root: Path,
    paths: Sequence[Path],
    *,
    copy: CopyMode = CopyMode.AUTO,
    least: int = 1,
    schema: Schema = SCHEMA,
    deletes: Sequence[DeleteFile] = (),
    target: int = 512 * 2**20,
    verify: ProofLevel = ProofLevel.DEEP,
    properties: dict[str, str] | None = None,
    **of_task: Any,
) -> TaskResult:
    context = tasks.make_context(root, schema, verify=verify, target=target, properties=properties)
    context = context.model_copy(update={"copy_row_groups": copy, "min_row_group": least})
    return execute_task.rewrite(make_task(paths, deletes, **of_task), context, "0")


def make_task(paths: Sequence[Path], deletes: Sequence[DeleteFile] = (), **of_task: Any) -> RewriteTask:
    changes = {"deletes": tuple(deletes), "sequence_numbers": (1,) * len(paths), **of_task}
    return tasks.make_task(paths).model_copy(update=changes)


def stored(paths: Sequence[Path]) -> list[str]:
    return [row for path in paths for row in tasks.comparable(pq.read_table(path).to_pylist())]


def group_sizes(result: TaskResult) -> list[int]:
    found = []
    for file in result.staged:
        metadata = pq.read_metadata(file.file_path)
        for group in range(metadata.num_row_groups):
            columns = (metadata.row_group(group).column(place) for place in range(metadata.num_columns))
            found.append(sum(column.total_compressed_size for column in columns))
    return found


@pytest.mark.parametrize("level", list(ProofLevel))
def test_what_needs_no_change_is_taken_over(tmp_path: Path, level: ProofLevel) -> None:
    paths = write_inputs(tmp_path, files=3, rows=4000)
    result = run(tmp_path, paths, verify=level)
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (12, 0)
    assert result.effort.copied_bytes > 0.9 * sum(path.stat().st_size for path in paths)
    assert tasks.read_rows(result) == stored(paths)
    assert len(result.staged) == 1
    assert (result.proof.rows, result.proof.copied.rows) == (12_000, 12_000)
    assert "12,000 of them as bytes" in result.proof.sentence
    assert bool(result.proof.checksum) == (level is not ProofLevel.COUNTS)


def test_never_means_never(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=2, rows=1000)
    result = run(tmp_path, paths, copy=CopyMode.NEVER)
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (0, 8)
    assert tasks.read_rows(result) == stored(paths)


def test_only_row_groups_with_deleted_positions_are_encoded(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=2, rows=4000)
    delete = delete_files.position_delete(
        tmp_path / "d.parquet", [(paths[0], 1500), (paths[0], 1501), (paths[1], 3999)], sequence_number=1
    )
    result = run(tmp_path, paths, deletes=[delete])
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (6, 2)
    assert result.effort.kept_from_copying == {copied_row_groups.Kept.DELETED.value: 2}
    expected = stored(paths)
    assert tasks.read_rows(result) == [row for at, row in enumerate(expected) if at not in (1500, 1501, 7999)]
    assert result.proof.deleted_rows == 3


def test_a_row_group_of_which_nothing_is_left_is_not_even_read(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=1, rows=4000)
    rows = [(paths[0], position) for position in range(1000, 2000)]
    result = run(tmp_path, paths, deletes=[delete_files.position_delete(tmp_path / "d", rows, sequence_number=1)])
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (3, 0)
    assert result.proof.deleted_rows == 1000
    assert tasks.read_rows(result) == stored(paths)[:1000] + stored(paths)[2000:]


@pytest.mark.parametrize(
    ("keys", "encoded"),
    [
        ([{"id": 900_000}], 0),  # beyond all bounds
        ([{"id": 1500}], 1),
        ([{"id": 1500}, {"id": 1501}, {"id": 3000}], 2),
    ],
)
def test_keys_spare_row_groups_that_they_do_not_meet(tmp_path: Path, keys: list[dict[str, int]], encoded: int) -> None:
    paths = write_inputs(tmp_path, files=1, rows=4000)
    only = Schema(SCHEMA.find_field(1))
    delete = delete_files.equality_delete(tmp_path / "d", keys, only, [1], sequence_number=2)
    result = run(tmp_path, paths, deletes=[delete])
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (4 - encoded, encoded)
    gone = {key["id"] for key in keys}
    assert tasks.read_rows(result) == [row for at, row in enumerate(stored(paths)) if at not in gone]


def test_keys_within_bounds_that_no_row_has_touch_nothing(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=1, rows=4000)
    only = Schema(SCHEMA.find_field(2))
    keys = [{"name": "name 5"}, {"name": "name zzz"}]
    delete = delete_files.equality_delete(tmp_path / "d", keys, only, [2], sequence_number=2)
    result = run(tmp_path, paths, deletes=[delete])
    assert (result.effort.copied_groups, result.proof.deleted_rows) == (4, 0)


def test_bloom_filters_spare_reading_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Within the bounds of every row group, but in none of them."""
    blooms = {"name": {"ndv": 1000, "fpp": 0.0001}}
    paths = write_inputs(tmp_path, files=1, rows=4000, bloom_filter_options=blooms)
    only, read_parts = Schema(SCHEMA.find_field(2)), []
    whole = read_files.DataFileReader.rows_of

    def watched(self: read_files.DataFileReader, parts: Any, *others: Any) -> Any:
        read_parts.extend(parts)
        return whole(self, parts, *others)

    monkeypatch.setattr(read_files.DataFileReader, "rows_of", watched)
    present = pq.read_table(paths[0])["name"].to_pylist()
    keys = [{"name": "name 5a17"}, {"name": present[1]}]
    delete = delete_files.equality_delete(tmp_path / "d", keys, only, [2], sequence_number=2)
    result = run(tmp_path, paths, deletes=[delete], verify=ProofLevel.CHECKSUM)
    assert (result.effort.copied_groups, result.proof.deleted_rows) == (3, 1)
    assert [part.groups for part in read_parts] == [(0,), (0,)]  # looked up, then encoded


def test_a_null_key_reaches_row_groups_with_nulls_only(tmp_path: Path) -> None:
    table = make_rows(4000)
    names = pc.fill_null(table["name"], "")
    table = table.set_column(1, table.schema.field(1), pc.if_else(pc.less(table["id"], 1000), None, names))
    path = tasks.write_input(tmp_path / "in.parquet", table, SCHEMA, row_group_size=1000, compression="zstd")
    delete = delete_files.equality_delete(
        tmp_path / "d", [{"name": None}], Schema(SCHEMA.find_field(2)), [2], sequence_number=2
    )
    result = run(tmp_path, [path], deletes=[delete])
    assert (result.effort.copied_groups, result.effort.encoded_groups, result.proof.deleted_rows) == (3, 0, 1000)


def test_columns_are_found_by_id_whatever_their_name_and_place(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=2, rows=2000)
    fields = {field.field_id: field for field in SCHEMA.fields}
    renamed = fields[2].model_copy(update={"name": "title"})
    now = Schema(fields[6], renamed, fields[1], fields[4], schema_id=1)
    result = run(tmp_path, paths, schema=now)
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (8, 0)
    expected = pa.concat_tables(pq.read_table(path) for path in paths)
    found = pa.concat_tables(pq.read_table(file.file_path) for file in result.staged)
    assert found.column_names == ["tags", "title", "id", "place"]
    for name, was in {"tags": "tags", "title": "name", "id": "id", "place": "place"}.items():
        assert found[name].to_pylist() == expected[was].to_pylist()


def test_added_and_promoted_columns_are_encoded_beside_copied_ones(tmp_path: Path) -> None:
    old = Schema(
        NestedField(1, "id", LongType(), required=True),
        NestedField(2, "name", StringType(), required=False),
        NestedField(3, "count", IntegerType(), required=False),
    )
    table = make_rows(2000).select(["id", "name"])
    counts = pa.array(range(2000), pa.int32())
    table = pa.table([*table.columns, counts], schema=arrow_schemas.file_schema(old))
    path = tasks.write_input(tmp_path / "in.parquet", table, old, row_group_size=500, compression="zstd")
    now = Schema(
        NestedField(3, "count", LongType(), required=False),
        NestedField(1, "id", LongType(), required=True),
        NestedField(8, "extra", DoubleType(), required=False),
        NestedField(2, "name", StringType(), required=False),
    )
    result = run(tmp_path, [path], schema=now)
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (4, 0)
    found = pq.read_table(result.staged[0].file_path)
    assert found.schema.field("count").type == pa.int64()
    assert found["count"].to_pylist() == list(range(2000))
    assert found["extra"].null_count == 2000
    assert found["name"].to_pylist() == table["name"].to_pylist()
    assert result.staged[0].null_value_counts[8] == 2000


def test_small_row_groups_are_merged_and_leave_no_crumbs(tmp_path: Path) -> None:
    large = write_inputs(tmp_path, files=3, rows=20_000, groups=2)
    small = [
        tasks.write_input(tmp_path / f"s{n}.parquet", make_rows(300, n * 300, 7), SCHEMA, compression="zstd")
        for n in range(12)
    ]
    paths = [large[0], *small[:5], large[1], small[5], large[2], *small[6:]]
    least = 150 * KB
    assert min(path.stat().st_size for path in large) > 2 * least
    result = run(tmp_path, paths, least=least)
    assert tasks.read_rows(result) == stored(paths)
    assert min(group_sizes(result)) >= least
    assert result.effort.copied_groups >= 3
    assert set(result.effort.kept_from_copying) == {
        copied_row_groups.Kept.SMALL.value,
        copied_row_groups.Kept.NEIGHBOUR.value,
    }


@pytest.mark.parametrize("seed", [*range(4), *(pytest.param(seed, marks=pytest.mark.lab) for seed in range(4, 8))])
def test_no_run_of_rows_ends_in_a_crumb(tmp_path: Path, seed: int) -> None:
    """Whatever the sizes of small files between large ones, of row groups and of the target."""
    random = np.random.default_rng(seed)
    least, paths = 30 * KB, []
    for number in range(12):
        is_large = number % 4 == 0
        rows = int(random.integers(4000, 6000) if is_large else random.integers(10, 3000))
        path = tmp_path / f"in-{number}.parquet"
        table = make_rows(rows, 10_000 * number)
        paths.append(tasks.write_input(path, table, SCHEMA, row_group_size=2000, compression="zstd"))
    properties = {"write.parquet.row-group-size-bytes": str(random.integers(60, 200) * KB)}
    target = int(random.integers(400, 900)) * KB
    result = run(tmp_path, paths, least=least, target=target, properties=properties)
    assert tasks.read_rows(result) == stored(paths)
    assert result.effort.copied_groups > 0
    assert min(group_sizes(result)) >= 0.9 * least, sorted(group_sizes(result))


@pytest.mark.parametrize(
    "target", [540, 570, 590, *(pytest.param(target, marks=pytest.mark.lab) for target in (550, 560, 580))]
)
def test_rows_that_take_less_than_expected_make_no_crumb(tmp_path: Path, target: int) -> None:
    """Small files have the same few long names each, which are stored once in a row group: forecasts are too high."""
    random = np.random.default_rng(target)
    least, paths = 60 * KB, []
    names = np.array([random.bytes(60).hex() for _ in range(300)])
    for number in range(60):
        path = tmp_path / f"in-{number}.parquet"
        table = make_rows(8000 if number < 2 else int(random.integers(400, 1400)), 20_000 * number)
        if number >= 2:
            some = pa.array(random.choice(names, table.num_rows), pa.string())
            table = table.set_column(1, table.schema.field("name"), some)
        paths.append(tasks.write_input(path, table, SCHEMA, row_group_size=4000, compression="zstd"))
    result = run(tmp_path, paths, least=least, target=target * KB)
    assert tasks.read_rows(result) == stored(paths)
    assert result.effort.copied_groups == 4
    assert min(group_sizes(result)) >= least, sorted(group_sizes(result))


@pytest.mark.parametrize("files", [5, 7, 9])
def test_rows_that_shrink_take_their_neighbour_in(tmp_path: Path, files: int) -> None:
    """Small files that look like enough for a row group, but say the same each."""
    random = np.random.default_rng(files)
    least, paths = 60 * KB, []
    names = np.array([random.bytes(200).hex() for _ in range(80)])
    for number in range(4 * files):
        table = make_rows(6000 if number % files == 0 else 100, 20_000 * number)
        if number % files:
            some = pa.array(random.permutation(np.resize(names, table.num_rows)), pa.string())
            table = table.set_column(1, table.schema.field("name"), some)
        path = tmp_path / f"in-{number}.parquet"
        paths.append(tasks.write_input(path, table, SCHEMA, row_group_size=3000, compression="zstd"))
    run_bytes = sum(path.stat().st_size for path in paths[1:files])
    assert run_bytes > 1.25 * least
    result = run(tmp_path, paths, least=least, properties={"write.parquet.compression-codec": "zstd"})
    assert tasks.read_rows(result) == stored(paths)
    assert result.effort.copied_groups >= 3
    assert copied_row_groups.Kept.NEIGHBOUR.value in result.effort.kept_from_copying
    assert min(group_sizes(result)[:-1]) >= 0.9 * least, group_sizes(result)


def test_the_codec_that_the_table_asks_for(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=1, rows=2000, compression="snappy")
    assert run(tmp_path / "a", paths).effort.kept_from_copying == {copied_row_groups.Kept.CODEC.value: 4}
    snappy = {"write.parquet.compression-codec": "snappy"}
    assert run(tmp_path / "b", paths, properties=snappy).effort.copied_groups == 4
    assert run(tmp_path / "c", paths, copy=CopyMode.ALWAYS).effort.copied_groups == 4
    dense = write_inputs(tmp_path / "gzip", files=1, rows=2000, compression="gzip")
    assert run(tmp_path / "d", dense).effort.copied_groups == 4
    asked = {"write.parquet.compression-codec": "zstd"}
    assert run(tmp_path / "e", dense, properties=asked).effort.copied_groups == 0


def test_files_without_ids_are_encoded(tmp_path: Path) -> None:
    table = make_rows(1000).select(["id", "name"])
    bare = pa.schema([field.remove_metadata() for field in table.schema])
    pq.write_table(table.cast(bare), tmp_path / "in.parquet", compression="zstd", store_schema=False)
    mapping = '[{"field-id": 1, "names": ["id"]}, {"field-id": 2, "names": ["name"]}]'
    now = Schema(*(SCHEMA.find_field(number) for number in (1, 2)))
    result = run(tmp_path, [tmp_path / "in.parquet"], schema=now, properties={"schema.name-mapping.default": mapping})
    assert result.effort.kept_from_copying == {copied_row_groups.Kept.NO_IDS.value: 1}


def test_files_are_cut_near_the_target(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=10, rows=10_000, groups=5)
    target = int(2.2 * paths[0].stat().st_size)
    result = run(tmp_path, paths, target=target)
    sizes = [file.file_size_in_bytes for file in result.staged]
    assert all(0.85 * target < size < 1.25 * target for size in sizes[:-1]), [size / target for size in sizes]
    assert 0.75 * target < sizes[-1] < 1.4 * target
    assert result.effort.encoded_groups == 0


def test_row_groups_that_fit_no_file_are_split(tmp_path: Path) -> None:
    """Two of these row groups are too much for a file, and one alone would be called small: some are encoded."""
    paths = write_inputs(tmp_path, files=6, rows=10_000, groups=1)
    target = int(paths[0].stat().st_size / 0.73)
    result = run(tmp_path, paths, target=target)
    sizes = [file.file_size_in_bytes for file in result.staged]
    assert len(sizes) < 6
    assert all(0.75 * target <= size <= 1.8 * target for size in sizes)
    assert result.effort.kept_from_copying[copied_row_groups.Kept.TOO_LARGE.value] > 0
    assert result.effort.copied_groups > 0
    assert tasks.read_rows(result) == stored(paths)


def test_the_last_two_row_groups_share_a_file_that_is_not_too_large(tmp_path: Path) -> None:
    """Each alone would be called small. Together they are past the usual size of a file, but below the maximum."""
    paths = write_inputs(tmp_path, files=2, rows=10_000, groups=1)
    target = int(paths[0].stat().st_size / 0.735)
    result = run(tmp_path, paths, target=target)
    assert [file.record_count for file in result.staged] == [20_000]
    assert result.staged[0].file_size_in_bytes < 1.8 * target
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (2, 0)


def test_metrics_are_those_of_an_encoded_file(tmp_path: Path) -> None:
    table = make_rows(3000)
    scores = pa.array([float("nan") if n % 100 == 0 else n / 7 for n in range(3000)])
    table = table.set_column(2, table.schema.field(2), scores)
    path = tasks.write_input(tmp_path / "in.parquet", table, SCHEMA, row_group_size=1000, compression="zstd")
    copied = run(tmp_path / "a", [path], nan_counts=({3: 30},)).staged[0]
    encoded = run(tmp_path / "b", [path], copy=CopyMode.NEVER).staged[0]
    for name in ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds"):
        assert getattr(copied, name) == getattr(encoded, name), name
    assert copied.column_sizes.keys() == encoded.column_sizes.keys()
    assert len(copied.split_offsets) == 3
    unknown = run(tmp_path / "c", [path]).staged[0]
    assert unknown.nan_value_counts == {}
    assert unknown.lower_bounds == encoded.lower_bounds


def test_nans_of_a_file_that_is_parted_are_unknown_unless_it_has_none(tmp_path: Path) -> None:
    paths = write_inputs(tmp_path, files=2, rows=3000, groups=3)
    delete = delete_files.position_delete(tmp_path / "d", [(paths[0], 5)], sequence_number=1)
    known = run(tmp_path / "a", paths, deletes=[delete], nan_counts=({3: 0}, {3: 0})).staged[0]
    assert known.nan_value_counts == {3: 0}
    unknown = run(tmp_path / "b", paths, deletes=[delete], nan_counts=({3: 4}, {3: 0})).staged[0]
    assert unknown.nan_value_counts == {}


def test_bounds_that_footers_lack_are_those_of_manifests_if_all_rows_and_all_inputs_have_them(tmp_path: Path) -> None:
    """R24, R40, R41: of texts that are cut they stay bounds; NaN is none; and a part of a file is not the file."""
    table = Schema(
        NestedField(1, "id", LongType(), required=False),
        NestedField(2, "x", DoubleType(), required=False),
        NestedField(3, "t", StringType(), required=False),
    )
    rows = [{"id": at, "x": None if at == 4 else at / 2, "t": None if at == 5 else f"{at:020}"} for at in range(8)]
    options = {"row_group_size": 4, "compression": "zstd", "write_statistics": ["id"]}
    paths = [tasks.write_input(tmp_path / f"{name}.parquet", rows, table, **options) for name in "ab"]
    one = {2: (1, struct.pack("<f", -1.0), struct.pack("<d", 3.5)), 3: (1, b"0" * 16, b"0" * 15 + b"1")}
    two = {2: (1, struct.pack("<d", 0.0), struct.pack("<d", 7.0)), 3: (1, b"00", "0\u00e9".encode())}

    def metrics(*told: Any, **more: Any) -> tuple[dict[int, int], dict[int, bytes], dict[int, bytes]]:
        (file,) = run(tmp_path / uuid.uuid4().hex, paths[: len(told)], schema=table, told=told, **more).staged
        return file.null_value_counts, file.lower_bounds, file.upper_bounds

    ids = struct.pack("<q", 0), struct.pack("<q", 7)
    nulls, lower, upper = metrics(one, two)
    assert nulls == {1: 0, 2: 2, 3: 2}
    assert lower == {1: ids[0], 2: struct.pack("<d", -1.0), 3: b"00"}
    assert upper == {1: ids[1], 2: struct.pack("<d", 7.0), 3: "0\u00e9".encode()}
    assert metrics(one, {}) == ({1: 0}, {1: ids[0]}, {1: ids[1]})
    assert metrics(one, {2: (1, None, None), 3: (None, b"a", b"b")}) == ({1: 0, 2: 2}, {1: ids[0]}, {1: ids[1]})
    nan = {2: (1, struct.pack("<d", float("nan")), struct.pack("<d", 7.0))}
    assert metrics(nan) == ({1: 0, 2: 1}, {1: ids[0]}, {1: ids[1]})
    delete = delete_files.position_delete(tmp_path / "d", [(paths[0], 5)], sequence_number=1)
    nulls, lower, upper = metrics(one, deletes=[delete])  # half of the file is encoded, and so has bounds of its own
    assert (2 in nulls, 3 in nulls, lower.keys(), upper.keys()) == (False, False, {1}, {1})


def test_bounds_of_manifests_do_not_count_where_only_some_row_groups_have_them(tmp_path: Path) -> None:
    """PyIceberg's are those of the others, so that readers would skip the long text."""
    table = Schema(NestedField(1, "t", StringType(), required=False))
    texts = ["b", "c", "d" * 5000, "a"]
    path = tasks.write_input(
        tmp_path / "in.parquet", [{"t": text} for text in texts], table, row_group_size=2, compression="zstd"
    )
    (file,) = run(tmp_path, [path], schema=table, told=({1: (0, b"b", b"c")},)).staged
    assert (file.null_value_counts, file.lower_bounds, file.upper_bounds) == ({1: 0}, {}, {})


def test_what_is_encoded_has_its_own_bounds_whatever_the_manifest_said(tmp_path: Path) -> None:
    old = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "x", FloatType(), required=False))
    new = Schema(NestedField(1, "id", LongType(), required=False), NestedField(2, "x", DoubleType(), required=False))
    rows = [{"id": at, "x": at / 2} for at in range(1000)]
    path = tasks.write_input(tmp_path / "in.parquet", rows, old, compression="zstd", write_statistics=["id"])
    told = ({2: (5, struct.pack("<f", 100.0), struct.pack("<f", 101.0))},)
    properties = {"write.parquet.stats-enabled.column.x": "false"}
    result = run(tmp_path, [path], schema=new, told=told, nan_counts=({2: 3},), properties=properties)
    assert result.effort.copied_groups == 1
    (file,) = result.staged
    assert (file.null_value_counts[2], file.nan_value_counts[2]) == (0, 0)
    assert (file.lower_bounds[2], file.upper_bounds[2]) == (struct.pack("<d", 0.0), struct.pack("<d", 499.5))


def test_a_row_group_of_many_rows_is_copied_although_one_of_its_columns_is_encoded(tmp_path: Path) -> None:
    """Rows enough for the choice of encodings, which is made for the columns of the patch alone."""
    older = Schema(*(NestedField(3, "score", FloatType()) if field.field_id == 3 else field for field in SCHEMA.fields))
    table = make_rows(5000)
    scores = table["score"].cast(pa.float32())
    columns = arrow_schemas.file_schema(older)
    path = tasks.write_input(
        tmp_path / "in.parquet", table.set_column(2, columns.field(2), scores), older, compression="zstd"
    )
    result = run(tmp_path, [path])
    assert (result.effort.copied_groups, result.effort.encoded_groups) == (1, 0)
    (file,) = result.staged
    assert pq.read_table(file.file_path)["score"].to_pylist() == scores.cast(pa.float64()).to_pylist()


def test_a_byte_that_changes_on_the_way_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_inputs(tmp_path, files=2, rows=2000)
    whole = output_file.MixedFile.finish

    def finish(self: Any, partition: str) -> output_file.WrittenFile:
        file = whole(self, partition)
        with open(file.path, "r+b") as stream:
            stream.seek(5000)
            byte = stream.read(1)[0]
            stream.seek(5000)
            stream.write(bytes([byte ^ 1]))
        return file

    monkeypatch.setattr(output_file.MixedFile, "finish", finish)
    with pytest.raises(errors.ProofError, match="differ between the source and the copy"):
        run(tmp_path, paths, verify=ProofLevel.CHECKSUM)
    assert tasks.files_below(tmp_path) == []


def test_a_copy_that_fails_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = write_inputs(tmp_path, files=3, rows=2000)
    whole = output_file.MixedFile.copy

    def failing(self: Any, step: copied_row_groups.Copy, patch: Any, *, digest: bool) -> int:
        if step.number == 2:
            raise OSError("No space left on device")
        return whole(self, step, patch, digest=digest)

    monkeypatch.setattr(output_file.MixedFile, "copy", failing)
    with pytest.raises(errors.ExecuteError, match="No space left"):
        run(tmp_path, paths)
    assert tasks.files_below(tmp_path) == []


@examples(30)
@given(st.data())
def test_rows_are_the_same_whatever_is_copied(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    """Files of all sorts, deletes of both kinds, any least row group and target: rows come out in order, and the proof,
    which reads both sides in full, agrees."""
    root = tmp_path_factory.mktemp("random")
    paths, expected = [], []
    for number in range(data.draw(st.integers(1, 4))):
        rows = data.draw(st.integers(1, 3000))
        options = {
            "row_group_size": data.draw(st.sampled_from([100, 700, 5000])),
            "compression": data.draw(st.sampled_from(["zstd", "snappy", "none"])),
            "use_dictionary": data.draw(st.booleans()),
            "write_page_index": data.draw(st.booleans()),
            "data_page_version": data.draw(st.sampled_from(["1.0", "2.0"])),
        }
        table = make_rows(rows, first=10_000 * number)
        paths.append(tasks.write_input(root / f"in-{number}.parquet", table, SCHEMA, **options))
        expected += list(zip(range(10_000 * number, 10_000 * number + rows), stored([paths[-1]]), strict=True))
    ids = [number for number, _ in expected]
    by_key = set(data.draw(st.lists(st.sampled_from(ids), max_size=20)))
    by_place = set(data.draw(st.lists(st.sampled_from(ids), max_size=20)))
    deletes = [
        delete_files.equality_delete(
            root / "e",
            [{"id": number} for number in by_key] or [{"id": -1}],
            Schema(SCHEMA.find_field(1)),
            [1],
            sequence_number=2,
        ),
        delete_files.position_delete(
            root / "p", [(paths[number // 10_000], number % 10_000) for number in by_place], sequence_number=2
        ),
    ]
    result = run(
        root,
        paths,
        copy=data.draw(st.sampled_from([CopyMode.AUTO, CopyMode.ALWAYS])),
        least=data.draw(st.sampled_from([1, 5 * KB, 40 * KB])),
        target=data.draw(st.sampled_from([30 * KB, 200 * KB, 10_000 * KB])),
        deletes=deletes,
    )
    assert tasks.read_rows(result) == [row for number, row in expected if number not in by_key | by_place]
    groups = result.effort.copied_groups + result.effort.encoded_groups
    assert groups <= sum(pq.read_metadata(path).num_row_groups for path in paths)


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
@pytest.mark.parametrize("batch_bytes", [2**25, 20_000], ids=["whole", "batches"])
def test_texts_may_be_dictionaries_in_one_row_group_and_deltas_in_the_next(
    tmp_path: Path, encoding: str, batch_bytes: int
) -> None:
    """A copied file has row groups of several writers, and writers of version 2 give dictionaries up for deltas."""
    table = make_rows(2000).set_column(1, arrow_schemas.file_schema(SCHEMA).field("name"), [["one", "two"] * 1000])
    encodings = dict.fromkeys(("name", "tags.list.element"), encoding)
    paths = [
        tasks.write_input(tmp_path / "in-0.parquet", table, SCHEMA),
        tasks.write_input(tmp_path / "in-1.parquet", table, SCHEMA, use_dictionary=False, column_encoding=encodings),
    ]
    mixed = run(tmp_path, paths, copy=CopyMode.ALWAYS)
    assert mixed.effort.copied_groups == 2
    context = tasks.make_context(tmp_path, SCHEMA).model_copy(update={"copy_row_groups": CopyMode.NEVER})
    limits = budgets.Budgets(batch_bytes=batch_bytes)
    encoded = execute_task.rewrite(make_task([pathlib.Path(mixed.staged[0].file_path)]), context, "1", limits)
    assert tasks.read_rows(encoded) == stored(paths)
