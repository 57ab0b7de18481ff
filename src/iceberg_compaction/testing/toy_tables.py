"""Tables for the contract suite of strategies, made of numbers alone: views of any shape, and the view after a plan. A
number comes in, always the same table goes out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from iceberg_compaction.execute.prepare import cut_tasks
from iceberg_compaction.model import row_order_terms, sizing, table_view
from iceberg_compaction.model.row_order_terms import SortTerm
from iceberg_compaction.model.table_shape import ColumnShape, TableShape

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.table_view import TableView

TARGET = 1_000_000
NOW_MS = 40 * 86_400_000
SHAPE = TableShape(
    columns=(ColumnShape(name="k", field_id=1, type="long"), ColumnShape(name="at", field_id=2, type="timestamp")),
    sort_order=(SortTerm(column="k", field_id=1),),
    sort_orders={1: (SortTerm(column="k", field_id=1),)},
)
_PIN = table_view.Pin(
    table_uuid="00000000-0000-4000-8000-000000000000",
    snapshot_id=1,
    sequence_number=1000,
    schema_id=0,
    spec_id=0,
    format_version=2,
)
_SIZES = (TARGET // 100, TARGET // 3, TARGET * 7 // 10, TARGET, TARGET * 3 // 2, 4 * TARGET)


def make(number: int, measured: str | None) -> TableView:
    """A table of up to 60 files in up to three partitions, some with bounds of the measured column, some with deletes;
    the first one is empty."""
    dice = np.random.default_rng(number)
    count = 0 if number == 0 else int(dice.integers(1, 60))
    low = dice.integers(0, 10**6, count)
    columns = {
        "file_path": [f"table-{number}/{at}.parquet" for at in range(count)],
        "partition": [f'{{"p": {part}}}' for part in dice.integers(0, 1 + number % 3, count)],
        "file_size_in_bytes": dice.choice(_SIZES, count) + dice.integers(0, 999, count),
        "sequence_number": (numbers := dice.integers(1, 5, count)),
        "file_sequence_number": numbers,
        "cluster_lower": pa.array(low, mask=(unbounded := dice.random(count) < 0.1)),
        "cluster_upper": pa.array(low + dice.integers(0, 10**5, count), mask=unbounded),
    }
    files = _files(columns, count)
    deleted = np.where(dice.random(count) < 0.2, files["record_count"].to_numpy() // 2, 0)
    has_deletes = number % 4 == 3
    return table_view.TableView(
        table="testing.table",
        pin=_PIN,
        files=files,
        manifests=1,
        snapshots=4,
        refs=1,
        clustering_column=measured,
        sorts_rows=True,
        shape=SHAPE,
        now_ms=NOW_MS,
        commits=_commits([1, 2, 3, 4]),
        delete_files=pa.array((deleted > 0).astype(np.int64)) if has_deletes else None,
        deleted_rows=pa.array(deleted) if has_deletes else None,
    )


def performed(plan: Plan, view: TableView) -> TableView:
    """The view after the plan: every task writes equal files, in the order of its rows if they are sorted."""
    gone = pc.is_in(view.files["file_path"], value_set=plan.files["file_path"].combine_chunks())
    stays = pc.invert(gone).to_numpy()
    number = int(pc.max(_numbers(view)).as_py()) + 1 if _numbers(view).length() else 1
    bounds = _bounds(view)
    written = [
        _written(task.file_paths, task.bytes, task.partition, plan, bounds) for task in cut_tasks.build_tasks(plan)
    ]
    rows = [row for outputs in written for row in outputs]
    added = {
        name: [row[name] for row in rows]
        for name in ("partition", "file_size_in_bytes", "cluster_lower", "cluster_upper")
    }
    added |= {
        "file_path": [f"after-{number}/{at}.parquet" for at in range(len(rows))],
        "sequence_number": [number] * len(rows),
        "file_sequence_number": [number] * len(rows),
    }
    files = pa.concat_tables([view.files.filter(pa.array(stays)), _files(added, len(rows))])
    sorted_by = row_order_terms.key(plan.layout.sort_terms) if plan.layout.sort_terms else None
    commits = pa.concat_tables([view.commits or _commits([]), _commits([number], sorted_by)])
    return replace(view, files=files, commits=commits, **_deletes(view, stays, len(rows)))


def _numbers(view: TableView) -> pa.ChunkedArray:
    return view.files["file_sequence_number"]


def _bounds(view: TableView) -> dict[str, tuple[int | None, int | None]]:
    lower, upper = (view.files[name].to_pylist() for name in ("cluster_lower", "cluster_upper"))
    return dict(zip(view.files["file_path"].to_pylist(), zip(lower, upper, strict=True), strict=True))


def _written(
    paths: tuple[str, ...], total: int, partition: str, plan: Plan, bounds: dict[str, tuple[int | None, int | None]]
) -> list[dict[str, Any]]:
    count = sizing.file_count(total, plan.sizes)
    lows = [low for path in paths if (low := bounds[path][0]) is not None]
    highs = [high for path in paths if (high := bounds[path][1]) is not None]
    edges: list[Any] = [None] * (count + 1)
    if lows and highs:
        edges = [min(lows) + (max(highs) - min(lows)) * at // count for at in range(count + 1)]
    return [
        {
            "partition": partition,
            "file_size_in_bytes": total // count,
            "cluster_lower": edges[at],
            "cluster_upper": edges[at + 1],
        }
        for at in range(count)
    ]


def _deletes(view: TableView, stays: NDArray[np.bool_], added: int) -> dict[str, Any]:
    """No delete applies to what was written."""
    names = ("delete_files", "deleted_rows")
    columns = {name: getattr(view, name) for name in names}
    return {
        name: None if column is None else pa.array(np.append(column.to_numpy()[stays], np.zeros(added, np.int64)))
        for name, column in columns.items()
    }


def _files(columns: dict[str, Any], count: int) -> pa.Table:
    """Rows of table_view.FILES, the rest of whose columns is filled in."""
    sizes = np.asarray(columns["file_size_in_bytes"], np.int64)
    rest = {
        "content": np.zeros(count, np.int8),
        "file_format": pa.array(["PARQUET"] * count, pa.string()).dictionary_encode(),
        "spec_id": np.zeros(count, np.int32),
        "record_count": np.maximum(2, sizes // 100),
        "encrypted": [False] * count,
    }
    given = columns | {"partition": pa.array(list(columns["partition"]), pa.string()).dictionary_encode()}
    empty = {field.name: pa.nulls(count, field.type) for field in table_view.FILES}
    return pa.table(empty | rest | given, schema=table_view.FILES)


def _commits(numbers: list[int], sorted_by: str | None = None) -> pa.Table:
    columns = {
        "sequence_number": numbers,
        "snapshot_id": numbers,
        "timestamp_ms": [number * 1000 for number in numbers],
        "rewrites": [sorted_by is not None] * len(numbers),
        "sorted_by": [sorted_by] * len(numbers),
    }
    return pa.table(columns, schema=table_view.COMMITS)
