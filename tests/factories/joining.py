"""Tasks over small files whose row groups are joined: the files, a task over them, and what came out."""

from __future__ import annotations

import math
import uuid
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, ListType, LongType, NestedField, StringType, StructType
from tests.factories import tasks

from iceberg_compaction.execute.worker import arrow_schemas, execute_task
from iceberg_compaction.model.policies import CopyMode, ProofLevel

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from iceberg_compaction.model.rewrite_task import DeleteFile, TaskResult

SCHEMA = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
    NestedField(3, "score", DoubleType(), required=False),
    NestedField(4, "place", StructType(NestedField(5, "x", FloatType(), required=False)), required=False),
    NestedField(6, "tags", ListType(7, StringType(), element_required=False), required=False),
)
METRICS = ("value_counts", "null_value_counts", "nan_value_counts", "lower_bounds", "upper_bounds")
ROWS = 200


def rows(count: int, first: int = 0) -> pa.Table:
    random_ = np.random.default_rng(first)
    scores = [math.nan if n % 50 == 7 else -0.0 if n % 50 == 8 else float(n) for n in range(first, first + count)]
    return pa.table(
        {
            "id": pa.array(np.arange(first, first + count), pa.int64()),
            "name": pa.array([None if n % 17 == 0 else f"name {n}" for n in random_.integers(0, 40, count)]),
            "score": pa.array(scores),
            "place": pa.array([None if n % 11 == 0 else {"x": float(n)} for n in random_.integers(0, 2**20, count)]),
            "tags": pa.array([[f"t{n % 5}", None][: n % 3] for n in range(count)], pa.list_(pa.string())),
        },
        schema=arrow_schemas.file_schema(SCHEMA),
    )


def write(path: Path, table: pa.Table, schema: Schema = SCHEMA, **options: Any) -> Path:
    usual = {"compression": "zstd", "use_dictionary": ["name", "tags.list.element"], "write_page_index": True}
    return tasks.write_input(path, table, schema, **{**usual, **options})


def inputs(root: Path, files: int = 4, *, groups: int = 1, **options: Any) -> list[Path]:
    return [
        write(root / f"in-{n}.parquet", rows(ROWS, n * ROWS), row_group_size=ROWS // groups, **options)
        for n in range(files)
    ]


def run(
    root: Path,
    paths: Sequence[Path],
    *,
    schema: Schema = SCHEMA,
    deletes: Sequence[DeleteFile] = (),
    target: int = 512 * 2**20,
    verify: ProofLevel = ProofLevel.DEEP,
    properties: dict[str, str] | None = None,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    partition: str = "{}",
    of_task: dict[str, Any] | None = None,
    **of_context: Any,
) -> TaskResult:
    context = tasks.make_context(root, schema, verify=verify, target=target, properties=properties, spec=spec)
    context = context.model_copy(update={"min_row_group": 2**20, **of_context})
    task = tasks.make_task(paths, partition=partition, spec_id=spec.spec_id)
    changes = {"deletes": tuple(deletes), "sequence_numbers": (1,) * len(paths), **(of_task or {})}
    return execute_task.rewrite(task.model_copy(update=changes), context, uuid.uuid4().hex)


def stored(paths: Sequence[Path]) -> list[str]:
    return [row for path in paths for row in tasks.comparable(pq.read_table(path).to_pylist())]


def efforts(result: TaskResult) -> tuple[int, int, int]:
    return result.effort.copied_groups, result.effort.joined_groups, result.effort.encoded_groups


def manifest_metrics(root: Path, paths: Sequence[Path]) -> dict[str, Any]:
    """NaNs, nulls and bounds of each input, as manifests have them."""
    whole = [run(root / f"m{n}", [path], copy_row_groups=CopyMode.NEVER).staged[0] for n, path in enumerate(paths)]
    told = tuple(
        {
            number: (file.null_value_counts[number], file.lower_bounds.get(number), file.upper_bounds.get(number))
            for number in (2, 3, 5)
        }
        for file in whole
    )
    return {"nan_counts": tuple(dict(file.nan_value_counts) for file in whole), "told": told}
