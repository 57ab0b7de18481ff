"""Deletes of a task: where they come from, what they mean, and what is said when they cannot be applied."""

from __future__ import annotations

import struct
import threading
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, IntegerType, LongType, NestedField, StringType
from tests.factories import delete_files, tasks

from iceberg_compaction import errors
from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.execute.worker.deletes import delete_cache, equality_keys, key_columns, load_deletes, positions
from iceberg_compaction.execute.worker.input import read_files
from iceberg_compaction.execute.worker.proof import checksum
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import DeleteFile, RewriteContext, TaskResult

ID = NestedField(1, "id", LongType(), required=True)
SCHEMA = Schema(ID, NestedField(2, "name", StringType()))


def _rows(count: int, first: int = 0) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number % 10}"} for number in range(first, first + count)]


def _ids(result: TaskResult) -> list[int]:
    return [row for file in result.staged for row in pq.read_table(file.file_path)["id"].to_pylist()]


def _run(
    root: Path,
    paths: Sequence[Path],
    deletes: Sequence[DeleteFile],
    *,
    sequences: Sequence[int] = (),
    context: RewriteContext | None = None,
    partition: str = "{}",
    limits: budgets.Budgets = budgets.DEFAULT,
) -> TaskResult:
    update = {"sequence_numbers": tuple(sequences or [1] * len(paths)), "deletes": tuple(deletes)}
    task = tasks.make_task(paths, partition=partition).model_copy(update=update)
    return execute_task.rewrite(task, context or tasks.make_context(root, SCHEMA), uuid.uuid4().hex, limits)


def test_r20_positions_count_from_the_start_of_the_file_over_all_row_groups(tmp_path: Path) -> None:
    """R20."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(100), SCHEMA, row_group_size=13)
    gone = [0, 12, 13, 26, 98, 99]
    delete = delete_files.position_delete(tmp_path / "d", [(data, at) for at in gone], sequence_number=1)
    result = _run(tmp_path, [data], [delete], limits=budgets.Budgets(batch_rows=7))
    assert _ids(result) == [number for number in range(100) if number not in gone]
    assert result.proof.deleted_rows == 6


def test_r20_r26_positions_of_a_partition_in_many_files_and_row_groups(tmp_path: Path) -> None:
    """R20, R26: paths of other files do not matter, nor order, repetition and positions beyond the end."""
    data = [tasks.write_input(tmp_path / f"{at}.parquet", _rows(10, 10 * at), SCHEMA) for at in range(3)]
    first = [(data[2], 9), (data[0], 5), ("gone.parquet", 1), (data[0], 5), (data[1], 10), (data[1], 2**40)]
    deletes = [
        delete_files.position_delete(tmp_path / "1", first, sequence_number=1, row_group_size=2),
        delete_files.position_delete(tmp_path / "2", [(data[0], 5), (data[0], 6)], sequence_number=1),
        delete_files.position_delete(tmp_path / "3", [(data[1], at) for at in range(10)], sequence_number=1),
    ]
    result = _run(tmp_path, data, deletes, sequences=[1, 2, 1])
    assert _ids(result) == [*range(5), 7, 8, 9, *range(10, 29)]  # the second file is newer than all deletes


def test_a_file_whose_rows_are_all_deleted_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = [tasks.write_input(tmp_path / f"{at}.parquet", _rows(10, 10 * at), SCHEMA) for at in range(2)]
    delete = delete_files.position_delete(tmp_path / "d", [(data[0], at) for at in range(10)], sequence_number=1)
    opened = []
    whole = read_files.DataFileReader._open
    monkeypatch.setattr(
        read_files.DataFileReader, "_open", lambda self, footer: opened.append(footer.path) or whole(self, footer)
    )
    result = _run(tmp_path, data, [delete])
    assert _ids(result) == list(range(10, 20))
    assert str(data[0]) not in opened
    assert result.proof.deleted_rows == 10


@pytest.mark.parametrize("kind", ["position", "equality"])
def test_r9_when_every_row_is_deleted_no_file_is_written(tmp_path: Path, kind: str) -> None:
    """R9: zero files, and a proof that holds."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(10), SCHEMA)
    if kind == "position":
        delete = delete_files.position_delete(tmp_path / "d", [(data, at) for at in range(10)], sequence_number=2)
    else:
        delete = delete_files.equality_delete(
            tmp_path / "d", [{"id": at} for at in range(10)], Schema(ID), [1], sequence_number=2
        )
    context = tasks.make_context(tmp_path, SCHEMA, verify=ProofLevel.DEEP)
    result = _run(tmp_path, [data], [delete], context=context)
    assert result.staged == ()
    assert result.proof.failures == ()
    assert (result.proof.expected_rows, result.proof.deleted_rows, result.proof.source.rows) == (10, 10, 0)
    assert tasks.files_below(tmp_path) == []


def test_r2_equality_deletes_reach_older_files_only(tmp_path: Path) -> None:
    """R2: strictly lower sequence numbers; of the same key in two deletes the newest counts."""
    data = [tasks.write_input(tmp_path / f"{at}.parquet", _rows(3), SCHEMA) for at in range(3)]
    deletes = [
        delete_files.equality_delete(tmp_path / "old", [{"id": 0}, {"id": 1}], Schema(ID), [1], sequence_number=2),
        delete_files.equality_delete(tmp_path / "new", [{"id": 1}], Schema(ID), [1], sequence_number=3),
    ]
    assert _ids(_run(tmp_path, data, deletes, sequences=[1, 2, 3])) == [2, 0, 2, 0, 1, 2]


def test_r20_r22_equality_deletes_of_several_sets_and_positions_on_one_file(tmp_path: Path) -> None:
    """R22: sets are OR-ed, columns of a set AND-ed, and columns that are not compared do not matter."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(20), SCHEMA)
    whole = [{"id": 3, "name": "n3"}, {"id": 4, "name": "other"}]
    deletes = [
        delete_files.equality_delete(tmp_path / "1", whole, SCHEMA, [2, 1], sequence_number=2),
        delete_files.equality_delete(tmp_path / "2", [{"id": 99, "name": "n5"}], SCHEMA, [2], sequence_number=2),
        delete_files.position_delete(tmp_path / "3", [(data, 5), (data, 19)], sequence_number=2),
    ]
    assert _ids(_run(tmp_path, [data], deletes)) == [at for at in range(19) if at not in (3, 5, 15)]


def test_r23_r28_a_key_that_files_lack_is_the_partition_value_or_the_initial_default(tmp_path: Path) -> None:
    """R23, R27."""
    short = Schema(ID)
    table = Schema(
        ID,
        NestedField(2, "region", StringType()),
        NestedField(3, "level", IntegerType(), initial_default=7, write_default=7),
        NestedField(4, "note", StringType()),
    )
    spec = PartitionSpec(PartitionField(2, 1000, IdentityTransform(), "region"), spec_id=0)
    data = tasks.write_input(tmp_path / "a.parquet", [{"id": 1}, {"id": 2}], short)
    context = tasks.make_context(tmp_path, table, spec=spec)
    full = {"id": 1, "region": "eu", "level": 7, "note": None}
    for place, (changed, left) in enumerate(
        [({}, [2]), ({"region": "us"}, [1, 2]), ({"level": None}, [1, 2]), ({"note": "x"}, [1, 2])]
    ):
        delete = delete_files.equality_delete(
            tmp_path / f"{place}", [full | changed], table, [1, 2, 3, 4], sequence_number=2
        )
        assert _ids(_run(tmp_path, [data], [delete], context=context, partition='{"region":"eu"}')) == left


def test_r22_keys_of_floats_compare_as_java_does(tmp_path: Path) -> None:
    """R22: NaN is NaN whatever its bits, and -0.0 is not 0.0."""
    schema = Schema(ID, NestedField(2, "x", DoubleType()))
    odd = struct.unpack("<d", struct.pack("<Q", 0xFFF8_0000_0000_0123))[0]
    values = np.array([0.0, -0.0, odd, 1.0, np.nan])
    table = pa.table([pa.array(range(5)), pa.array(values)], schema=arrow_schemas.file_schema(schema))
    data = tasks.write_input(tmp_path / "a.parquet", table, schema)
    deleted = [{"id": 0, "x": -0.0}, {"id": 0, "x": float("nan")}]
    delete = delete_files.equality_delete(tmp_path / "d", deleted, schema, [2], sequence_number=2)
    assert _ids(_run(tmp_path, [data], [delete], context=tasks.make_context(tmp_path, schema))) == [0, 3]


def test_a_key_in_dictionaries_is_found(tmp_path: Path) -> None:
    """R22: what is a dictionary in one file and plain text in the next is the same key."""
    rows = [{"id": at, "name": None if at % 7 == 0 else f"n{at % 5}"} for at in range(2000)]
    other = [{"id": at, "name": f"text that differs in every row {at}"} for at in range(2000, 2500)]
    for order in (1, -1):
        paths = [
            tasks.write_input(tmp_path / f"{order}-1.parquet", rows, SCHEMA),
            tasks.write_input(tmp_path / f"{order}-2.parquet", other, SCHEMA, use_dictionary=False),
        ][: 1 + (order == 1)]
        deleted = [{"id": 0, "name": "n3"}, {"id": 0, "name": None}, {"id": 0, "name": other[7]["name"]}]
        delete = delete_files.equality_delete(tmp_path / f"{order}", deleted, SCHEMA, [2], sequence_number=2)
        alive = [row["id"] for row in [*rows, *other] if row["name"] not in ("n3", None, other[7]["name"])]
        assert _ids(_run(tmp_path, paths, [delete])) == [at for at in alive if order == 1 or at < 2000]


def test_r23_a_dropped_key_of_another_type_is_refused(tmp_path: Path) -> None:
    """R23: a file whose values cannot be compared is not taken for one without matches."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(3), SCHEMA)
    table = Schema(ID)
    lost = NestedField(2, "name", LongType())
    delete = delete_files.equality_delete(tmp_path / "d", [{"name": 1}], Schema(lost), [2], sequence_number=2)
    context = tasks.make_context(tmp_path, table).model_copy(update={"delete_fields": {2: lost.model_dump_json()}})
    with pytest.raises(errors.UnsupportedError, match=r"a.parquet cannot be rewritten: Column name .* is long"):
        _run(tmp_path, [data], [delete], context=context)


def test_keys_that_share_a_hash_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The worst hash there is: values decide, whatever the hash says."""
    monkeypatch.setattr(
        key_columns.KeyColumns, "hashes", lambda *_: lambda start, stop: np.full(stop - start, 5, np.uint64)
    )
    field = key_columns.KeyField(field_id=1, name="id", kind=LongType(), missing=pa.nulls(1, pa.int64()))
    schema = pa.schema([field.stored])
    parts = [
        (2, pa.record_batch([pa.array([1, 1, 2, None, 2])], schema)),
        (3, pa.record_batch([pa.array([2, 4])], schema)),
    ]
    index = equality_keys.EqualityIndex([field], parts)
    batch = pa.record_batch([pa.array([0, 1, 2, None, 4, 5])], schema)
    columns = key_columns.KeyColumns([field], schema)
    assert sorted(set(index.find(columns, batch, 1).tolist())) == [1, 2, 3, 4]
    assert sorted(set(index.find(columns, batch, 2).tolist())) == [2, 4]
    assert index.find(columns, batch, 3).tolist() == []


def test_an_index_of_many_keys_finds_them_all() -> None:
    field = key_columns.KeyField(field_id=1, name="id", kind=LongType(), missing=pa.nulls(1, pa.int64()))
    schema = pa.schema([field.stored])
    numbers = np.random.default_rng(3).integers(0, 400_000, 200_000)
    index = equality_keys.EqualityIndex([field], [(2, pa.record_batch([pa.array(numbers)], schema))])
    rows = np.arange(3 * checksum.CHUNK)
    found = index.find(key_columns.KeyColumns([field], schema), pa.record_batch([pa.array(rows)], schema), 1)
    assert np.array_equal(np.sort(found), np.intersect1d(numbers, rows))


def test_delete_files_that_travel_with_the_run_are_not_read_from_storage(tmp_path: Path) -> None:
    """Q20."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(5), SCHEMA)
    path = tmp_path / "d"
    deletes = [delete_files.position_delete(path, [(data, 1)], sequence_number=1)]
    context = tasks.make_context(tmp_path, SCHEMA).model_copy(
        update={"delete_contents": {str(path): path.read_bytes()}}
    )
    path.unlink()
    assert _ids(_run(tmp_path, [data], deletes, context=context)) == [0, 2, 3, 4]


def test_a_delete_file_is_read_once_by_all_tasks_of_a_process(tmp_path: Path) -> None:
    """Q20."""
    data = tasks.write_input(tmp_path / "a.parquet", _rows(5), SCHEMA)
    path = tmp_path / "d"
    delete = delete_files.position_delete(path, [(data, 1)], sequence_number=1)
    assert _ids(_run(tmp_path, [data], [delete])) == [0, 2, 3, 4]
    path.unlink()
    assert _ids(_run(tmp_path, [data], [delete])) == [0, 2, 3, 4]


def test_the_cache_loads_once_and_forgets_what_was_used_longest_ago() -> None:
    batch = pa.record_batch([pa.array([1, 2, 3, 4])], ["x"])  # 32 bytes
    kept, loads = delete_cache.DeleteCache(budget=70), []

    def get(name: str) -> None:
        kept.get((name, 0), lambda: loads.append(name) or [batch])

    threads = [threading.Thread(target=get, args=("a",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for name in ("b", "a", "c", "a", "b"):
        get(name)
    assert loads == ["a", "b", "c", "b"]


def test_a_large_delete_file_is_streamed_and_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "d.parquet"
    delete = delete_files.position_delete(path, [("x", at) for at in range(1000)], sequence_number=1)
    reader = load_deletes.DeleteReader(
        io=None,  # type: ignore[arg-type]
        contents={str(path): path.read_bytes()},
        cache=delete_cache.DeleteCache(budget=1000),
    )
    dead = positions.DeadRows([1000])
    task = tasks.make_task([]).model_copy(update={"file_paths": ("x",), "sequence_numbers": (1,)})
    positions.mark(dead, task, [delete], reader)
    assert dead.count(0) == 1000
    assert not reader.cache._held


@pytest.mark.parametrize("file_format", ["PARQUET", "AVRO", "ORC"])
def test_a_damaged_delete_file_is_named(tmp_path: Path, file_format: delete_files.Format) -> None:
    data = tasks.write_input(tmp_path / "a.parquet", _rows(5), SCHEMA)
    path = tmp_path / "d"
    delete = delete_files.position_delete(path, [(data, 1)], sequence_number=1, file_format=file_format)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(errors.CompactionError, match=f"^Delete file {path} (is not readable|cannot be applied): "):
        _run(tmp_path, [data], [delete])
    assert tasks.files_below(tmp_path) == []


def test_what_is_wrong_with_deletes_is_said_in_one_sentence(tmp_path: Path) -> None:
    data = tasks.write_input(tmp_path / "a.parquet", _rows(5), SCHEMA)
    path = tmp_path / "d"
    delete = delete_files.equality_delete(path, [{"id": 1}], Schema(ID), [1], sequence_number=2)
    cases = [
        ({"record_count": 2}, "d cannot be applied: it has 1 records where the manifest says 2"),
        ({"file_path": f"{path}-gone"}, "Delete file .*d-gone is missing"),
        ({"equality_ids": (1, 2)}, r"it lacks name \(field id 2\), which its deletes compare"),
        ({"equality_ids": (77,)}, "compare field id 77, which no schema of the table has"),
        ({"equality_ids": ()}, "does not say which fields it compares"),
        ({"file_format": "PUFFIN"}, "deletes in PUFFIN cannot be read yet"),
    ]
    for update, sentence in cases:
        delete_cache.PROCESS._held.clear()
        with pytest.raises(errors.CompactionError, match=sentence):
            _run(tmp_path, [data], [delete.model_copy(update=update)])
    with pytest.raises(errors.ExecuteError, match="does not say how old its files are"):
        execute_task.rewrite(
            tasks.make_task([data]).model_copy(update={"deletes": (delete,)}), tasks.make_context(tmp_path, SCHEMA), "a"
        )
