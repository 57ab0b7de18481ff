"""The request for a commit: groups of files to replace by others with the same rows. Groups are independent: one that
is in conflict is left out, and the rest is committed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import pyarrow as pa
from pyiceberg.table.snapshots import Operation

from iceberg_compaction.model.rewrite_plan import PLAN_FILES

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from numpy.typing import NDArray

    from iceberg_compaction.model.partition_key import PartitionKey
    from iceberg_compaction.model.rewrite_task import StagedFile
    from iceberg_compaction.model.table_view import Pin

GroupProperties: TypeAlias = Callable[[tuple[int, ...]], Mapping[str, str]]


def _nothing(landed: tuple[int, ...]) -> Mapping[str, str]:
    return {}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaceGroup:
    """Files that are replaced together or not at all."""

    id: int
    removed: pa.Table  # PLAN_FILES
    partitions: tuple[PartitionKey, ...]  # of the removed files
    added: tuple[StagedFile, ...]  # may be none: deletes may have taken every row (R9)
    deleted_records: int = 0  # rows of the removed files that deletes took

    @property
    def outputs(self) -> frozenset[PartitionKey]:
        """Where the added files lie."""
        return frozenset((file.spec_id, file.partition) for file in self.added)

    @property
    def moved(self) -> frozenset[PartitionKey]:
        """The partitions that rows leave or enter, because the output is in another spec than some input; empty: every
        row stays in its partition. Inputs of the output's spec count too: rows that some writer had put into a wrong
        partition of it leave that one."""
        outputs = self.outputs
        moves = {spec_id for spec_id, _ in self.partitions} - {spec_id for spec_id, _ in outputs}
        return outputs.union(self.partitions) if outputs and moves else frozenset()


@dataclass(frozen=True, kw_only=True)  # without slots, for the cached properties
class ReplaceRequest:
    """The files to replace, the new files, and the state of the table that this was decided on."""

    pin: Pin
    groups: tuple[ReplaceGroup, ...]
    snapshot_properties: Mapping[str, str] = field(default_factory=dict)
    group_properties: GroupProperties = _nothing  # more snapshot properties, given the ids of the groups that land
    # Delete files that apply to nothing leave wherever they are, not only where files are replaced.
    tidies: bool = False
    # `replace`: the table has the same rows; `delete`: files leave with all their rows; `overwrite`: with some of them.
    operation: Operation = Operation.REPLACE

    def without(self, ids: Collection[int]) -> ReplaceRequest:
        """The same without some groups."""
        return replace(self, groups=tuple(group for group in self.groups if group.id not in ids)) if ids else self

    @cached_property
    def ids(self) -> tuple[int, ...]:
        return tuple(group.id for group in self.groups)

    @cached_property
    def removed(self) -> pa.Table:
        """PLAN_FILES of all groups."""
        tables = [group.removed for group in self.groups]
        return pa.concat_tables(tables).combine_chunks() if tables else PLAN_FILES.empty_table()

    @cached_property
    def owners(self) -> NDArray[np.int64]:
        """The id of the group of each of the removed files."""
        return np.repeat(np.array(self.ids, np.int64), [group.removed.num_rows for group in self.groups])

    @cached_property
    def added(self) -> tuple[StagedFile, ...]:
        return tuple(file for group in self.groups for file in group.added)

    @property
    def deleted_records(self) -> int:
        return sum(group.deleted_records for group in self.groups)

    @cached_property
    def partitions(self) -> tuple[PartitionKey, ...]:
        """Where the removed files lie, each partition once."""
        return tuple(dict.fromkeys(partition_key for group in self.groups for partition_key in group.partitions))

    @cached_property
    def inputs(self) -> frozenset[PartitionKey]:
        return frozenset(self.partitions)

    @cached_property
    def outputs(self) -> frozenset[PartitionKey]:
        """Where the added files lie."""
        return frozenset((file.spec_id, file.partition) for file in self.added)

    def properties(self) -> dict[str, str]:
        """The snapshot properties for the groups of the request."""
        return {**self.snapshot_properties, **self.group_properties(self.ids)}


def partition_keys(files: pa.Table) -> list[PartitionKey]:
    """The partition of each file (model.table_view.FILES)."""
    return list(zip(files["spec_id"].to_pylist(), files["partition"].cast(pa.string()).to_pylist(), strict=True))


def by_partition(
    groups: Iterable[ReplaceGroup], partitions: Callable[[ReplaceGroup], Collection[PartitionKey]]
) -> dict[PartitionKey, list[int]]:
    """The ids of the groups by partition; `partitions` gives those of a group."""
    ids: dict[PartitionKey, list[int]] = {}
    for group in groups:
        for partition_key in partitions(group):
            ids.setdefault(partition_key, []).append(group.id)
    return ids
