"""The seam between planning and strategies: the questions that every strategy answers. Planning steps ask them and know
no strategy by name. A strategy is one file with one value, `STRATEGY`; docs/reference/strategies.md
states the contract."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from iceberg_compaction.model.output_layout import OutputLayout
    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
    from iceberg_compaction.model.row_order_terms import Terms
    from iceberg_compaction.model.table_shape import TableShape
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.choose_ways import ChosenWays
    from iceberg_compaction.plan.strategies.delete_thresholds import DeleteThresholds

    LeftOutMasks = Mapping[LeftOutReason, NDArray[np.bool_]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """The candidates among files, and the reasons to leave the others alone. Every file is in exactly one mask."""

    candidates: NDArray[np.bool_]
    left_out: LeftOutMasks
    unpaid: tuple[float, float] = (0.0, 0.0)  # cost and saving of files that are not worth it, in dollars


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The bins that are rewritten and those that are not, with reasons. Every bin with files is in exactly one mask."""

    rewritten: Mapping[GroupReason, NDArray[np.bool_]]
    left_out: LeftOutMasks

    @property
    def kept(self) -> NDArray[np.bool_]:
        """The bins that are rewritten, for whatever reason."""
        kept: NDArray[np.bool_] = np.logical_or.reduce(list(self.rewritten.values()))
        return kept


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a strategy has chosen for each partition, one item for each packing key."""

    rule: NDArray[np.int64]  # positions in `sentences`
    sentences: tuple[str, ...]  # the strategy, and why
    gain_days: NDArray[np.float64]  # how long the gain of a rewrite lasts

    def sentences_of(self, keys: NDArray[np.int64]) -> pa.StringArray:
        return pa.array(self.sentences, pa.string()).take(pa.array(self.rule[keys]))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsBy:
    """What a strategy sorts the rows of whole groups by."""

    terms: Terms  # with the ids of their columns
    # The column whose bounds tell the ranges of files: it leads the order inside a partition. None: none tells.
    measured: str | None


class NoOrderError(ValueError):
    """This table has no columns that the strategy could order rows by; nobody has named a wrong one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RewriteStrategy:
    """One way to choose, group and order files and to lay out the outputs. Answers are pure functions.

    Fixed point: when a run has performed the plan, the same strategy and policy choose nothing in the new table."""

    # Candidates: the files that the strategy rewrites if their group is worth it.
    choose: Callable[[CandidateFiles, PlanRequest], Choice]
    # Grouping: the candidates in bins, the decision about each bin, and the bins that are still worth rewriting after a
    # budget has cut them short.
    group: Callable[[CandidateFiles, PlanRequest], Packing]
    judge: Callable[[Bins, PlanRequest], Verdict]
    gains: Callable[[Bins], NDArray[np.bool_]]
    # Order: the kept bins, those first that a budget is spent on first.
    order: Callable[[Packing, NDArray[np.int64], PlanRequest], NDArray[np.int64]]
    # Output layout: sizes (ValueError says why they cannot be used), partition spec and row order.
    sizes: Callable[[Policy, dict[str, str]], Sizes]
    layout: Callable[[Policy], OutputLayout]
    # Deletes from which on a file is delete-heavy.
    delete_thresholds: Callable[[Policy], DeleteThresholds]
    # The predicate of a sentence about so many files that `choose` or `judge` leaves out for a reason.
    explain: Callable[[LeftOutReason, int, PlanRequest], str]
    # Cost: whether bins must pay, see plan.costs.worth.
    weighs: bool = False
    # A strategy that must see all files before it can answer: it returns one that can.
    adapt: Callable[[CandidateFiles, PlanRequest], RewriteStrategy] | None = None
    choices: Choices | None = None  # by partition, where a strategy has different ones
    ways: ChosenWays | None = None  # what becomes of deletes, by partition, where they are not always applied
    # What rows of a group are sorted by, all of them by one task (ValueError says why an option cannot be used,
    # NoOrderError why the table cannot). None: rows follow the layout's row order, task by task.
    rows_by: Callable[[TableShape, Policy], RowsBy] | None = None
