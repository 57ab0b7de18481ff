"""Rewrite tasks on plain local directories, without a catalog: input files, the task over them and its context."""

from __future__ import annotations

import struct
import uuid
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC, PartitionSpec

from iceberg_compaction.execute.worker import arrow_schemas
from iceberg_compaction.model.policies import Policy, ProofLevel, resolve_sizes
from iceberg_compaction.model.rewrite_task import RewriteContext, RewriteTask, TaskResult

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pyiceberg.schema import Schema


def make_context(
    root: Path,
    schema: Schema,
    *,
    spec: PartitionSpec = UNPARTITIONED_PARTITION_SPEC,
    properties: dict[str, str] | None = None,
    target: int = 512 * 2**20,
    verify: ProofLevel = ProofLevel.CHECKSUM,
) -> RewriteContext:
    """The context of a run on a table at `root`/table."""
    return RewriteContext(
        run_id="5b1e",
        table="db.t",
        table_location=f"{root}/table",
        table_schema=schema.model_dump_json(),
        partition_specs={spec.spec_id: spec.model_dump_json()},
        properties=properties or {},
        sizes=resolve_sizes(Policy(target_file_size_bytes=target), {}),
        verify=verify,
    )


def make_task(paths: Sequence[Path], *, spec_id: int = 0, partition: str = "{}", task_id: int = 0) -> RewriteTask:
    """A task over existing files; sizes and record counts are taken from them."""
    return RewriteTask(
        id=task_id,
        group_id=0,
        spec_id=spec_id,
        partition=partition,
        file_paths=tuple(str(path) for path in paths),
        file_sizes=tuple(path.stat().st_size for path in paths),
        record_counts=tuple(pq.read_metadata(path).num_rows for path in paths),
    )


def write_input(path: Path, rows: Sequence[dict[str, Any]] | pa.Table, schema: Schema, **options: Any) -> Path:
    """A data file as other writers make it: field ids at every level, the schema's own names."""
    # Arrow makes no arrays of nested UUIDs out of Python values, so they are their bytes here.
    columns = pa.schema(
        [field.with_type(arrow_schemas.plain(field.type)) for field in arrow_schemas.file_schema(schema)]
    )
    table = rows if isinstance(rows, pa.Table) else pa.Table.from_pylist(list(rows), schema=columns)
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, **{"store_schema": False, **options})
    return path


def read_rows(result: TaskResult) -> list[str]:
    """The rows of a task's outputs in comparable form."""
    return [row for file in result.staged for row in comparable(pq.read_table(file.file_path).to_pylist())]


def comparable(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Rows as texts that are equal only if every value is, floats bit by bit."""
    return [repr(_canonical(row)) for row in rows]


def _canonical(value: Any) -> Any:
    if isinstance(value, float):
        return ("float", struct.pack(">d", value))
    if isinstance(value, uuid.UUID):
        return value.bytes
    if isinstance(value, dict):
        return {key: _canonical(below) for key, below in value.items()}
    if isinstance(value, (list, tuple)):
        return [_canonical(below) for below in value]
    return value


def files_below(root: Path) -> list[Path]:
    """Every file that a task may have left in the table's directory."""
    return sorted(path for path in (root / "table").rglob("*") if path.is_file())
