"""Twelve kinds of tables, as writers and readers make them. Each is a function of the table, the hour since the
beginning and chance, and the scans that it has on a day."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.replayed_table import Table

    Hour = Callable[[Table, int, np.random.Generator], None]

MB = 10**6
RECENT_DAYS = 7


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """`hour`: what writers do in each hour; in hour 0 they fill the table. `recent`: nine of ten scans read partitions
    of the last week only, which the declared scans per day do not say."""

    name: str
    scans: float  # on a day
    hour: Hour
    recent: bool = False


def _streaming(table: Table, hour: int, dice: np.random.Generator) -> None:
    for minutes in range(0, 60, 5):
        table.now = (hour + minutes / 60) / 24
        table.append([dice.uniform(1, 3) * MB], hour // 24)


def _hourly(table: Table, hour: int, dice: np.random.Generator) -> None:
    table.append(dice.uniform(10, 40, 20) * MB, hour // 24)


def _cdc(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour == 0:
        table.append(np.full(32, 400 * MB), list(range(8)) * 4)
    for bucket in range(8):
        table.append([dice.uniform(0.5, 2) * MB], bucket)
        table.delete(bucket, 0.0005)


def _hot_and_cold(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour == 0:
        for day in range(-90, 0):
            table.append(dice.uniform(2, 30, 24) * MB, day)
    table.append(dice.uniform(2, 30, 4) * MB, hour // 24)


def _bursty(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour % 240 == 0:
        table.append(dice.uniform(0.1, 20, 2000) * MB, hour // 240)


def _late(table: Table, hour: int, dice: np.random.Generator) -> None:
    table.append(dice.uniform(5, 20, 6) * MB, hour // 24)
    table.append(dice.uniform(0.1, 1, 2) * MB, [max(0, hour // 24 - int(days)) for days in dice.integers(1, 20, 2)])


def _huge(table: Table, hour: int, _dice: np.random.Generator) -> None:
    if hour == 0:
        table.append(np.full(20, 4000 * MB), 0)
    if hour % 24 == 0:
        table.append([1000 * MB], 0)


def _quiet(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour == 0:
        table.append(dice.uniform(1, 8, 5000) * MB, list(range(50)) * 100)


def _rare_upserts(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour == 0:
        table.append(np.full(40, 300 * MB), list(range(4)) * 10)
    if hour % 6 == 0:
        bucket = int(dice.integers(4))
        table.append([dice.uniform(1, 5) * MB], bucket)
        table.delete(bucket, 0.0002)


def _dimension(table: Table, hour: int, dice: np.random.Generator) -> None:
    table.append([dice.uniform(0.02, 0.1) * MB], 0)


def _wide(table: Table, hour: int, dice: np.random.Generator) -> None:
    if hour % 24 == 6:
        table.append(dice.uniform(4, 12, 300) * MB, list(range(300)))


WORKLOADS = (
    Workload(name="streaming appends", scans=48, hour=_streaming),
    Workload(name="hourly batches", scans=24, hour=_hourly),
    Workload(name="changes with deletes", scans=24, hour=_cdc),
    Workload(name="hot and cold partitions", scans=40, hour=_hot_and_cold, recent=True),
    Workload(name="bursts", scans=12, hour=_bursty),
    Workload(name="late data", scans=24, hour=_late),
    Workload(name="few huge files", scans=6, hour=_huge),
    Workload(name="quiet, many readers", scans=500, hour=_quiet),
    Workload(name="quiet, never read", scans=0, hour=_quiet),
    Workload(name="rare upserts, rarely read", scans=0.5, hour=_rare_upserts),
    Workload(name="small dimension, many readers", scans=1000, hour=_dimension),
    Workload(name="many partitions, a file a day", scans=12, hour=_wide),
)
