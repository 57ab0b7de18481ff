"""Packs files into bins as Iceberg does: in order, into one open bin at a time, within a capacity of bytes and files,
never across partitions or specs. Files come in, a bin number for each and the figures of the bins go out. A partition
that fits into one bin is never sorted for this: its figures are sums."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.plan import candidates, output_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Sizes
    from iceberg_compaction.plan.candidates import CandidateFiles, ReadingOrder
    from iceberg_compaction.plan.plan_request import PlanRequest

_EXACT = 2**53  # integers up to here are exact as floats, and numpy sums by number in floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Bins:
    """The figures that decide about bins, one item each. A bin may be empty."""

    packing_key: NDArray[np.int64]  # of their files
    count: NDArray[np.int64]
    bytes: NDArray[np.int64]
    below: NDArray[np.int64]  # files smaller than the minimum
    below_bytes: NDArray[np.int64]  # of these; only for bins that are not alone
    above: NDArray[np.int64]  # files larger than the maximum
    delete_heavy: NDArray[np.int64]  # files whose deletes alone are a reason
    outputs: NDArray[np.int64]  # expected output files
    alone: NDArray[np.bool_]  # the partition has no other bin
    # Position of each bin's reason in a list of the strategy's own, if it decided while it grouped; None: it did not.
    reason: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.packing_key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Files in bins."""

    files: CandidateFiles
    order: ReadingOrder
    bin_of: NDArray[np.int64]  # the bin number of every file
    bins: Bins


def pack(files: CandidateFiles, request: PlanRequest, *, first: NDArray[np.bool_] | None = None) -> Packing:
    """The files in bins. Bin numbers ascend within a partition. `first`: the mask of files that are packed before the
    others of their partition."""
    policy, sizes = request.policy, request.sizes
    order = candidates.ReadingOrder(request.view, files)
    keys = np.arange(len(files.numbering))
    most = min(policy.max_file_group_input_files or len(files.packing_key), len(files.packing_key))
    bins = measure(files, files.packing_key, keys, sizes)
    too_much = (bins.bytes > policy.max_file_group_size_bytes) | (bins.count > most)
    if not too_much.any():
        return Packing(files=files, order=order, bin_of=files.packing_key, bins=bins)
    divided = np.flatnonzero(too_much[files.packing_key])
    positions = order.sort(divided, files.packing_key[divided])
    in_order = files.bytes[positions], files.packing_key[positions]
    early = None if first is None else np.flatnonzero(first[positions])
    packing_order, starts = _divide(*in_order, (policy.max_file_group_size_bytes, most), early)
    packed = positions[packing_order]
    bin_of = files.packing_key.copy()
    bin_of[packed] = len(keys) + np.repeat(np.arange(len(starts)), np.diff(np.append(starts, len(packed))))
    bins = measure(files, bin_of, np.concatenate([keys, files.packing_key[packed[starts]]]), sizes)
    return Packing(files=files, order=order, bin_of=bin_of, bins=bins)


def measure(files: CandidateFiles, bin_of: NDArray[np.int64], keys: NDArray[np.int64], sizes: Sizes) -> Bins:
    """The figures of the bins of `files`; bin `i` holds files of the packing key `keys[i]`."""
    total, count = _sums(bin_of, files.bytes, len(keys)), np.bincount(bin_of, minlength=len(keys))
    alone = np.bincount(keys[count > 0], minlength=len(files.numbering))[keys] <= 1
    below, below_bytes = files.bytes < sizes.min, np.zeros(len(keys), np.int64)
    if not alone.all():
        beside = below & ~alone[bin_of]
        below_bytes = _sums(bin_of[beside], files.bytes[beside], len(keys))
    live = total if files.live is files.bytes else _sums(bin_of, files.live, len(keys))
    return Bins(
        packing_key=keys,
        count=count,
        bytes=total,
        below=_counts(bin_of, below, count),
        below_bytes=below_bytes,
        above=_counts(bin_of, files.large(sizes), count),
        delete_heavy=_counts(bin_of, files.delete_heavy, count),
        outputs=output_counts.output_counts(live, sizes),
        alone=alone,
    )


def measure_one(files: CandidateFiles, positions: NDArray[np.int64], sizes: Sizes) -> Bins:
    """The figures of one bin that holds the files at these positions."""
    size = files.bytes[positions]
    below = size < sizes.min
    return Bins(
        packing_key=files.packing_key[positions[:1]],
        count=np.array([len(size)]),
        bytes=size.sum(keepdims=True),
        below=below.sum(keepdims=True),
        below_bytes=size[below].sum(keepdims=True),
        above=files.large(sizes)[positions].sum(keepdims=True),
        delete_heavy=files.delete_heavy[positions].sum(keepdims=True),
        outputs=output_counts.output_counts(files.live[positions].sum(keepdims=True), sizes),
        alone=np.array([True]),
    )


def _divide(
    size: NDArray[np.int64], keys: NDArray[np.int64], capacity: tuple[int, int], early: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The order in which files of large partitions, given in reading order, are packed, and where bins start in it.

    With `early`, the positions of files of a wrong size and of delete-heavy ones, these are packed before the others.
    So they share as few bins as possible, `full` leaves the other bins alone, and files that a rewrite puts elsewhere
    in the order make no new pairs of them (fixed point). Their last bin is filled up with other files that come after
    its first file: so all that is rewritten is in reading order from bin to bin, and no output covers more keys than it
    must.
    """
    if early is None:
        return np.arange(len(size)), next_fit(size, _begins(keys), capacity)
    starts = early[next_fit(size[early], _begins(keys[early]), capacity)]
    partition = np.cumsum(np.append(False, keys[1:] != keys[:-1]))
    start_of = np.zeros(int(partition[-1]) + 1, np.int64)
    np.maximum.at(start_of, partition[starts], starts)  # where the last bin of early files starts
    turn = np.where(np.arange(len(size)) < start_of[partition], 2, 1)  # the others: after that start, or before it
    turn[early] = 0
    order = np.lexsort((turn, partition))
    return order, next_fit(size[order], _begins(2 * partition[order] + (turn[order] == 2)), capacity)


def next_fit(size: NDArray[np.int64], begins: NDArray[np.int64], capacity: tuple[int, int]) -> NDArray[np.int64]:
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
