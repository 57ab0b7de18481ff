"""A table made of arithmetic, for replays: writers add files and deletes, scans cost money, and plans of the real
planner are performed. Sizes are bytes; costs follow the same prices and constants as plans do."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from iceberg_compaction.model import table_view
from iceberg_compaction.plan import copy_or_encode
from iceberg_compaction.plan.costs import cost_model

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from iceberg_compaction.model.prices import Prices
    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan

ROW = 100  # bytes
ROW_GROUP = 128 * 2**20
PIN = {"table_uuid": "t", "snapshot_id": 1, "schema_id": 0, "spec_id": 0, "format_version": 2}
DAY_MS = 86_400_000


@dataclass(slots=True, kw_only=True)
class Table:
    """Data files as columns. `now`: days since the beginning."""

    now: float = 0.0
    sizes: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))
    row_groups: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    partition: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    sequence: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    delete_files: NDArray[np.int64] = field(default_factory=lambda: np.zeros(0, np.int64))
    deleted: NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))  # share of rows
    commits: list[tuple[int, int, bool]] = field(default_factory=list)  # sequence number, time, whether it rearranged
    last_delete: dict[int, int] = field(default_factory=dict)  # sequence number, by partition

    def append(self, sizes: Sequence[float] | NDArray[np.float64], partitions: Sequence[int] | int) -> None:
        """One commit of new data files."""
        self._add(np.asarray(sizes, np.float64), partitions, self._commit(rearranges=False))

    def delete(self, partition: int, share: float) -> None:
        """One delete file that takes this share of the rows of all files in a partition."""
        mine = self.partition == partition
        self.delete_files[mine] += 1
        self.deleted[mine] = 1 - (1 - self.deleted[mine]) * (1 - share)
        self.last_delete[partition] = self._commit(rearranges=False)

    def perform(self, plan: Plan | EmptyPlan) -> None:
        """Replace the files of the plan by files of equal size."""
        if not len(plan.groups):
            return
        rows = np.array([int(path) for path in plan.files["file_path"].to_pylist()])
        stays = np.ones(len(self.sizes), np.bool_)
        stays[rows] = False
        live = self.sizes * (1 - self.deleted)
        made: list[tuple[int, float, int, int]] = []
        for group in plan.groups.columns.to_pylist():
            mine = rows[group["first"] : group["first"] + group["files"]]
            total, kept = live[mine].sum(), group["copied_bytes"] / max(1, group["bytes"])
            row_groups = max(
                group["outputs"], int(np.ceil(group["row_groups"] * kept + total * (1 - kept) / ROW_GROUP))
            )
            size = total / group["outputs"]
            made.append((group["outputs"], size, int(self.partition[mine[0]]), max(1, row_groups // group["outputs"])))
        for name in ("sizes", "row_groups", "partition", "sequence", "delete_files", "deleted"):
            setattr(self, name, getattr(self, name)[stays])
        number = self._commit(rearranges=True)
        for count, size, partition, row_groups in made:
            self._add(np.full(count, size), partition, number, row_groups)

    def scan_cost(self, prices: Prices, weight: NDArray[np.float64] | None = None) -> float:
        """The cost of one scan, as far as the layout decides it. `weight`: the share of scans that reads each file."""
        read, second = prices.read, prices.compute(1)
        each = read + second * cost_model.FILE_SECONDS
        each = each + self.row_groups * (read + second * copy_or_encode.SCAN_SECONDS)
        each = each + self.delete_files * (read + second * cost_model.DELETE_SECONDS)
        each = each + self.sizes * self.deleted / cost_model.SCAN_RATE * second
        return float(each.sum() if weight is None else (each * weight).sum())

    def storage_cost(self, prices: Prices, days: float) -> float:
        """Of rows that are deleted, but still stored."""
        return prices.storage(float((self.sizes * self.deleted).sum()), days)

    def view(self) -> table_view.TableView:
        """What the planner sees."""
        count = len(self.sizes)
        codes, index = np.unique(self.partition, return_inverse=True)
        texts = pa.array([f'{{"p": {code}}}' for code in codes], pa.string())
        sizes = np.maximum(self.sizes, 1).astype(np.int64)
        records = np.maximum(sizes // ROW, 1)
        given = {
            "file_path": pa.array(np.arange(count)).cast(pa.string()),
            "content": np.zeros(count, np.int8),
            "file_format": pa.DictionaryArray.from_arrays(pa.array(np.zeros(count, np.int32)), ["PARQUET"]),
            "spec_id": np.zeros(count, np.int32),
            "partition": pa.DictionaryArray.from_arrays(pa.array(index.astype(np.int32)), texts),
            "record_count": records,
            "file_size_in_bytes": sizes,
            "sequence_number": self.sequence,
            "file_sequence_number": self.sequence,
            "row_groups": self.row_groups.astype(np.int32),
            "encrypted": np.zeros(count, np.bool_),
        }
        unknown = {each.name: pa.nulls(count, each.type) for each in table_view.FILES if each.name not in given}
        has_deletes = bool(self.delete_files.any())
        return table_view.TableView(
            table="bench.replayed",
            pin=table_view.Pin(**PIN, sequence_number=len(self.commits)),
            files=pa.table(given | unknown, schema=table_view.FILES),
            columns=20,
            commits=pa.table(
                {
                    "sequence_number": [number for number, _, _ in self.commits],
                    "snapshot_id": [number for number, _, _ in self.commits],
                    "timestamp_ms": [time for _, time, _ in self.commits],
                    "rewrites": [rearranges for _, _, rearranges in self.commits],
                    "sorted_by": pa.nulls(len(self.commits), pa.string()),
                },
                schema=table_view.COMMITS,
            ),
            delete_files=pa.array(self.delete_files) if has_deletes else None,
            deleted_rows=pa.array((records * self.deleted).astype(np.int64)) if has_deletes else None,
        )

    def _commit(self, *, rearranges: bool) -> int:
        number = len(self.commits) + 1
        self.commits.append((number, int(self.now * DAY_MS), rearranges))
        return number

    def _add(
        self, sizes: NDArray[np.float64], partitions: Sequence[int] | int, number: int, row_groups: int | None = None
    ) -> None:
        count = len(sizes)
        groups = (
            np.maximum(1, sizes // ROW_GROUP).astype(np.int64) if row_groups is None else np.full(count, row_groups)
        )
        self.sizes = np.append(self.sizes, sizes)
        self.row_groups = np.append(self.row_groups, groups)
        self.partition = np.append(self.partition, np.broadcast_to(np.asarray(partitions, np.int64), count))
        self.sequence = np.append(self.sequence, np.full(count, number))
        self.delete_files = np.append(self.delete_files, np.zeros(count, np.int64))
        self.deleted = np.append(self.deleted, np.zeros(count))
