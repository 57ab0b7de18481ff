"""The read-side guard: a table is not packed into fewer files and row groups than its readers can use side by side.
Sizes and a table come in; out go smaller sizes, or the word that nothing is merged, and why.

A unit of a reader is a row group, or a file where that is smaller. With N readers and P partitions that hold data:
1. P >= N: every partition keeps a file, so that there is nothing to guard.
2. The table has at most 3 N + `min-input-files` x P units: small files are left alone.
3. The sizes of the policy would leave fewer than N units: bytes / N is the target, and half of it the minimum.

Fixed point: a rewrite by 3 leaves at most 2.4 N units of at least the minimum, if the table grows by a fifth at most,
and in each partition a rest and fewer small files than `min-input-files`. So the second rule holds for the next run,
which counts units and not bytes. After a rewrite by the policy's own sizes, the third rule finds no more small files
than these sizes did, and the number of bytes that makes a group enough stays that of the policy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import byte_size, table_view
from iceberg_compaction.model.policies import DEFAULT_MIN_ROW_GROUP, Sizes
from iceberg_compaction.plan import candidates, copy_or_encode

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView

LEAST = DEFAULT_MIN_ROW_GROUP  # bytes; a smaller unit costs a reader more than it gains
PLENTY = 3  # times the readers


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGuard:
    """What is done for parallel readers."""

    sizes: Sizes  # that leave enough for them
    without: Sizes  # that the policy and the table ask for
    parallelism: int
    bytes: int  # of the table's data files
    units: int  # files and row groups that it has now
    declines: bool  # nothing is merged

    @property
    def reason(self) -> str:
        """Why, without a full stop."""
        if self.declines:
            return f"read-parallelism is {self.parallelism}, and the table has only {self.units:,} files and row groups"
        return (
            f"read-parallelism is {self.parallelism}, and the table has {byte_size.format_size(self.bytes)}, so that "
            f"files of {byte_size.format_size(self.without.target)} would be too few"
        )

    @property
    def note(self) -> str:
        """The sentence for the plan; where nothing is merged, the files that are left out have it."""
        return f"The target is {byte_size.format_size(self.sizes.target)} instead: {self.reason}."


def fit(sizes: Sizes, view: TableView, policy: Policy) -> ReadGuard | None:
    """The guard for a table; None: there is no limit, or the sizes keep it."""
    readers = policy.read_parallelism
    is_data = view.files["content"].to_numpy() == table_view.DATA
    if not readers or not is_data.any():
        return None
    size = view.files["file_size_in_bytes"].to_numpy()[is_data]
    partition, _ = candidates.partition_numbers(view.files)
    by_partition = np.bincount(partition[is_data], weights=size)
    by_partition = by_partition[np.bincount(partition[is_data]) > 0]
    if len(by_partition) >= readers:
        return None
    row_group = copy_or_encode.row_group_size(view.properties)
    units = int(np.maximum(1, -(-size // row_group)).sum())
    declines = units <= PLENTY * readers + policy.min_input_files * len(by_partition)
    after = np.maximum(1, by_partition // min(sizes.target, row_group)).sum()
    if not declines and after >= readers:
        return None
    total = int(size.sum())
    target = min(max(total // readers, LEAST), sizes.target)
    smaller = Sizes(target=target, min=min(target // 2, sizes.min), max=sizes.max)
    return ReadGuard(
        sizes=sizes if declines else smaller,
        without=sizes,
        parallelism=readers,
        bytes=total,
        units=units,
        declines=declines,
    )
