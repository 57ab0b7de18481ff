"""The estimated cost of a plan, and what it is expected to save. All of it is arithmetic on figures that the plan has:
docs/explanation/cost.md states every formula. Groups carry the figures; here are the prices, the totals and the words.
Room is left for costs that are learned: a later model gives other figures to the same fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow.compute as pc

from iceberg_compaction.model import plurals
from iceberg_compaction.model.prices import Prices
from iceberg_compaction.model.value import Count, Difference, Finite, Value

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget:
    """What a run may cost, in dollars, with the reason in words: `max-cost is $10.00`. It comes from a policy and the
    runs of the last hour."""

    dollars: float
    words: str


# Columns of PLAN_GROUPS that add up to the fields of the same name.
_SUMS = ("reads", "writes", "core_seconds", "spared_requests", "spared_seconds", "freed_bytes", "cost", "saving")


class PlanCost(Value):
    """Estimates, in dollars where no other unit is named."""

    prices: Prices = Prices()
    scans_per_day: Finite = 0.0
    scans_declared: bool = False  # else they are assumed
    horizon_days: Finite = 0.0
    kept_days: Finite = 0.0  # how long replaced files stay in storage, until their snapshots expire
    budget: Finite | None = None  # of the run; None: there is none
    reads: Count = 0  # requests of the rewrite
    writes: Count = 0
    core_seconds: Finite = 0.0
    spared_requests: Difference = 0  # of each scan that reads all groups
    spared_seconds: Finite = 0.0  # likewise, of a core
    freed_bytes: Count = 0  # of deleted rows
    exchange_cost: Finite = 0.0  # of delete files that are merged or converted; part of `cost`
    exchange_saving: Finite = 0.0  # part of `saving`
    cost: Finite = 0.0
    saving: Finite = 0.0  # over the horizon, or as long as the gain lasts
    sentence: str = ""  # the above in words

    def of(self, groups: pa.Table) -> PlanCost:
        """The same with the totals of these groups (PLAN_GROUPS)."""
        totals = {name: pc.sum(groups[name]).as_py() or 0 for name in _SUMS}
        totals["cost"] = float(totals["cost"] + self.exchange_cost)
        totals["saving"] = float(totals["saving"] + self.exchange_saving)
        cost = self.model_copy(update=totals)
        return cost.model_copy(update={"sentence": cost._sentence(int(pc.sum(groups["bytes"]).as_py() or 0))})

    @property
    def gain_per_cost(self) -> float:
        """Dollars that are saved for each dollar spent."""
        return self.saving / self.cost if self.cost else 0.0

    def _sentence(self, size: int) -> str:
        exchange = (
            f"Delete files that are merged or converted: estimated cost {dollars(self.exchange_cost)}, saving "
            f"{dollars(self.exchange_saving)} in {self.horizon_days:g} days."
        )
        if not size:
            return exchange if self.exchange_cost else ""
        parts = [
            f"{plurals.count(self.reads, 'read')} and {plurals.count(self.writes, 'write')} "
            f"({dollars(self.reads * self.prices.read + self.writes * self.prices.write)})",
            f"{_seconds(self.core_seconds)} of a core ({dollars(self.prices.compute(self.core_seconds))})",
        ]
        if self.kept_days:
            kept = dollars(self.prices.storage(size, self.kept_days))
            parts.append(f"replaced files in storage for {self.kept_days:g} days more ({kept})")
        scans = f"{self.scans_per_day:g} scans a day ({'declared' if self.scans_declared else 'assumed'})"
        each = f"{plurals.count(self.spared_requests, 'request')} and {_seconds(self.spared_seconds)} of a core"
        return (
            f"Estimated cost {dollars(self.cost)}: {', '.join(parts)}. Estimated saving {dollars(self.saving)} in "
            f"{self.horizon_days:g} days at {scans}: each scan is spared {each}."
            + (f" Of this: {exchange[0].lower()}{exchange[1:]}" if self.exchange_cost else "")
        )


def dollars(amount: float) -> str:
    """An amount with as many digits as it needs: $12.50, $0.0031."""
    size = abs(amount)
    sign = "-" if amount < 0 else ""
    if size >= 1 or not size:
        return f"{sign}${size:,.2f}"
    if size < 0.000001:
        return f"{sign}less than $0.000001" if amount > 0 else "-$0.000001"
    return f"{sign}${size:.2g}" if size >= 0.0001 else f"{sign}${size:.6f}"


def _seconds(seconds: float) -> str:
    return f"{seconds:,.0f} s" if abs(seconds) >= 10 else f"{seconds:.2g} s"
