"""Tables of keys alone, to plan strategies that sort: a file is a list of values of the leading column, its bounds
follow from them, and a simulated writer sorts whole groups and divides them as the worker does."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from tests.factories import inventories

from iceberg_compaction.model import row_order_terms, sizing, table_view
from iceberg_compaction.model.file_group import GroupReason
from iceberg_compaction.model.row_order_terms import SortTerm
from iceberg_compaction.model.table_shape import ColumnShape, TableShape

if TYPE_CHECKING:
    from iceberg_compaction.model.rewrite_plan import Plan
    from iceberg_compaction.model.table_view import TableView

ROW = 1000  # bytes
ORDER = 1  # id of the table's sort order
BY_KEY = (SortTerm(column="k", field_id=1),)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedFile:
    """A data file."""

    path: str
    keys: tuple[int | None, ...]
    partition: str = "{}"
    sequence: int = 1
    order_id: int | None = None
    row_bytes: float = ROW

    @property
    def size(self) -> int:
        return max(1, int(len(self.keys) * self.row_bytes))

    @property
    def bounds(self) -> tuple[int, int] | None:
        values = [key for key in self.keys if key is not None]
        return (min(values), max(values)) if values else None


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTable:
    """Files and the snapshots that added them."""

    files: tuple[KeyedFile, ...]
    shape: TableShape = field(
        default_factory=lambda: TableShape(
            columns=(ColumnShape(name="k", field_id=1, type="long"),), sort_order=BY_KEY, sort_orders={ORDER: BY_KEY}
        )
    )
    sorted_by: dict[int, str | None] = field(default_factory=lambda: {1: None})  # of each sequence number
    measured: str | None = "k"
    now_ms: int = 0
    writes_order: bool = True  # entries name the table's order; else only snapshots tell

    def view(self) -> TableView:
        rows = inventories.files(
            [file.size for file in self.files],
            partitions=[file.partition for file in self.files],
            sequence=[file.sequence for file in self.files],
            bounds=[file.bounds for file in self.files],
        )
        columns = {
            "file_path": pa.array([file.path for file in self.files], pa.string()),
            "record_count": pa.array([max(1, len(file.keys)) for file in self.files], pa.int64()),
            "file_sequence_number": pa.array([file.sequence for file in self.files], pa.int64()),
            "sort_order_id": pa.array([file.order_id for file in self.files], pa.int32()),
        }
        for name, column in columns.items():
            rows = rows.set_column(rows.column_names.index(name), table_view.FILES.field(name), column)
        numbers = sorted(self.sorted_by)
        commits = {
            "sequence_number": numbers,
            "snapshot_id": [100 + number for number in numbers],
            "timestamp_ms": [number * 1000 for number in numbers],
            "rewrites": [self.sorted_by[number] is not None for number in numbers],
            "sorted_by": [self.sorted_by[number] for number in numbers],
        }
        return inventories.view(
            rows,
            shape=self.shape,
            clustering_column=self.measured,
            now_ms=self.now_ms,
            commits=pa.table(commits, schema=table_view.COMMITS),
        )

    def after(self, plan: Plan, ratio: float = 1.0) -> KeyedTable:
        """The table after the plan: each group is sorted as a whole and divided equally."""
        by_path, number = {file.path: file for file in self.files}, max(self.sorted_by) + 1
        gone, added = set(plan.files["file_path"].to_pylist()), []
        for group in plan.groups:
            inputs = [by_path[path] for path in plan.files_of(group)["file_path"].to_pylist()]
            sizes = plan.layout.cold if group.reason is GroupReason.COLD and plan.layout.cold else plan.sizes
            keys = sorted((key for file in inputs for key in file.keys), key=lambda key: (key is not None, key or 0))
            row_bytes = ratio * sum(file.size for file in inputs) / max(1, len(keys))
            count = sizing.file_count(int(len(keys) * row_bytes), sizes)
            cuts = [len(keys) * at // count for at in range(count + 1)]
            added += [
                KeyedFile(
                    path=f"s{number}-{group.id}-{at}",
                    keys=tuple(keys[cuts[at] : cuts[at + 1]]),
                    partition=inputs[0].partition,
                    sequence=number,
                    order_id=ORDER if self.writes_order else 0,
                    row_bytes=row_bytes,
                )
                for at in range(count)
            ]
        stays = [file for file in self.files if file.path not in gone]
        mark = row_order_terms.key(plan.layout.sort_terms)
        return replace(self, files=(*stays, *added), sorted_by={**self.sorted_by, number: mark})
