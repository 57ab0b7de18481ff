"""Packs files into groups as Iceberg does: in order, into one open bin at a time, within a capacity of bytes and files,
never across partitions or specs. Files come in, a bin number for each and the figures of the bins go out. A partition
that fits into one bin is never sorted for this: its figures are sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import sizing
from iceberg_compaction.model.policies import Strategy

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy, Sizes
    from iceberg_compaction.plan.candidates import DataFiles, ReadingOrder

_EXACT = 2**53  # integers up to here are exact as floats, which is what numpy sums by number


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The figures that decide about bins, one item each. A bin may be empty."""

    keys: NDArray[np.int64]  # partition numbers
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    below: NDArray[np.int64]  # files smaller than the minimum
    below_bytes: NDArray[np.int64]  # of these; only for bins that are not alone
    above: NDArray[np.int64]  # files larger than the maximum
    worn: NDArray[np.int64]  # files whose deletes alone are a reason
    outputs: NDArray[np.int64]  # expected output files
    alone: NDArray[np.bool_]  # the partition has no other bin

    def __len__(self) -> int:
        return len(self.keys)


def pack(files: DataFiles, order: ReadingOrder, policy: Policy, sizes: Sizes) -> tuple[NDArray[np.int64], Bins]:
    """The bin number of every file, ascending within a partition, and the bins."""
    keys = np.arange(len(files.partitions))
    most = min(policy.max_file_group_input_files or len(files.keys), len(files.keys))
    bins = measure(files, files.keys, keys, sizes)
    too_much = (bins.bytes > policy.max_file_group_size_bytes) | (bins.count > most)
    if not too_much.any():
        return files.keys, bins
    found = np.flatnonzero(too_much[files.keys])
    positions = order.sort(found, files.keys[found])
    in_order = files.bytes[positions], files.keys[positions]
    wrong_first = policy.strategy is Strategy.FULL and not policy.rewrite_all
    wrong = np.flatnonzero((files.outside(sizes) | files.worn)[positions]) if wrong_first else None
    packing_order, starts = _divide(*in_order, (policy.max_file_group_size_bytes, most), wrong)
    packed = positions[packing_order]
    numbers = files.keys.copy()
    numbers[packed] = len(keys) + np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(packed))))
    return numbers, measure(files, numbers, np.concatenate([keys, files.keys[packed[starts]]]), sizes)


def measure(files: DataFiles, numbers: NDArray[np.int64], keys: NDArray[np.int64], sizes: Sizes) -> Bins:
    """The figures of the bins of `files`, whose bins are `numbers`; bin `i` belongs to partition `keys[i]`."""
    total, count = _sums(numbers, files.bytes, len(keys)), np.bincount(numbers, minlength=len(keys))
    alone = np.bincount(keys[count > 0], minlength=len(files.partitions))[keys] <= 1
    below, below_bytes = files.bytes < sizes.min, np.zeros(len(keys), np.int64)
    if not alone.all():
        beside = below & ~alone[numbers]
        below_bytes = _sums(numbers[beside], files.bytes[beside], len(keys))
    return Bins(
        keys=keys,
        count=count,
        bytes=total,
        below=_counts(numbers, below, count),
        below_bytes=below_bytes,
        above=_counts(numbers, files.large(sizes), count),
        worn=_counts(numbers, files.worn, count),
        outputs=output_counts(total if files.live is files.bytes else _sums(numbers, files.live, len(keys)), sizes),
        alone=alone,
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
    nearer = total.astype(np.float64) * (2 * counts - 1) < 2.0 * sizes.target * counts * (counts - 1)
    fewer = (counts > 1) & (too_small | nearer) & (total * sizing.MARGIN <= sizes.max * (counts - 1))
    aimed: NDArray[np.int64] = np.where(fewer, counts - 1, counts)
    return aimed


def _divide(
    size: NDArray[np.int64], keys: NDArray[np.int64], capacity: tuple[int, int], wrong: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order in which files of large partitions, given in reading order, are packed, and where bins start in it.

    With `wrong`, the positions of files of a wrong size and of worn ones, these are packed before the others. So they
    share as few bins as possible, `full` leaves the other bins alone, and what a rewrite puts elsewhere in the order
    does not make new pairs of them (fixed point). Their last bin is filled up with other files that come after its
    first file: so all that is rewritten is in reading order from bin to bin, and no output covers more keys than it
    must.
    """
    if wrong is None:
        return np.arange(len(size)), _next_fit(size, _begins(keys), capacity)
    starts = wrong[_next_fit(size[wrong], _begins(keys[wrong]), capacity)]
    partition = np.cumsum(np.append(False, keys[1:] != keys[:-1]))
    start_of = np.zeros(int(partition[-1]) + 1, np.int64)
    np.maximum.at(start_of, partition[starts], starts)  # where the last bin of wrong files starts
    turn = np.where(np.arange(len(size)) < start_of[partition], 2, 1)  # well sized: after that start, or before it
    turn[wrong] = 0
    order = np.lexsort((turn, partition))
    return order, _next_fit(size[order], _begins(2 * partition[order] + (turn[order] == 2)), capacity)


def _next_fit(size: NDArray[np.int64], begins: NDArray[np.int64], capacity: tuple[int, int]) -> NDArray[np.int64]:
    """Where bins start if files are packed in their order; a new one starts at least at each of `begins`."""
    reach = np.append(0, np.cumsum(size))
    most_bytes, most_files = min(capacity[0], int(reach[-1])), capacity[1]
    starts, start, end = [begins[:0]], begins, np.append(begins, len(size))[1:]
    while len(start):  # one bin of every partition at a time
        starts.append(start)
        full = np.searchsorted(reach, reach[start] + most_bytes, side="right") - 1
        start = np.minimum(np.maximum(full, start + 1), start + most_files)  # too large a file has its own bin
        start, end = start[start < end], end[start < end]
    return np.sort(np.concatenate(starts))


def _begins(keys: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where runs of equal keys begin."""
    return np.flatnonzero(np.append(True, keys[1:] != keys[:-1])) if len(keys) else np.zeros(0, np.int64)


def _counts(numbers: NDArray[np.int64], mask: NDArray[np.bool_], every: NDArray[np.int64]) -> NDArray[np.int64]:
    """How often each number occurs where the mask holds; `every` is how often it occurs at all."""
    if np.count_nonzero(mask) * 2 > len(mask):  # the others are fewer and quicker to count
        return every - np.bincount(numbers[~mask], minlength=len(every))
    return np.bincount(numbers[mask], minlength=len(every))


def _sums(numbers: NDArray[np.int64], values: NDArray[np.int64], count: int) -> NDArray[np.int64]:
    """The sum of the values of each number."""
    if values.sum(dtype=np.float64) < _EXACT:
        return np.bincount(numbers, weights=values, minlength=count).astype(np.int64)
    sums = np.zeros(count, np.int64)
    np.add.at(sums, numbers, values)
    return sums
