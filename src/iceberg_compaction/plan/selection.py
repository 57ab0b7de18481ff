"""Which of the bins worth rewriting become groups, and in which order: rewrite-job-order sorts them, else the manifests
that list their files; then the budgets cut. A decision comes in; the groups and their files in plan order go out. Only
files of chosen groups are sorted."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import assert_never

from iceberg_compaction.model import sizing
from iceberg_compaction.model.policies import JobOrder
from iceberg_compaction.plan import packing

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.model.table_view import TableView
    from iceberg_compaction.plan.candidates import DataFiles
    from iceberg_compaction.plan.decide_bins import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The groups of a plan. All arrays but `positions` have one item for each."""

    positions: NDArray[np.int64]  # of the candidates: group after group, each in reading order
    bins: NDArray[np.int64]  # the bin that the group is, or a beginning of
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    below: NDArray[np.int64]
    above: NDArray[np.int64]
    outputs: NDArray[np.int64]
    over_budget: tuple[int, int]  # files and bytes that the budgets cut off


def select(decided: Decision, policy: Policy, sizes: Sizes, view: TableView) -> Selection:
    """The groups, sorted and cut. The group in which a budget ends is shortened, as Iceberg does, so that a budget
    smaller than the first group still makes progress; it is dropped if nothing would be gained that way."""
    bins = decided.bins
    kept = np.flatnonzero(decided.verdict.kept)
    kept = kept[decided.files.partitions.sort(bins.keys[kept])]
    kept = kept[_by_manifest(decided, kept, view.manifest_files)]
    kept = kept[_order(bins.bytes[kept], bins.count[kept], policy.rewrite_job_order)]
    kept = kept[_failed_last(decided, kept, view.failed)]
    whole = _whole(bins.bytes[kept], bins.count[kept], policy)
    reached = kept[: whole + 1]
    positions = _positions(decided, reached)
    first = np.cumsum(bins.count[reached]) - bins.count[reached]
    if len(reached) > whole:
        start = int(first[-1])
        length = _shortened(decided.files, positions, start, policy, sizes)
        positions = positions[: start + length]
        reached, first = (reached, first) if length else (reached[:-1], first[:-1])
    size = decided.files.bytes[positions]
    count, total = np.diff(np.append(first, len(positions))), sums(size, first)
    return Selection(
        positions=positions,
        bins=reached,
        first=first,
        count=count,
        bytes=total,
        below=sums(size < sizes.min, first),
        above=sums(decided.files.large(sizes)[positions], first),
        outputs=packing.output_counts(sums(decided.files.live[positions], first), sizes),
        over_budget=(int(bins.count[kept].sum() - len(positions)), int(bins.bytes[kept].sum() - total.sum())),
    )


def sums(values: NDArray[np.int64] | NDArray[np.bool_], first: NDArray[np.int64]) -> NDArray[np.int64]:
    """The sums of slices that begin at `first` and together hold all values."""
    found: NDArray[np.int64] = np.add.reduceat(values, first, dtype=np.int64) if len(first) else np.zeros(0, np.int64)
    return found


def _by_manifest(decided: Decision, bins: NDArray[np.int64], manifest_files: Sequence[int]) -> NDArray[np.int64]:
    """Positions that sort bins by the oldest manifest that lists a file of theirs, the oldest of all first; a manifest
    list begins with the newest. So no later bin has files in a manifest once its turn is over: one after the other is
    emptied, instead of a few files being taken out of each, which every commit would have to write anew."""
    if len(bins) < 2 or len(manifest_files) < 2:
        return np.arange(len(bins))
    last = np.zeros(len(decided.bins), np.int64)
    last[decided.numbers] = decided.files.rows  # which ascend, so that the last one of each bin stays
    oldest = np.searchsorted(np.cumsum(manifest_files), last[bins], side="right")
    return np.argsort(-oldest, kind="stable")


def _failed_last(decided: Decision, bins: NDArray[np.int64], failed: pa.Int64Array | None) -> NDArray[np.int64]:
    """Positions that put bins last that runs failed at, and of them the latest at the very end; before the budgets cut,
    so that such a bin does not use them up time and again."""
    rank = np.zeros(len(decided.bins), np.int64)
    if failed is not None:
        np.maximum.at(rank, decided.numbers, failed.to_numpy()[decided.files.rows])
    return np.argsort(rank[bins], kind="stable")


def _order(size: NDArray[np.int64], count: NDArray[np.int64], order: JobOrder) -> NDArray[np.int64]:
    by: NDArray[np.int64]
    match order:
        case JobOrder.NONE:
            return np.arange(len(size))
        case JobOrder.BYTES_ASC:
            by = size
        case JobOrder.BYTES_DESC:
            by = -size
        case JobOrder.FILES_ASC:
            by = count
        case JobOrder.FILES_DESC:
            by = -count
        case _:
            assert_never(order)
    return np.argsort(by, kind="stable")


def _whole(size: NDArray[np.int64], count: NDArray[np.int64], policy: Policy) -> int:
    """How many groups the budgets hold as a whole."""
    fits = np.ones(len(size), np.bool_)
    if policy.max_files_to_rewrite is not None:
        fits &= np.cumsum(count) <= policy.max_files_to_rewrite
    if policy.max_bytes_to_rewrite is not None:
        fits &= np.cumsum(size) <= policy.max_bytes_to_rewrite
    return len(fits) if fits.all() else int(np.argmin(fits))


def _positions(decided: Decision, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """The files of bins, bin after bin in the order given, each in reading order."""
    rank = np.full(len(decided.bins), -1)
    rank[chosen] = np.arange(len(chosen))
    ranks = rank[decided.numbers]
    found = np.flatnonzero(ranks >= 0)
    return decided.order.sort(found, ranks[found])


def _shortened(files: DataFiles, positions: NDArray[np.int64], start: int, policy: Policy, sizes: Sizes) -> int:
    """How many files the budgets leave of the last group, which begins at `start`; 0 if so many would gain nothing."""
    size = files.bytes[positions[start:]]
    length = len(size)
    if policy.max_files_to_rewrite is not None:
        length = min(length, policy.max_files_to_rewrite - start)
    if policy.max_bytes_to_rewrite is not None:
        left = policy.max_bytes_to_rewrite - int(files.bytes[positions[:start]].sum())
        length = min(length, int(np.searchsorted(np.cumsum(size), left, side="right")))
    shortened = positions[start : start + length]
    live = int(files.live[shortened].sum())
    by_itself = (files.large(sizes) | files.worn)[shortened]
    gains = sizing.output_count(live, sizes) < length or bool(by_itself.any())
    return length if gains or policy.rewrite_all else 0
