"""The rules of `adaptive`, as a table to be read from top to bottom: for each partition the first rule that holds
chooses the strategy. A new strategy gets its row here. docs/reference/strategies.md has the same table in words; a test
compares the names."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model.policies import Strategy

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from iceberg_compaction.plan.partition_state import PartitionState
    from iceberg_compaction.plan.plan_request import PlanRequest

    Mask = NDArray[np.bool_]

HOT_DAYS = 3.0  # a partition that was written to since then is hot
COLD_DAYS = 7.0  # one that was not written to since then is cold
_MOSTLY = 0.75  # of a partition's bytes
_CHEAP_BYTES = 64 * 2**20  # small files that have no more together are cheap to merge


class Lasting(Enum):
    """How long the gain of a rewrite counts."""

    HORIZON = "horizon"
    HALF_BUILD_UP = "half-build-up"  # half as long as the deletes took to gather, because they gather again
    HALF_HORIZON = "half-horizon"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """One row of the table."""

    name: str
    strategy: Strategy
    holds: Callable[[PartitionState, PlanRequest], Mask]
    because: str
    lasting: Lasting = Lasting.HORIZON

    @property
    def sentence(self) -> str:
        return f"{self.strategy.value}, because {self.because} (rule {self.name})"


def _failed_before(state: PartitionState, _request: PlanRequest) -> Mask:
    return state.failed


def _deleted_again(state: PartitionState, _request: PlanRequest) -> Mask:
    mask: Mask = (state.deleted_in > 0) & (state.quiet_days < HOT_DAYS)
    return mask


def _deletes_alone(state: PartitionState, _request: PlanRequest) -> Mask:
    mask: Mask = (state.deleted_in > 0) & (state.small_undeleted == 0)
    return mask


def _cold(state: PartitionState, request: PlanRequest) -> Mask:
    many = state.small >= request.policy.min_input_files
    mask: Mask = many & (state.quiet_days >= COLD_DAYS) & (state.small_bytes >= _MOSTLY * state.bytes)
    return mask


def _appended(state: PartitionState, request: PlanRequest) -> Mask:
    many = state.small >= request.policy.min_input_files
    mask: Mask = (state.deleted_in == 0) & many & (state.small_bytes <= _CHEAP_BYTES)
    return mask


def _always(state: PartitionState, _request: PlanRequest) -> Mask:
    return np.ones(len(state.files), np.bool_)


RULES = (
    Rule(
        name="failed-before",
        strategy=Strategy.COST_OPTIMIZED,
        holds=_failed_before,
        because="an earlier run failed at its files and may fail again, so that half the saving counts",
        lasting=Lasting.HALF_HORIZON,
    ),
    Rule(
        name="deleted-again",
        strategy=Strategy.COST_OPTIMIZED,
        holds=_deleted_again,
        because="its rows are still being deleted, so that a gain lasts half as long as its deletes took to gather",
        lasting=Lasting.HALF_BUILD_UP,
    ),
    Rule(
        name="deletes-alone",
        strategy=Strategy.DELETE_FILES,
        holds=_deletes_alone,
        because="its files have deletes, and no other file is small",
    ),
    Rule(
        name="cold",
        strategy=Strategy.FULL,
        holds=_cold,
        because="nobody has written to it for a week and most of its bytes are in small files",
    ),
    Rule(
        name="appended",
        strategy=Strategy.SMALL_FILES,
        holds=_appended,
        because="it has many small files without deletes, of few bytes",
    ),
    Rule(
        name="otherwise",
        strategy=Strategy.COST_OPTIMIZED,
        holds=_always,
        because="nothing speaks for another strategy",
    ),
)


def assign(state: PartitionState, request: PlanRequest) -> NDArray[np.int64]:
    """The position in RULES of the first rule that holds for each partition."""
    chosen: NDArray[np.int64] = np.argmax([rule.holds(state, request) for rule in RULES], axis=0)
    return chosen


def gain_days(rule: NDArray[np.int64], state: PartitionState, request: PlanRequest) -> NDArray[np.float64]:
    """How long the gain of a rewrite lasts in each partition, by its rule."""
    horizon = request.policy.horizon_days
    build_up = np.where(np.isnan(state.build_up_days), horizon, state.build_up_days / 2)
    days = {
        Lasting.HORIZON: np.full(len(rule), horizon),
        Lasting.HALF_HORIZON: np.full(len(rule), horizon / 2),
        Lasting.HALF_BUILD_UP: np.minimum(build_up, horizon),
    }
    every_rule = np.array([days[each.lasting] for each in RULES])
    chosen: NDArray[np.float64] = every_rule[rule, np.arange(len(rule))]
    return chosen
