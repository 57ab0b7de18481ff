"""What each way to treat the deletes of a partition costs: to do it, and for readers over the horizon. Columns by
partition go out. docs/explanation/cost.md states every line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import table_view
from iceberg_compaction.model.delete_choice import DeleteWay
from iceberg_compaction.plan import candidates
from iceberg_compaction.plan.costs import cost_model, group_costs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from iceberg_compaction.model.delete_choice import DeleteWays
    from iceberg_compaction.plan.candidates import CandidateFiles, PartitionNumbers
    from iceberg_compaction.plan.plan_request import PlanRequest

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionCosts:
    """Dollars, one item for each partition number."""

    cost: Mapping[DeleteWay, Floats]
    readers: Mapping[DeleteWay, Floats]
    possible: Mapping[DeleteWay, Mask]  # where the way changes something
    replaced: Mapping[DeleteWay, Ints]  # delete files that others take the place of
    everywhere: Mask  # equality deletes of an unpartitioned spec reach the partition
    numbering: PartitionNumbers


def of_partitions(files: CandidateFiles, ways: DeleteWays, request: PlanRequest) -> PartitionCosts:
    """The costs of the partitions of a table. `files`: those that filters leave to the run; a partition is merged or
    converted only if all of its files with deletes are among them."""
    return _Costs(files, ways, request).partitions()


class _Costs:
    """Columns over all files of the view."""

    def __init__(self, files: CandidateFiles, ways: DeleteWays, request: PlanRequest) -> None:
        self._files, self._ways, self._request = files, ways, request
        view = request.view
        self._partition, self._numbering = candidates.partition_numbers(view.files)
        self._size = view.files["file_size_in_bytes"].to_numpy()
        self._data: Mask = view.files["content"].to_numpy() == table_view.DATA
        self._keys = cost_model.key_seconds(view, np.arange(view.files.num_rows))
        self._freed = self._size - candidates.live_bytes(view, self._size)
        self._deletes = ways.position + ways.equality
        self._basis = cost_model.basis(request)

    def partitions(self) -> PartitionCosts:
        ways, leave = self._ways, self._readers(self._deletes, self._keys)
        whole, nothing = self._whole(), np.zeros(len(self._numbering))
        merges = whole & (self._sums(ways.merged) > 0)
        converts = whole & (self._sums(ways.convert_data & (ways.equality > 0)) > 0)
        merge_after = np.where(ways.merge_data, np.minimum(ways.position, 1) + ways.equality, self._deletes)
        convert_after = np.where(ways.convert_data, 1, self._deletes)
        convert_keys = np.where(ways.convert_data, 0.0, self._keys)
        applies, cost, saving = self._apply()
        return PartitionCosts(
            cost={
                DeleteWay.LEAVE: nothing,
                DeleteWay.MERGE: np.where(merges, self._merge(), 0.0),
                DeleteWay.CONVERT: np.where(converts, self._convert(), 0.0),
                DeleteWay.APPLY: cost,
            },
            readers={
                DeleteWay.LEAVE: leave,
                DeleteWay.MERGE: np.where(merges, self._readers(merge_after, self._keys), leave),
                DeleteWay.CONVERT: np.where(converts, self._readers(convert_after, convert_keys), leave),
                DeleteWay.APPLY: leave - saving,
            },
            possible={
                DeleteWay.LEAVE: np.ones(len(nothing), np.bool_),
                DeleteWay.MERGE: merges,
                DeleteWay.CONVERT: converts,
                DeleteWay.APPLY: applies,
            },
            replaced={
                DeleteWay.MERGE: self._sums(ways.merged).astype(np.int64),
                DeleteWay.CONVERT: self._sums(ways.converted).astype(np.int64),
            },
            everywhere=self._sums(ways.everywhere) > 0,
            numbering=self._numbering,
        )

    def _sums(self, values: Floats | Ints | Mask) -> Floats:
        sums: Floats = np.bincount(self._partition, values.astype(np.float64), len(self._numbering)).astype(np.float64)
        return sums

    def _readers(self, deletes: Ints, keys: Floats) -> Floats:
        """What so many delete files for each data file, and so many seconds for keys, cost readers."""
        prices, based = self._request.policy.prices, self._basis
        seconds = cost_model.DELETE_SECONDS * deletes + keys + self._freed / cost_model.SCAN_RATE
        each = np.where(self._data, deletes * prices.read + prices.compute(1) * seconds, 0.0)
        return based.scans_per_day * based.horizon_days * self._sums(each)

    def _whole(self) -> Mask:
        """The partitions all of whose files with deletes are left to the run."""
        others = self._data & (self._deletes > 0)
        others[self._files.rows] = False
        whole: Mask = self._sums(others) == 0
        return whole

    def _merge(self) -> Floats:
        """Delete files are read once for each data file that they apply to, and written anew."""
        ways = self._ways
        pairs = self._sums(np.where(ways.merge_data, ways.position, 0))
        made = self._made(ways.merge_data & (ways.position > 0))
        seconds = cost_model.DELETE_SECONDS * pairs + cost_model.GROUP_SECONDS
        return self._dollars(pairs + made, made, seconds, self._sums(np.where(ways.merged, self._size, 0)))

    def _convert(self) -> Floats:
        """The same, and the columns that equality deletes compare are read of the data files."""
        ways, data = self._ways, self._ways.convert_data
        read = np.where(data, self._size * ways.key_share, 0.0)
        pairs, opened = self._sums(np.where(data, self._deletes, 0)), self._sums(data)
        made = self._made(data)
        seconds = self._sums(read / self._request.rates.encoding.bytes_per_second + np.where(data, self._keys, 0.0))
        seconds = seconds + cost_model.FILE_SECONDS * opened + cost_model.DELETE_SECONDS * pairs
        reads = 2 * opened + self._sums(read // cost_model.READ_RANGE) + pairs + made
        replaced = self._sums(np.where(ways.converted, self._size, 0))
        return self._dollars(reads, made, seconds + cost_model.GROUP_SECONDS, replaced)

    def _made(self, data: Mask) -> Floats:
        """New delete files."""
        made = self._sums(data)
        return made if self._ways.per_file else np.minimum(made, 1.0)

    def _dollars(self, reads: Floats, writes: Floats, seconds: Floats, replaced: Floats) -> Floats:
        prices = self._request.policy.prices
        cost = reads * prices.read + writes * prices.write + prices.compute(1) * seconds
        return cost + prices.storage(1, self._basis.kept_days) * replaced

    def _apply(self) -> tuple[Mask, Floats, Floats]:
        """The partitions with delete-heavy files; what their rewrite costs, and what it saves."""
        count = len(self._numbering)
        cost, saving = np.zeros(count), np.zeros(count)
        heavy = np.flatnonzero(self._files.delete_heavy)
        order = heavy[np.argsort(self._files.partition[heavy], kind="stable")]
        numbers, first = np.unique(self._files.partition[order], return_index=True)
        if len(numbers):
            estimates = group_costs.of_slices(self._files, order, first, self._request)
            cost[numbers], saving[numbers] = estimates.cost, estimates.saving
        applies = np.zeros(count, np.bool_)
        applies[numbers] = True
        return applies, cost, saving
