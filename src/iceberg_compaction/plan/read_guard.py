"""The read-side guard: a table is not packed into fewer files and row groups than its readers can use side by side.
Sizes and a table come in; out go smaller sizes, and why.

Readers take row groups as well as files, so a table of B bytes with row groups of R bytes has about B / min(target, R)
units. Where these are fewer than `read-parallelism`, B / read-parallelism becomes the target. Fixed point: the minimum
is half of that target, and the maximum stays. So a rewrite that shrinks the table to a third, or lets it grow by a
fifth, and so moves the target, leaves no file that is small or large by the new sizes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.model import byte_size, table_view
from iceberg_compaction.model.policies import DEFAULT_MIN_ROW_GROUP, Sizes
from iceberg_compaction.plan import copy_or_encode

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_view import TableView

LEAST = DEFAULT_MIN_ROW_GROUP  # bytes; a smaller unit costs a reader more than it gains


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadGuard:
    """The sizes that leave enough for parallel readers."""

    sizes: Sizes
    without: Sizes  # the sizes that the policy and the table ask for
    parallelism: int
    bytes: int  # of the table's data files

    @property
    def reason(self) -> str:
        """Why, without a full stop."""
        return (
            f"read-parallelism is {self.parallelism}, and the table has {byte_size.format_size(self.bytes)}, so that "
            f"files of {byte_size.format_size(self.without.target)} would be too few"
        )

    @property
    def note(self) -> str:
        """The sentence for the plan."""
        return f"The target is {byte_size.format_size(self.sizes.target)} instead: {self.reason}."


def fit(sizes: Sizes, view: TableView, policy: Policy) -> ReadGuard | None:
    """The guard for a table; None: there is no limit, or the sizes keep it."""
    if not policy.read_parallelism or view.pin is None:
        return None
    is_data = pc.equal(view.files["content"], table_view.DATA)
    total = pc.sum(view.files["file_size_in_bytes"].filter(is_data)).as_py() or 0
    unit = max(total // policy.read_parallelism, LEAST)
    if unit >= min(sizes.target, copy_or_encode.row_group_size(view.properties)):
        return None
    target = unit
    guarded = Sizes(target=target, min=min(target // 2, sizes.min), max=sizes.max)
    return ReadGuard(sizes=guarded, without=sizes, parallelism=policy.read_parallelism, bytes=total)
