"""Estimates of bins and groups of a plan. Files in bins, or columns of groups, come in; `cost_model` prices them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from iceberg_compaction.plan import copy_or_encode, output_counts, slice_sums
from iceberg_compaction.plan.costs import cost_model

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.costs.cost_model import Estimates
    from iceberg_compaction.plan.packing import Packing
    from iceberg_compaction.plan.plan_request import PlanRequest

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]


def of_bins(packing: Packing, request: PlanRequest) -> Estimates:
    """The estimates of all bins; those of empty bins mean nothing."""
    bins = packing.bins
    order = np.argsort(packing.bin_of, kind="stable")
    filled = np.flatnonzero(bins.count)
    first = (np.cumsum(bins.count) - bins.count)[filled]
    estimates = of_slices(packing.files, order, first, request)
    columns: dict[str, Any] = {}
    for name, values in estimates.columns().items():
        columns[name] = np.zeros(len(bins), values.dtype)
        columns[name][filled] = values
    return cost_model.Estimates(**columns)


def of_slices(files: CandidateFiles, positions: Ints, first: Ints, request: PlanRequest) -> Estimates:
    """The estimates of groups whose files are slices of `positions`, each of which begins at its `first`."""
    rows, view = files.rows[positions], request.view
    size, live = slice_sums.sums(files.bytes[positions], first), slice_sums.sums(files.live[positions], first)
    columns: dict[str, Any] = copy_or_encode.expect(request, copy_or_encode.weigh(request, request.rates), rows, first)
    columns |= {
        "files": np.diff(np.append(first, len(positions))),
        "bytes": size,
        "outputs": output_counts.output_counts(live, request.sizes),
        "delete_files": _sums(view.delete_files, rows, first),
    }
    deletes = GroupDeletes(freed=size - live, key_seconds=key_seconds(rows, first, request))
    return of_columns(columns, deletes, files.packing_key[positions[first]], request)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupDeletes:
    """What deletes mean for groups, beside their columns of PLAN_GROUPS."""

    freed: Ints  # bytes of deleted rows
    key_seconds: Floats  # that a reader compares rows with the keys of equality deletes


def key_seconds(rows: Ints, first: Ints, request: PlanRequest) -> Floats:
    """The seconds that readers compare rows of groups with keys; `rows` of the view's files, group after group."""
    if request.view.equality_keys is None or not len(first):
        return np.zeros(len(first))
    sums: Floats = np.add.reduceat(cost_model.key_seconds(request.view, rows), first)
    return sums


def of_columns(columns: Mapping[str, Any], deletes: GroupDeletes, keys: Ints, request: PlanRequest) -> Estimates:
    """The estimates of groups from their columns of PLAN_GROUPS. `keys`: the packing key of each."""
    joined = np.isin(np.asarray(columns["copying"]), copy_or_encode.JOINING)
    size, copied = columns["bytes"], columns["copied_bytes"]
    figures = cost_model.GroupFigures(
        files=columns["files"],
        bytes=size,
        freed=deletes.freed,
        key_seconds=deletes.key_seconds,
        row_groups=columns["row_groups"],
        delete_files=columns["delete_files"],
        outputs=np.asarray(columns["outputs"]),
        copied=copied,
        joined=np.where(joined, size - copied, 0),
    )
    choices = request.strategy.choices
    return cost_model.estimate(figures, request, gain_days=None if choices is None else choices.gain_days[keys])


def of_files(files: CandidateFiles, request: PlanRequest) -> Estimates:
    """The share of each file in the cost and the saving of a group of many: it goes into a part of an output."""
    view, rows = request.view, files.rows
    count = len(rows)
    columns = copy_or_encode.expect(request, copy_or_encode.weigh(request, request.rates), rows, np.arange(count))
    copied, joined = columns["copied_bytes"], np.isin(np.asarray(columns["copying"]), copy_or_encode.JOINING)
    figures = cost_model.GroupFigures(
        files=np.ones(count),
        bytes=files.bytes.astype(np.float64),
        freed=(files.bytes - files.live).astype(np.float64),
        row_groups=columns["row_groups"],
        key_seconds=cost_model.key_seconds(view, rows),
        delete_files=np.zeros(count) if view.delete_files is None else view.delete_files.to_numpy()[rows],
        outputs=files.live / request.sizes.target,
        copied=copied,
        joined=np.where(joined, files.bytes - copied, 0),
        whole=False,
    )
    choices = request.strategy.choices
    days = None if choices is None else choices.gain_days[files.packing_key]
    return cost_model.estimate(figures, request, gain_days=days, overhead=0)


def _sums(column: pa.Int64Array | None, rows: Ints, first: Ints) -> Ints:
    """The sum of a column about deletes for each group; zeros for a table without deletes."""
    return np.zeros(len(first), np.int64) if column is None else slice_sums.sums(column.to_numpy()[rows], first)
