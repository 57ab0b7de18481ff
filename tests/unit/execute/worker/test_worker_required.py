"""Files that declare optional columns of the table as required, as Spark does where a query yields no nulls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.types import (
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
)
from tests.factories import tasks

from iceberg_compaction.execute.worker import arrow_schemas, execute_task
from iceberg_compaction.model.policies import CopyMode, ProofLevel
from iceberg_compaction.model.rewrite_task import TaskSection

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import TaskResult


def _schema(*, required: bool) -> Schema:
    below = NestedField(4, "x", IntegerType(), required=required)
    return Schema(
        NestedField(1, "id", LongType(), required=required),
        NestedField(2, "name", StringType(), required=required),
        NestedField(3, "place", StructType(below), required=required),
        NestedField(5, "tags", ListType(6, StringType(), element_required=required), required=required),
        NestedField(7, "marks", MapType(8, StringType(), 9, LongType(), value_required=required), required=False),
    )


_PLACE = StructType(NestedField(4, "x", IntegerType(), required=True))
_X_OPTIONAL = NestedField(4, "x", IntegerType(), required=False)
TABLE, STRICT = _schema(required=False), _schema(required=True)


def _rows(count: int, *, nulls: bool = False) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = [
        {"id": n, "name": f"name {n}", "place": {"x": n}, "tags": [f"t{n}"], "marks": [("a", n)]} for n in range(count)
    ]
    return [*rows, dict.fromkeys(rows[0])] if nulls else rows


def _write(path: Path, rows: Sequence[dict[str, Any]], schema: Schema) -> Path:
    columns = arrow_schemas.file_schema(schema)
    table = pa.table([pa.array([row[field.name] for row in rows], field.type) for field in columns], schema=columns)
    return tasks.write_input(path, table, schema, compression="zstd")


def _run(root: Path, paths: Sequence[Path], copy: CopyMode = CopyMode.ALWAYS) -> TaskResult:
    context = tasks.make_context(root, TABLE, verify=ProofLevel.DEEP)
    context = context.model_copy(update={"copy_row_groups": copy, "min_row_group": 1})
    return execute_task.rewrite(tasks.make_task(paths), context, "0")


def _required(path: str) -> frozenset[int]:
    return arrow_schemas.required_ids(pq.read_schema(path))


@pytest.mark.parametrize("copy", [CopyMode.ALWAYS, CopyMode.AUTO])
def test_their_pages_are_taken_over_and_outputs_declare_the_same(tmp_path: Path, copy: CopyMode) -> None:
    paths = [_write(tmp_path / f"{name}.parquet", _rows(500), STRICT) for name in ("a", "b")]
    result = _run(tmp_path, paths, copy)
    assert result.effort.encoded_groups == 0
    assert _required(result.staged[0].file_path) == {1, 2, 3, 4, 5, 6, 8, 9}
    assert tasks.read_rows(result) == tasks.comparable(_rows(500) * 2)


def test_outputs_declare_optional_columns_where_one_input_may_hold_nulls(tmp_path: Path) -> None:
    strict = _write(tmp_path / "a.parquet", _rows(500), STRICT)
    loose = _write(tmp_path / "b.parquet", _rows(500, nulls=True), TABLE)
    result = _run(tmp_path, [strict, loose])
    assert _required(result.staged[0].file_path) == {8}
    assert tasks.read_rows(result) == tasks.comparable([*_rows(500), *_rows(500, nulls=True)])


def test_a_column_that_one_input_lacks_stays_optional(tmp_path: Path) -> None:
    narrow = Schema(*(field for field in STRICT.fields if field.name != "name"))
    lacking = _write(tmp_path / "a.parquet", _rows(500), narrow)
    result = _run(tmp_path, [lacking, _write(tmp_path / "b.parquet", _rows(500), STRICT)])
    assert _required(result.staged[0].file_path) == {1, 3, 4, 5, 6, 8, 9}
    missing = [{**row, "name": None} for row in _rows(500)]
    assert tasks.read_rows(result) == tasks.comparable([*missing, *_rows(500)])


def test_outputs_are_as_the_table_says_where_all_is_encoded(tmp_path: Path) -> None:
    paths = [_write(tmp_path / f"{name}.parquet", _rows(500), STRICT) for name in ("a", "b")]
    result = _run(tmp_path, paths, CopyMode.NEVER)
    assert _required(result.staged[0].file_path) == {8}
    assert tasks.read_rows(result) == tasks.comparable(_rows(500) * 2)


def test_nulls_of_a_later_partition_are_kept_where_rows_move(tmp_path: Path) -> None:
    strict = _write(tmp_path / "a.parquet", _rows(50), STRICT)
    loose = _write(tmp_path / "b.parquet", _rows(50, nulls=True), TABLE)
    sections = tuple(TaskSection(spec_id=0, partition="{}", files=1) for _ in range(2))
    task = tasks.make_task([strict, loose]).model_copy(update={"sections": sections})
    result = execute_task.rewrite(task, tasks.make_context(tmp_path, TABLE, verify=ProofLevel.DEEP), "0")
    assert _required(result.staged[0].file_path) == {8}
    assert tasks.read_rows(result) == tasks.comparable([*_rows(50), *_rows(50, nulls=True)])


def test_required_fields_of_a_struct_that_is_null_are_encoded(tmp_path: Path) -> None:
    """All files have the same required field; the struct around it is null in one of them."""
    half = Schema(NestedField(1, "id", LongType(), required=False), NestedField(3, "place", _PLACE, required=False))
    whole = Schema(NestedField(1, "id", LongType(), required=False), NestedField(3, "place", _PLACE, required=True))
    rows = [{"id": n, "place": {"x": n}} for n in range(50)]
    with_null = [*rows, {"id": 50, "place": None}]
    paths = [_write(tmp_path / "a.parquet", rows, whole), _write(tmp_path / "b.parquet", with_null, half)]
    table = Schema(NestedField(1, "id", LongType()), NestedField(3, "place", StructType(_X_OPTIONAL), required=False))
    for copy in CopyMode:
        context = tasks.make_context(tmp_path, table, verify=ProofLevel.DEEP)
        context = context.model_copy(update={"copy_row_groups": copy})
        result = execute_task.rewrite(tasks.make_task(paths), context, copy.value)
        assert tasks.read_rows(result) == tasks.comparable([*rows, *with_null])
