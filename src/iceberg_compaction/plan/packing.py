"""Packs files into groups as Iceberg does: in order, into one open bin at a time, within a capacity of bytes and files,
never across partitions or specs. Files in reading order come in, bins as ranges of positions go out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import sizing

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policy import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """Bins as slices of `files`, with the figures that decide about them. All arrays but `files` have one item each."""

    files: DataFiles  # bin after bin, each in reading order
    first: NDArray[np.int64]
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    records: NDArray[np.int64]
    below: NDArray[np.int64]  # files smaller than the minimum
    below_bytes: NDArray[np.int64]
    above: NDArray[np.int64]  # files larger than the maximum
    outputs: NDArray[np.int64]  # expected output files
    keys: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.first)


def pack(files: DataFiles, policy: Policy, sizes: Sizes) -> Bins:
    """Bins of `files`, which are in reading order."""
    begins = _begins(files.keys)
    counts = np.diff(np.append(begins, len(files.keys)))
    totals = _sums(files.bytes, begins)
    most = policy.max_file_group_input_files or len(files.keys)
    too_much = (totals > policy.max_file_group_size_bytes) | (counts > most)
    if not too_much.any():
        return measure(files, begins, sizes)
    order = np.arange(len(files.keys))
    cuts = []
    for begin, count in zip(begins[too_much].tolist(), counts[too_much].tolist(), strict=True):
        within, starts = _next_fit(files, slice(begin, begin + count), (policy.max_file_group_size_bytes, most), sizes)
        order[begin : begin + count] = begin + within
        cuts.append(begin + starts)
    return measure(files.take(order), np.unique(np.concatenate([begins, *cuts])), sizes)


def measure(files: DataFiles, first: NDArray[np.int64], sizes: Sizes) -> Bins:
    """The figures of the bins that begin at `first` and together hold all `files`."""
    total = _sums(files.bytes, first)
    below = (files.bytes < sizes.min).astype(np.int64)
    return Bins(
        files=files,
        first=first,
        count=np.diff(np.append(first, len(files.keys))),
        bytes=total,
        records=_sums(files.records, first),
        below=_sums(below, first),
        below_bytes=_sums(files.bytes * below, first),
        above=_sums((files.bytes > sizes.max).astype(np.int64), first),
        outputs=output_counts(total, sizes),
        keys=files.keys[first],
    )


def output_counts(total: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """`model.sizing.output_count` for many totals at once."""
    whole, rest = np.divmod(total, sizes.target)
    average = total // np.maximum(whole, 1)
    spread = (rest <= sizes.min) & (average < min(1.1 * sizes.target, sizes.write_max))
    counts: NDArray[np.int64] = np.where(total < sizes.target, 1, np.where(spread | (rest == 0), whole, whole + 1))
    return counts


def file_counts(total: NDArray[np.int64], sizes: Sizes) -> NDArray[np.int64]:
    """`model.sizing.file_count` for many totals at once."""
    counts = output_counts(total, sizes)
    too_small = total < sizing.MARGIN * sizes.min * counts
    fewer = (counts > 1) & too_small & (total * sizing.MARGIN <= sizes.max * (counts - 1))
    aimed: NDArray[np.int64] = np.where(fewer, counts - 1, counts)
    return aimed


def _next_fit(
    files: DataFiles, partition: slice, capacity: tuple[int, int], sizes: Sizes
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order of one partition's files, bin after bin, and where each bin starts in it.

    Files of a wrong size are packed before the well-sized ones. So they share as few bins as possible, `full` leaves
    the other bins alone, and what a rewrite puts elsewhere in the order does not make new pairs of them (fixed point).
    """
    size = files.bytes[partition]
    well_sized = (size >= sizes.min) & (size <= sizes.max)
    order = np.argsort(well_sized, kind="stable")
    reach = np.cumsum(size[order])
    most_bytes, most_files = capacity
    starts, start, used = [], 0, 0
    while start < len(order):
        starts.append(start)
        end = int(np.searchsorted(reach, used + most_bytes, side="right"))
        start = min(max(end, start + 1), start + most_files)  # a file larger than the capacity gets its own bin
        used = int(reach[min(start, len(order)) - 1])
    first = np.array(starts, np.int64)
    numbers = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(order))))
    return order[np.lexsort((order, numbers))], first


def _begins(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)


def _sums(values: NDArray[np.int64], first: NDArray[np.int64]) -> NDArray[np.int64]:
    sums: NDArray[np.int64] = np.add.reduceat(values, first) if len(first) else np.zeros(0, np.int64)
    return sums
