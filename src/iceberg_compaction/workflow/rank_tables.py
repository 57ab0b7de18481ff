"""Which of many tables comes first: the one whose work saves most for each dollar, and the longer a table has waited,
the more it counts. Every table is planned from its metadata alone, and only a few figures of its plan are kept."""

from __future__ import annotations

import logging
from concurrent import futures
from dataclasses import dataclass
from typing import TYPE_CHECKING

from iceberg_compaction import errors
from iceberg_compaction.catalog import threads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyiceberg.catalog import Catalog

    from iceberg_compaction.model.rewrite_plan import EmptyPlan, Plan
    from iceberg_compaction.record.store import RunStore

PARALLEL = 4  # tables that are planned side by side
NEVER_DAYS = 1.0  # a table without a run in the store counts as if its last one was a day ago
_LEAST_GAIN = 0.01  # per cost: what saves nothing by the prices waits, but not forever
_DAY_MS = 86_400_000
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedTable:
    """The expectations about one table, in dollars. Both 0: there is nothing to do, or nobody knows."""

    table: str
    files: int = 0  # to rewrite
    cost: float = 0.0
    saving: float = 0.0
    waited_days: float = NEVER_DAYS  # since its last run

    @property
    def has_work(self) -> bool:
        return self.cost > 0

    @property
    def priority(self) -> float:
        """Saving per cost, times the days that it has waited and one."""
        if not self.has_work:
            return 0.0
        return max(self.saving / self.cost, _LEAST_GAIN) * (1 + self.waited_days)


def rank(
    catalog: Catalog,
    names: Sequence[str],
    plan: Callable[[str], Plan | EmptyPlan],
    *,
    store: RunStore | None,
    now_ms: int,
) -> list[RankedTable]:
    """The tables, the most urgent first; those without work come last, in their order."""
    workers = PARALLEL if threads.may_share(catalog) else 1
    with futures.ThreadPoolExecutor(max_workers=max(1, min(workers, len(names))), thread_name_prefix="rank") as pool:
        try:
            ranked = list(pool.map(lambda name: _expect(name, plan, store, now_ms), names))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)  # Ctrl-C does not wait for the other tables
            raise
    return sorted(ranked, key=lambda table: -table.priority)


def _expect(name: str, plan: Callable[[str], Plan | EmptyPlan], store: RunStore | None, now_ms: int) -> RankedTable:
    """A table that cannot be planned is told about when its turn comes."""
    try:
        made = plan(name)
    except Exception as error:  # noqa: BLE001 one table must not stop the rest
        _log.debug("%s is not ranked", name, exc_info=error)
        return RankedTable(table=name)
    if not made.cost.cost:
        return RankedTable(table=name)
    return RankedTable(
        table=name,
        files=made.input_files,
        cost=made.cost.cost,
        saving=made.cost.saving,
        waited_days=_waited_days(name, store, now_ms),
    )


def _waited_days(name: str, store: RunStore | None, now_ms: int) -> float:
    try:
        last = [] if store is None else store.history(name, limit=1)
    except errors.StoreError as error:
        _log.warning("The last run of %s is not looked up: %s", name, error)
        return NEVER_DAYS
    return max(0.0, (now_ms - last[0].finished_ms) / _DAY_MS) if last else NEVER_DAYS
