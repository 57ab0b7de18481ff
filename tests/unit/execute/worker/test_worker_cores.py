"""A task on several cores writes the very bytes that it writes on one."""

from __future__ import annotations

import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortDirection, SortField, SortOrder
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import DoubleType, ListType, LongType, NestedField, StringType, StructType
from tests.factories import tasks

from iceberg_compaction.execute.worker import arrow_schemas, budgets, execute_task
from iceberg_compaction.formats.parquet import encode_row_groups
from iceberg_compaction.model.policies import ProofLevel

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_task import StagedFile, TaskResult

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=False),
    NestedField(2, "word", StringType(), required=False),
    NestedField(3, "s", StructType(NestedField(4, "x", DoubleType()), NestedField(5, "y", StringType()))),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
    NestedField(8, "text", StringType(), required=False),
)
COLUMNS = arrow_schemas.file_schema(SCHEMA)
ROWS = 6000
BY_WORD = SortOrder(
    SortField(source_id=2, transform=IdentityTransform(), direction=SortDirection.DESC),
    SortField(source_id=1, transform=IdentityTransform()),
)


def write_inputs(root: pathlib.Path) -> list[pathlib.Path]:
    random = np.random.default_rng(1)
    paths = []
    for number in range(4):
        words = np.array(["a", "bb", "ccc", None])[random.integers(0, 4, ROWS)]
        texts = [f"text {value:x}" for value in random.integers(0, 10**9, ROWS)]
        pairs = pa.StructArray.from_arrays([pa.array(random.random(ROWS)), pa.array(texts)], ["x", "y"])
        tags = pa.array([[f"t{at % 7}"] * (at % 3) for at in range(ROWS)])
        columns = [pa.array(np.arange(ROWS) + number * ROWS), pa.array(words), pairs, tags, pa.array(texts)]
        table = pa.table(columns, names=COLUMNS.names).cast(COLUMNS)
        paths.append(tasks.write_input(root / f"in-{number}.parquet", table, SCHEMA, compression="snappy"))
    return paths


def rewrite(root: pathlib.Path, paths: list[pathlib.Path], cores: int, **options: Any) -> TaskResult:
    limits = dataclasses.replace(budgets.DEFAULT, cores=cores, ahead_bytes=100_000, batch_bytes=200_000)
    order = options.pop("sort_order", None)
    context = tasks.make_context(root, SCHEMA, **options).model_copy(update={"sort_order": order})
    return execute_task.rewrite(tasks.make_task(paths), context, f"on-{cores}", limits)


def contents(result: TaskResult) -> list[tuple[bytes, StagedFile]]:
    paths = [pathlib.Path(file.file_path.removeprefix("file://")) for file in result.staged]
    bare = [file.model_copy(update={"file_path": ""}) for file in result.staged]
    return [(path.read_bytes(), file) for path, file in zip(paths, bare, strict=True)]


@pytest.fixture(autouse=True)
def _nothing_is_too_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encode_row_groups, "_WORTH_IT", 0)


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="plain"),
        pytest.param({"target": 200_000, "properties": {"write.parquet.row-group-size-bytes": "60000"}}, id="many"),
        pytest.param({"properties": {"write.parquet.bloom-filter-enabled.column.text": "true"}}, id="bloom"),
        pytest.param({"sort_order": BY_WORD.model_dump_json()}, id="sorted"),
        pytest.param({"verify": ProofLevel.DEEP}, id="deep"),
    ],
)
def test_more_cores_write_the_same_bytes(tmp_path: pathlib.Path, options: dict[str, Any]) -> None:
    paths = write_inputs(tmp_path)
    single, several = (rewrite(tmp_path, paths, cores, **options) for cores in (1, 3))
    assert contents(several) == contents(single)
    assert several.proof == single.proof


def test_sorting_columns_are_those_of_the_whole_file(tmp_path: pathlib.Path) -> None:
    result = rewrite(tmp_path, write_inputs(tmp_path), 3, sort_order=BY_WORD.model_dump_json())
    metadata = pq.read_metadata(result.staged[0].file_path.removeprefix("file://"))
    assert metadata.row_group(0).sorting_columns == (
        pq.SortingColumn(1, descending=True, nulls_first=False),
        pq.SortingColumn(0, descending=False, nulls_first=True),
    )


def test_columns_are_decoded_by_as_many_threads_as_the_task_has_cores(tmp_path: pathlib.Path) -> None:
    """Spark's workers begin with one thread."""
    before = pa.cpu_count()
    try:
        pa.set_cpu_count(1)
        rewrite(tmp_path, write_inputs(tmp_path), 2)
        assert pa.cpu_count() == 2
    finally:
        pa.set_cpu_count(before)
