"""The cheapest way to treat the deletes of each partition. Costs come in; the way of each partition goes out, with a
sentence that has the figures. Partitions that one equality delete reaches, because its spec is unpartitioned, are
decided together: such a delete leaves only if all of them are done."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import plurals
from iceberg_compaction.model.delete_choice import DeleteWay, PartitionDeletes, WayCost
from iceberg_compaction.model.plan_cost import dollars
from iceberg_compaction.model.policies import DeleteAction
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan.strategies import rewrite_strategy

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.costs.delete_costs import PartitionCosts
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

WAYS = tuple(DeleteWay)
_LEAVE, _MERGE, _CONVERT, _APPLY = (WAYS.index(way) for way in DeleteWay)
_FORCED = {DeleteAction.MERGE: _MERGE, DeleteAction.CONVERT: _CONVERT}
_DONE = {
    DeleteWay.MERGE: "{files} merged",
    DeleteWay.CONVERT: "{files} replaced by position deletes",
    DeleteWay.APPLY: "Data files are rewritten without the deleted rows",
    DeleteWay.LEAVE: "Deletes stay as they are",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenWays:
    """The choice for all partitions; arrays have an item for each partition number."""

    way: Ints  # positions in WAYS
    waiting: Mask  # partitions that the budget does not reach
    entries: tuple[PartitionDeletes, ...] = ()  # partitions with deletes that the run looks at
    cost: float = 0.0  # dollars, to merge and to convert
    saving: float = 0.0  # likewise, of readers


def choose(costs: PartitionCosts, request: PlanRequest) -> ChosenWays:
    """The way of each partition, by the policy."""
    return _Units(costs, request).chosen()


def choose_files(chosen: ChosenWays, files: CandidateFiles, _request: PlanRequest) -> Choice:
    """The candidates of a rewrite, and why other files are none."""
    way, heavy = chosen.way[files.partition], files.delete_heavy
    applied = heavy & (way == _APPLY)
    waiting = heavy & chosen.waiting[files.partition]
    stays = heavy & (way == _LEAVE) & ~waiting
    return rewrite_strategy.Choice(
        candidates=applied,
        left_out={
            LeftOutReason.FEW_DELETES: ~heavy,
            LeftOutReason.DELETES_EXCHANGED: heavy & ~applied & ~stays & ~waiting,
            LeftOutReason.DELETES_STAY: stays,
            LeftOutReason.OVER_BUDGET: waiting,
        },
    )


class _Units:
    """Partitions that are decided together: most are alone. Columns have an item for each unit."""

    def __init__(self, costs: PartitionCosts, request: PlanRequest) -> None:
        self._costs, self._request = costs, request
        count = len(costs.numbering)
        self._unit = np.where(costs.everywhere, count, np.arange(count))
        self._partitions = np.bincount(self._unit, minlength=count + 1)
        self._open = self._any(costs.possible[DeleteWay.APPLY])
        self._possible = {way: self._open & self._any(costs.possible[way]) for way in WAYS}
        every = np.bincount(self._unit, costs.possible[DeleteWay.CONVERT], count + 1) == self._partitions
        self._possible[DeleteWay.CONVERT] &= every
        self._cost = {way: self._sums(costs.cost[way]) for way in WAYS}
        self._readers = {way: self._sums(costs.readers[way]) for way in WAYS}

    def _any(self, mask: Mask) -> Mask:
        has_one: Mask = np.bincount(self._unit, mask, len(self._partitions)) > 0
        return has_one

    def _sums(self, values: Floats) -> Floats:
        sums: Floats = np.bincount(self._unit, values, len(self._partitions)).astype(np.float64)
        return sums

    def chosen(self) -> ChosenWays:
        way = self._ways()
        spared = self._readers[DeleteWay.LEAVE] - self._by_way(self._readers, way)
        cost = self._by_way(self._cost, way)
        waiting = self._over_budget(way, cost, spared)
        exchanged = np.isin(way, (_MERGE, _CONVERT)) & ~waiting
        of_partition = self._of_partitions(np.where(waiting, _LEAVE, way))
        return ChosenWays(
            way=of_partition,
            waiting=waiting[self._unit],
            entries=tuple(self._entries(way, of_partition, waiting)),
            cost=float(cost[exchanged].sum()),
            saving=float(spared[exchanged].sum()),
        )

    def _ways(self) -> Ints:
        forced = _FORCED.get(self._request.policy.delete_action)
        if forced is not None:
            return np.where(self._possible[WAYS[forced]], forced, _LEAVE)
        totals = [np.where(self._possible[way], self._cost[way] + self._readers[way], np.inf) for way in WAYS]
        totals[_LEAVE] = self._readers[DeleteWay.LEAVE]
        cheapest: Ints = np.argmin(totals, axis=0)
        return cheapest

    def _by_way(self, columns: dict[DeleteWay, Floats], way: Ints) -> Floats:
        picked: Floats = np.choose(way, [columns[each] for each in WAYS])
        return picked

    def _over_budget(self, way: Ints, cost: Floats, spared: Floats) -> Mask:
        """The units whose delete files wait for another run. Most for the money comes first."""
        waiting = np.zeros(len(way), np.bool_)
        budget = self._request.budget
        if budget is None:
            return waiting
        units = np.flatnonzero(np.isin(way, (_MERGE, _CONVERT)))
        units = units[np.argsort(-spared[units] / np.maximum(cost[units], 1e-12), kind="stable")]
        for unit in units.tolist():
            waiting[unit] = cost[unit] > budget
            budget -= 0.0 if waiting[unit] else float(cost[unit])
        return waiting

    def _of_partitions(self, way: Ints) -> Ints:
        """The way of a unit, in the partitions of it where there is something to do."""
        chosen = way[self._unit]
        possible = np.stack([self._costs.possible[each] for each in WAYS])
        return np.where(possible[chosen, np.arange(len(chosen))], chosen, _LEAVE)

    def _entries(self, way: Ints, of_partition: Ints, waiting: Mask) -> Iterator[PartitionDeletes]:
        numbering = self._costs.numbering
        wanted = np.flatnonzero(self._open[self._unit] & (self._costs.readers[DeleteWay.LEAVE] > 0))
        wanted = wanted[numbering.sort(wanted)]
        for number, text in zip(wanted.tolist(), numbering.texts_of(wanted).to_pylist(), strict=True):
            unit, done = int(self._unit[number]), WAYS[of_partition[number]]
            files = int(self._costs.replaced[done][number]) if done in self._costs.replaced else 0
            costs = tuple(self._way_costs(unit))
            head = _DONE[done].format(files=plurals.count(files, "delete file is", "delete files are"))
            if waiting[unit]:
                head = f"Deletes wait for another run, because {self._request.budget_words}"
            yield PartitionDeletes(
                spec_id=int(numbering.spec_ids[number]),
                partition=text,
                way=done,
                delete_files=files,
                costs=costs,
                sentence=f"{head}{self._together(unit)}: {self._figures(costs, WAYS[way[unit]])}.",
            )

    def _way_costs(self, unit: int) -> Iterator[WayCost]:
        for way in WAYS:
            if way is DeleteWay.LEAVE or self._possible[way][unit]:
                yield WayCost(way=way, cost=float(self._cost[way][unit]), readers=float(self._readers[way][unit]))

    def _together(self, unit: int) -> str:
        count = int(self._partitions[unit])
        together = f", as for all {plurals.count(count, 'partition')} that one equality delete reaches"
        return together if count > 1 else ""

    def _figures(self, costs: tuple[WayCost, ...], way: DeleteWay) -> str:
        """The chosen way first, then the others from cheap to dear."""
        days = f"{self._request.policy.horizon_days:g} days"
        ranked = sorted(costs, key=lambda each: (each.way is not way, each.total))
        first, *others = ranked
        start = f"to {first.way.value} costs {dollars(first.cost)} and readers {_dollars(first.readers)} in {days}"
        listed = [f"{each.way.value} {dollars(each.cost)} and {_dollars(each.readers)}" for each in others]
        return "; ".join([start, *listed])


def _dollars(amount: float) -> str:
    """What readers pay; they may be spared more than deletes cost, which is no matter if it is next to nothing."""
    return dollars(amount if amount > 0 or amount <= -0.000001 else 0.0)
