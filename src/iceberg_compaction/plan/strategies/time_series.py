"""Strategy `time-series`: for rows that arrive by time. It leaves the hot window alone, orders rows by time inside
partitions, and makes larger files of cold partitions.

Candidates: as `sort`, by the time column, without what is hot: files with rows of the last hot-window and, in a table
that is partitioned by the time column, all files of their partition. A partition is cold if all its rows are older than
cold-after; its files have the size cold-target-file-size-bytes.
Fixed point: as `sort`, at one moment; rows of a group are neither hot, nor cold and not cold. Later, partitions cool
down and have work once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import durations, plurals, policies, table_shape
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan import filters
from iceberg_compaction.plan.strategies import by_policy, rewrite_strategy, sort
from iceberg_compaction.plan.strategies.ordering import order_facts, ordered

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.output_layout import OutputLayout
    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.model.table_shape import ColumnShape, TableShape
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, RowsBy

    Mask = NDArray[np.bool_]

_DAY_MS = 86_400_000


def rows_by(shape: TableShape, policy: Policy) -> RowsBy:
    time = time_column(shape, policy)
    leads = bool(shape.sort_order) and shape.sort_order[0].column == time.name
    if leads and shape.sort_order[0].transform == "identity":
        terms = shape.sort_order
    else:
        others = tuple(term for term in shape.sort_order if term.column != time.name)
        terms = (shape.ascending(time.name, "time-column"), *others)
    return rewrite_strategy.RowsBy(terms=terms, measured=time.name)


def time_column(shape: TableShape, policy: Policy) -> ColumnShape:
    """The date or timestamp that counts: the one named, else of the partitioning, of the sort order, of the schema."""
    if policy.time_column is not None:
        named = shape.require(policy.time_column, "time-column")
        if not named.is_time:
            raise ValueError(f"time-column names {named.name}, which is of type {named.type}, not a date or timestamp")
        return named
    suggested = [field.column for field in shape.partition] + [term.column for term in shape.sort_order]
    columns = [column for name in suggested if (column := shape.column(name)) is not None]
    time = next((column for column in [*columns, *shape.columns] if column.is_time), None)
    if time is None:
        raise rewrite_strategy.NoOrderError("it has no column of a date or timestamp")
    return time


def choose(files: CandidateFiles, request: PlanRequest) -> Choice:
    hot, cold = _hot(files, request), _cold(files, request)
    chosen = ordered.choice(ordered.pieces(files.take(~hot), request, cold))
    masks = {LeftOutReason.HOT: hot}
    for reason, mask in chosen.left_out.items():
        masks[reason] = np.zeros(len(hot), np.bool_)
        masks[reason][~hot] = mask
    picked = np.zeros(len(hot), np.bool_)
    picked[~hot] = chosen.candidates
    return rewrite_strategy.Choice(candidates=picked, left_out=masks)


def group(_files: CandidateFiles, request: PlanRequest) -> Packing:
    files = ordered.considered(request)
    hot, cold = _hot(files, request), _cold(files, request)
    if request.policy.rewrite_all:
        hot = np.zeros(len(hot), np.bool_)
    return ordered.packed(ordered.pieces(files.take(~hot), request, cold), request)


def _hot(files: CandidateFiles, request: PlanRequest) -> Mask:
    """The mask of files with rows of the hot window, or in a partition that has them."""
    hot = _newer(files, request, request.policy.hot_window)
    shape = request.view.shape
    if request.rows is None or shape is None:
        return hot
    if not any(field.column == request.rows.measured for field in shape.partition):
        return hot  # a partition has rows of any time
    partitions = np.bincount(files.partition[hot], minlength=len(files.numbering)) > 0
    return partitions[files.partition]


def _cold(files: CandidateFiles, request: PlanRequest) -> Mask:
    """The packing keys all of whose rows with a time are older than cold-after, and that have such rows; none if cold
    partitions are as all others."""
    if request.layout.cold is None:
        return np.zeros(len(files.numbering), np.bool_)
    timed = order_facts.ranges(files, request).bounded & (files.packing_key == files.partition)
    newer = timed & _newer(files, request, request.policy.cold_after)
    counts = [np.bincount(files.packing_key[mask], minlength=len(files.numbering)) for mask in (timed, newer)]
    cold: Mask = (counts[0] > 0) & (counts[1] == 0)
    return cold


def _newer(files: CandidateFiles, request: PlanRequest, age: str) -> Mask:
    """The mask of files with rows that are younger than the age. Where the time of rows is not known, the file's own
    age counts."""
    cutoff_ms = request.view.now_ms - durations.parse_seconds(age) * 1000
    ranges = order_facts.ranges(files, request)
    units = _units(request)
    if units == 1:  # a date lasts until its end
        by_rows = ranges.upper >= np.floor(cutoff_ms / _DAY_MS)
    else:
        by_rows = ranges.upper > cutoff_ms * (units / _DAY_MS)
    added = filters.added_ms(request.view)[files.rows]
    by_file = (added > cutoff_ms) & (added < filters.UNKNOWN)
    return np.where(ranges.bounded, by_rows, by_file)


def _units(request: PlanRequest) -> int:
    """How many units of the time column a day has."""
    shape = request.view.shape
    column = None if shape is None else time_column(shape, request.policy)
    return 1 if column is None else table_shape.DAY_UNITS[column.type]


def layout(policy: Policy) -> OutputLayout:
    """As the policy says; cold partitions have sizes of their own if it names a target for them."""
    target = policy.cold_target_file_size_bytes
    if target is None:
        return by_policy.layout(policy)
    sizes = policies.resolve_sizes(
        policy.model_copy(
            update={"target_file_size_bytes": target, "min_file_size_bytes": None, "max_file_size_bytes": None}
        ),
        {},
    )
    return by_policy.layout(policy).model_copy(update={"cold": sizes})


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    if reason is not LeftOutReason.HOT:
        return ordered.explain(reason, count, request)
    column = None if request.rows is None else request.rows.measured
    return (
        f"{plurals.form(count, 'is', 'are')} hot: rows there have {column} in the last {request.policy.hot_window} "
        "(hot-window)"
    )


STRATEGY = rewrite_strategy.RewriteStrategy(
    choose=choose,
    group=group,
    judge=ordered.judge,
    gains=ordered.gains,
    order=sort.STRATEGY.order,
    sizes=sort.STRATEGY.sizes,
    layout=layout,
    delete_thresholds=sort.STRATEGY.delete_thresholds,
    explain=explain,
    rows_by=rows_by,
)
