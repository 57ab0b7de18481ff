"""Output files: sizes, the table's writer settings, where they go, and that a failed task leaves nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import BinaryType, DoubleType, LongType, NestedField, StringType, StructType
from tests.factories import tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task, source
from iceberg_compaction.execute.worker.output import locations, output_file, rolling_writer
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
    NestedField(3, "noise", BinaryType(), required=False),
    NestedField(4, "s", StructType(NestedField(5, "x", DoubleType(), required=False)), required=False),
)


def _table(rows: int, seed: int = 0, noise: int = 40) -> pa.Table:
    random = np.random.default_rng(seed)
    words = np.array(["alpha", "beta", "gamma"])[random.integers(0, 3, rows)]
    blob = random.bytes(rows * noise)
    return pa.table(
        {
            "id": np.arange(rows) + seed * rows,
            "word": pa.array(words),
            "noise": pa.array([blob[at * noise : (at + 1) * noise] for at in range(rows)], pa.binary()),
            "s": pa.StructArray.from_arrays([pa.array(random.random(rows))], ["x"]),
        }
    )


def _inputs(root: Path, files: int, rows: int, noise: int = 40, **options: Any) -> list[Path]:
    columns = arrow_schemas.file_schema(SCHEMA)
    return [
        tasks.write_input(
            root / f"in-{seed}.parquet",
            _table(rows, seed, noise).cast(columns),
            SCHEMA,
            **{"compression": "zstd", **options},
        )
        for seed in range(files)
    ]


def _rewrite(
    root: Path, paths: list[Path], attempt: str = "0", limits: budgets.Budgets = budgets.DEFAULT, **options: Any
) -> Any:
    copying = {"copy_row_groups": options.pop("copy", CopyMode.AUTO)}
    context = tasks.make_context(root, SCHEMA, **options).model_copy(update=copying)
    return execute_task.rewrite(tasks.make_task(paths), context, attempt, limits)


@pytest.mark.parametrize(
    ("codec_in", "codec_out", "noise"),
    [
        ("zstd", "zstd", 40),
        ("zstd", "zstd", 2),
        ("none", "zstd", 2),
        ("zstd", "uncompressed", 8),
        ("gzip", "snappy", 40),
    ],
)
def test_files_come_out_at_the_target_size(tmp_path: Path, codec_in: str, codec_out: str, noise: int) -> None:
    level = {"compression_level": 1} if codec_in == "gzip" else {}
    paths = _inputs(tmp_path, files=20, rows=12_000, noise=noise, compression=codec_in, **level)
    whole = _rewrite(tmp_path, paths, "whole", properties={"write.parquet.compression-codec": codec_out})
    assert len(whole.staged) == 1
    target = whole.bytes_written // 5  # five files fit exactly, whatever the codec makes of the rows
    result = _rewrite(tmp_path, paths, target=target, properties={"write.parquet.compression-codec": codec_out})
    sizes = [file.file_size_in_bytes for file in result.staged]
    assert len(sizes) in (5, 6)
    assert all(abs(size - target) <= 0.2 * target for size in sizes), (target, sizes)
    assert sum(file.record_count for file in result.staged) == 240_000
    ids = np.concatenate([pq.read_table(file.file_path, columns=["id"])["id"].to_numpy() for file in result.staged])
    assert (ids == np.arange(240_000)).all()


def test_a_tiny_rest_is_no_file_of_its_own(tmp_path: Path) -> None:
    paths = _inputs(tmp_path, files=4, rows=5000)
    total = sum(path.stat().st_size for path in paths)
    for share in (0.34, 0.49, 0.52, 0.97, 1.02, 1.2):
        result = _rewrite(tmp_path, paths, str(share), target=int(total * share))
        sizes = [file.file_size_in_bytes for file in result.staged]
        assert min(sizes) > 0.6 * total * share or len(sizes) == 1, (share, sizes)
        assert max(sizes) < 1.8 * total * share, (share, sizes)


def test_row_groups_follow_the_table(tmp_path: Path) -> None:
    paths = _inputs(tmp_path, files=10, rows=10_000)
    size = 400_000
    properties = {"write.parquet.row-group-size-bytes": str(size)}
    result = _rewrite(tmp_path, paths, properties=properties, copy=CopyMode.NEVER)
    metadata = pq.read_metadata(result.staged[0].file_path)
    groups = [
        sum(metadata.row_group(group).column(column).total_compressed_size for column in range(metadata.num_columns))
        for group in range(metadata.num_row_groups)
    ]
    assert len(groups) > 5
    assert all(abs(group - size) <= 0.15 * size for group in groups[1:-1]), groups
    assert max(groups) <= 1.15 * size
    assert len(result.staged[0].split_offsets) == len(groups)


def test_memory_is_bounded_by_arrow_bytes_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that compress to nothing would otherwise pile up until a row group's worth of them is there."""
    most = 0
    whole = rolling_writer.RollingWriter.write

    def watched(self: rolling_writer.RollingWriter, batch: pa.RecordBatch) -> None:
        nonlocal most
        whole(self, batch)
        most = max(most, self.buffered_bytes)

    monkeypatch.setattr(rolling_writer.RollingWriter, "write", watched)
    paths = _inputs(tmp_path, files=10, rows=5000, noise=0)
    result = _rewrite(tmp_path, paths, limits=budgets.Budgets(buffer_bytes=200_000))
    assert len(result.staged) == 1
    assert pq.read_metadata(result.staged[0].file_path).num_row_groups > 2
    assert most < 200_000


def test_large_files_are_read_in_bounded_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = budgets.Budgets(whole_file_bytes=1000, batch_bytes=100_000, buffered_row_group_bytes=1000)
    paths = _inputs(tmp_path, files=2, rows=10_000, row_group_size=4000)
    sizes = []
    whole = source.project_rows

    def watched(raw: Any, prepared: Any) -> Any:
        for batch in whole(raw, prepared):
            sizes.append(batch.nbytes)
            yield batch

    monkeypatch.setattr(source, "project_rows", watched)
    result = _rewrite(tmp_path, paths, limits=limits, verify=ProofLevel.DEEP, copy=CopyMode.NEVER)
    assert result.proof.source.rows == 20_000
    assert len(sizes) > 10
    assert max(sizes) < 300_000


def test_bad_settings_are_refused_before_anything_is_written(tmp_path: Path) -> None:
    paths = _inputs(tmp_path, 1, 10)
    for properties in [
        {"write.parquet.compression-codec": "lzo"},
        {"write.parquet.page-size-bytes": "many"},
        {"write.format.default": "orc"},
        {"write.location-provider.impl": "org.acme.Provider"},
        {"write.parquet.page-row-limit": "0"},
        {"write.parquet.page-version": "v3"},
        {"write.parquet.bloom-filter-enabled.column.id": "true", "write.parquet.bloom-filter-fpp.column.id": "1"},
        {"write.folder-storage.path": "/elsewhere"},
    ]:
        with pytest.raises(errors.UnsupportedError):
            _rewrite(tmp_path, paths, properties=properties)
        assert tasks.files_below(tmp_path) == []


def test_missing_and_damaged_inputs_are_named_before_anything_is_written(tmp_path: Path) -> None:
    good, other = _inputs(tmp_path, 2, 100)
    context = tasks.make_context(tmp_path, SCHEMA)
    task = tasks.make_task([good, other])
    damages: list[tuple[Any, str]] = [
        (lambda: other.write_bytes(other.read_bytes()[:-5]), r"in-1\.parquet is not readable"),
        (lambda: other.write_bytes(b""), r"in-1\.parquet is not readable"),
        (lambda: pq.write_table(_table(99).cast(arrow_schemas.file_schema(SCHEMA)), other), "99 rows where .* 100"),
        (other.unlink, r"in-1\.parquet is missing"),
    ]
    for damage, words in damages:
        damage()
        with pytest.raises(errors.ExecuteError, match=words):
            execute_task.rewrite(task, context, "0")
        assert tasks.files_below(tmp_path) == []


def test_an_input_that_breaks_off_midway_leaves_nothing(tmp_path: Path) -> None:
    paths = _inputs(tmp_path, 6, 5000)
    data = bytearray(paths[4].read_bytes())
    data[len(data) // 2 : len(data) // 2 + 200] = bytes(200)
    paths[4].write_bytes(data)
    with pytest.raises(errors.ExecuteError, match=r"in-4\.parquet"):
        _rewrite(tmp_path, paths, target=300_000, properties={"write.parquet.row-group-size-bytes": "100000"})
    assert tasks.files_below(tmp_path) == []


def test_a_writer_that_fails_midway_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = _inputs(tmp_path, 6, 5000)
    whole = output_file.MixedFile.write

    def failing(self: Any, table: pa.Table) -> int:
        if "-00002" in self.path:
            raise OSError("No space left on device")
        return whole(self, table)

    monkeypatch.setattr(output_file.MixedFile, "write", failing)
    with pytest.raises(errors.ExecuteError, match="No space left"):
        _rewrite(tmp_path, paths, target=300_000, copy=CopyMode.NEVER)
    assert tasks.files_below(tmp_path) == []


def test_attempts_never_collide_and_an_existing_file_is_not_ours(tmp_path: Path) -> None:
    """R45."""
    paths = _inputs(tmp_path, 2, 100)
    first, second = _rewrite(tmp_path, paths, "0"), _rewrite(tmp_path, paths, "1")
    assert first.staged[0].file_path != second.staged[0].file_path
    with pytest.raises(errors.ExecuteError, match="exists"):
        _rewrite(tmp_path, paths, "0")
    assert [str(path) for path in tasks.files_below(tmp_path)] == [
        first.staged[0].file_path,
        second.staged[0].file_path,
    ]


def test_files_that_cannot_be_removed_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyiceberg.io.pyarrow import PyArrowFileIO

    def refuse(self: Any, location: Any) -> None:
        raise PermissionError("no")

    monkeypatch.setattr(PyArrowFileIO, "delete", refuse)
    monkeypatch.setattr(source, "project_rows", lambda raw, prepared: (rows.batch.slice(1) for rows in raw))
    paths = _inputs(tmp_path, 1, 100)
    with pytest.raises(errors.ExecuteError, match="could not be removed"):
        _rewrite(tmp_path, paths)


def test_no_rows_make_no_files(tmp_path: Path) -> None:
    result = _rewrite(tmp_path, _inputs(tmp_path, 2, 0), verify=ProofLevel.DEEP)
    assert result.staged == ()
    assert result.proof.failures == ()
    assert tasks.files_below(tmp_path) == []


def test_names_hold_task_attempt_run_and_count(tmp_path: Path) -> None:
    context = tasks.make_context(tmp_path, SCHEMA)
    task = tasks.make_task([], task_id=12)
    paths = locations.output_locations(task, context, "3-x", "")
    assert paths.path(4) == f"{tmp_path}/table/data/00012-3-x-5b1e-00004.parquet"
