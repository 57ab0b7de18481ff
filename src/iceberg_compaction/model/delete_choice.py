"""What becomes of the deletes of a partition, and what each way would cost. The strategy `delete-files` chooses; plans
carry the choice with its figures, and a run performs it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from iceberg_compaction.model.value import Count, Finite, Value

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from iceberg_compaction.model.partition_key import PartitionKey

    Mask = NDArray[np.bool_]
    Ints = NDArray[np.int64]


class DeleteWay(str, Enum):
    """What becomes of the deletes of a partition. Closed set; the first of two that cost the same is chosen."""

    LEAVE = "leave"  # readers go on to apply them
    MERGE = "merge"  # position deletes become one file for each data file; no data file is read
    CONVERT = "convert"  # equality deletes become position deletes, and these are merged; no data file is written
    APPLY = "apply"  # data files are written anew without the deleted rows


class WayCost(Value):
    """One way in dollars."""

    way: DeleteWay
    cost: Finite  # to do it
    readers: Finite  # what its deletes still cost readers over the horizon; below 0: they are spared more than that

    @property
    def total(self) -> float:
        return self.cost + self.readers


class PartitionDeletes(Value):
    """The choice for a partition."""

    spec_id: Count
    partition: str  # canonical JSON, see model.table_view.FILES
    way: DeleteWay
    delete_files: Count = 0  # that others replace, if they are merged or converted
    costs: tuple[WayCost, ...] = ()  # of all ways that there are; of all partitions that are decided together
    sentence: str

    @property
    def exchanged(self) -> bool:
        """Whether delete files are replaced by others, and data files stay."""
        return self.way in (DeleteWay.MERGE, DeleteWay.CONVERT)

    @property
    def key(self) -> PartitionKey:
        return self.spec_id, self.partition


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteWays:
    """What merging and conversion would do to each live file, from metadata alone: rows of model.table_view.FILES."""

    merged: Mask  # delete files that merging replaces
    merge_data: Mask  # data files that it writes deletes for
    converted: Mask  # delete files that conversion replaces, position deletes included
    convert_data: Mask  # data files whose columns it reads, and writes deletes for
    position: Ints  # position delete files that apply to each data file
    equality: Ints
    everywhere: Mask  # data files that equality deletes of an unpartitioned spec reach
    per_file: bool  # new delete files are for one data file each, else for a partition
    key_share: float  # of the table's columns that equality deletes compare
