"""Strategies replayed over twelve workloads of sixty days. Every night the real planner plans on the table as it is
then, and the plan is performed by arithmetic. The total is what all rewrites and all scans cost, by the price list.

The cost of a scan is the part that the layout decides: requests, opening files, row groups and deletes. Reading the
bytes of live rows costs every strategy the same and is left out, and so is their storage.
"""

from __future__ import annotations

import statistics
import sys
from typing import TYPE_CHECKING, Any

import numpy as np

from bench import replayed_table, replayed_workloads
from iceberg_compaction.model.policies import Policy, Strategy
from iceberg_compaction.plan import build

if TYPE_CHECKING:
    from bench.replayed_workloads import Workload

DAYS, QUICK_DAYS = 60, 15
TARGET = 512 * 10**6
EVERYTHING, NEVER = "everything", "never"
SINGLE = (Strategy.SMALL_FILES, Strategy.FULL, Strategy.DELETE_FILES, Strategy.COST_OPTIMIZED)


def policy_of(name: str, workload: Workload) -> Policy | None:
    if name == NEVER:
        return None
    strategy = Strategy.FULL if name == EVERYTHING else Strategy(name)
    return Policy(
        strategy=strategy,
        rewrite_all=name == EVERYTHING,
        target_file_size_bytes=TARGET,
        scans_per_day=workload.scans,
    )


def replay(workload: Workload, name: str, days: int) -> dict[str, float]:
    """The cost of rewrites and reads under one strategy, every night at midnight."""
    table, dice = replayed_table.Table(), np.random.default_rng(7)
    policy = policy_of(name, workload)
    prices = Policy().prices
    spent = {"rewrites": 0.0, "reads": 0.0}
    for hour in range(days * 24):
        table.now = hour / 24
        workload.hour(table, hour, dice)
        table.now = (hour + 1) / 24
        weight = None
        if workload.recent:
            recent = table.partition > hour // 24 - replayed_workloads.RECENT_DAYS
            weight = np.where(recent, 1.0, 0.1)
        spent["reads"] += workload.scans / 24 * table.scan_cost(prices, weight) + table.storage_cost(prices, 1 / 24)
        if policy is not None and hour % 24 == 23:
            now_ms = int(table.now * replayed_table.DAY_MS)
            plan = build.build(table.view(), policy, plan_id="p", now_ms=now_ms)
            spent["rewrites"] += plan.cost.cost
            table.perform(plan)
    return spent


def bars(quick: bool) -> list[dict[str, Any]]:
    days = QUICK_DAYS if quick else DAYS
    names = [EVERYTHING, NEVER, *(each.value for each in SINGLE), Strategy.ADAPTIVE.value]
    print(f"{'dollars in ' + str(days) + ' days':32} {' '.join(f'{name:>15}' for name in names)}")
    totals: dict[str, list[float]] = {name: [] for name in names}
    for workload in replayed_workloads.WORKLOADS:
        for name in names:
            totals[name].append(sum(replay(workload, name, days).values()))
        figures = " ".join(f"{totals[name][-1]:15.4f}" for name in names)
        print(f"{workload.name:32} {figures}", file=sys.stdout, flush=True)
    pairs = list(zip(totals[Strategy.COST_OPTIMIZED.value], totals[EVERYTHING], strict=True))
    shares = [ours / theirs for ours, theirs in pairs if theirs]
    share = sum(ours for ours, _ in pairs) / sum(theirs for _, theirs in pairs)
    ratios = []
    for number, adaptive in enumerate(totals[Strategy.ADAPTIVE.value]):
        best = min(totals[each.value][number] for each in SINGLE)
        ratios.append(adaptive / best if best else 1.0 + adaptive)
    median = statistics.median(ratios)
    return [
        {
            "name": f"cost-optimized / all of it every night, {days} days "
            f"(median {statistics.median(shares):.2f}, worst {max(shares):.2f})",
            "value": round(share, 3),
            "reach": "<= 0.5",
            "ok": share <= 0.5,
        },
        {
            "name": f"adaptive / best single strategy in hindsight, median (worst {max(ratios):.2f})",
            "value": round(median, 3),
            "reach": "<= 1.25",
            "ok": median <= 1.25,
        },
    ]
