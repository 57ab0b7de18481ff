"""Inventories made in memory, so that planning and health can be tested on any shape of table without one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

from iceberg_compaction.model import table_view

if TYPE_CHECKING:
    from collections.abc import Sequence

    from iceberg_compaction.model.rewrite_task import RewriteTask

PIN = table_view.Pin(
    table_uuid="1d0c5a5e-7a3c-4a4e-9f43-3a1f6f3c0001",
    snapshot_id=7,
    sequence_number=1000,
    schema_id=0,
    spec_id=0,
    format_version=2,
)


def files(
    sizes: Sequence[int],
    *,
    partitions: Sequence[str] | str = "{}",
    specs: Sequence[int] | int = 0,
    sequence: Sequence[int] | None = None,
    content: Sequence[int] | int = table_view.DATA,
    bounds: Sequence[tuple[int, int] | None] | None = None,
    row_groups: Sequence[int | None] | int | None = None,
    prefix: str = "f",
) -> pa.Table:
    """Rows of model.table.FILES; single values stand for all rows. `bounds` are those of the clustering column."""
    count = len(sizes)

    def each(value: Any) -> list[Any]:
        return list(value) if isinstance(value, (list, tuple)) else [value] * count

    columns = {
        "file_path": [f"{prefix}-{number}.parquet" for number in range(count)],
        "content": each(content),
        "file_format": pa.array(["PARQUET"] * count, pa.string()).dictionary_encode(),
        "spec_id": each(specs),
        "partition": pa.array(each(partitions), pa.string()).dictionary_encode(),
        "record_count": [max(1, size // 100) for size in sizes],
        "file_size_in_bytes": list(sizes),
        "sequence_number": list(sequence) if sequence is not None else list(range(1, count + 1)),
        "file_sequence_number": list(range(1, count + 1)),
        "sort_order_id": [None] * count,
        "row_groups": each(row_groups),
        "encrypted": [False] * count,
        "cluster_lower": [bound and bound[0] for bound in bounds or [None] * count],
        "cluster_upper": [bound and bound[1] for bound in bounds or [None] * count],
    }
    unknown = {field.name: pa.nulls(count, field.type) for field in table_view.FILES if field.name not in columns}
    return pa.table({**columns, **unknown}, schema=table_view.FILES)


def view(rows: pa.Table, **changes: Any) -> table_view.TableView:
    given = {"table": "shop.events", "pin": PIN, "files": rows, "manifests": 1, "snapshots": 1, "refs": 1}
    return table_view.TableView(**{**given, **changes})


def unsplit(tasks: Sequence[RewriteTask]) -> list[str]:
    """All input paths of some tasks, in task order."""
    return [path for task in tasks for path in task.file_paths]


def commits(times_ms: Sequence[int]) -> pa.Table:
    """Commits at these times, numbered from 1 on, none of them a rewrite (model.table_view.COMMITS)."""
    numbers = list(range(1, len(times_ms) + 1))
    columns = {"sequence_number": numbers, "snapshot_id": numbers, "timestamp_ms": list(times_ms)}
    rest = {"rewrites": [False] * len(numbers), "sorted_by": pa.nulls(len(numbers), pa.string())}
    return pa.table(columns | rest, schema=table_view.COMMITS)
