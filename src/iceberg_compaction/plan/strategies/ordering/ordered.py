"""What strategies that sort rows share. The files of a partition fall into units whose ranges do not overlap; a unit is
rewritten if a file in it is not sorted, if its ranges overlap too deep, or for size and deletes. Neighbouring units are
packed into one group as far as one task may sort them, and every group is sorted as a whole.

Fixed point: a group's outputs are sorted, disjoint, and lie between the units beside it; so each is a unit by itself
that needs nothing. A unit above max-sort-bytes is left alone. docs/reference/strategies.md has the conditions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from iceberg_compaction.model import byte_size, plurals, row_order_terms
from iceberg_compaction.model.rewrite_plan import GroupReason, LeftOutReason
from iceberg_compaction.plan import candidates, output_counts, packing, respec
from iceberg_compaction.plan.strategies import group_filter, rewrite_strategy
from iceberg_compaction.plan.strategies.ordering import order_facts, overlap_units

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.policies import Policy
    from iceberg_compaction.plan.candidates import CandidateFiles
    from iceberg_compaction.plan.packing import Bins, Packing
    from iceberg_compaction.plan.plan_request import PlanRequest
    from iceberg_compaction.plan.strategies.rewrite_strategy import Choice, Verdict

    Ints = NDArray[np.int64]
    Mask = NDArray[np.bool_]

# Why a group is rewritten; of several reasons the first counts.
REASONS = (
    GroupReason.COLD,
    GroupReason.UNSORTED,
    GroupReason.OVERLAPPING,
    GroupReason.DELETES,
    GroupReason.LARGE_FILES,
    GroupReason.SMALL_FILES,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Pieces:
    """All files of a table in pieces: neighbouring units that one task can sort together. A file may be in none."""

    files: CandidateFiles
    piece_of: Ints  # of each file; -1: none
    reason: Ints  # position in REASONS, of each piece; -1: it is not rewritten
    left_out: dict[LeftOutReason, Mask]  # the files that are not rewritten


def capacity(policy: Policy) -> int:
    """Bytes that one group may hold."""
    return min(policy.max_sort_bytes, policy.max_file_group_size_bytes)


def pieces(files: CandidateFiles, request: PlanRequest, cold: Mask | None = None) -> Pieces:
    """The files in pieces. `cold`: packing keys whose files have the layout's sizes for cold partitions."""
    pooled = respec.with_fed_partitions(files, request)
    parts = _Parts(pooled, request, np.zeros(len(files.numbering), np.bool_) if cold is None else cold)
    return parts.pieces()


class _Parts:
    """The files of a table in units, and what each unit needs."""

    def __init__(self, files: CandidateFiles, request: PlanRequest, cold: Mask) -> None:
        self._files, self._request, self._cold = files, request, cold
        self._forced = request.policy.rewrite_all
        self._sizes = request.sizes
        self._cold_sizes = request.layout.cold or request.sizes
        self._unsorted = ~order_facts.is_sorted(files, request)
        ranges = order_facts.ranges(files, request)
        whole = (self._unsorted & ~ranges.bounded) | (files.packing_key != files.partition)
        self._units = overlap_units.find(files.packing_key, ranges, whole)
        self._reasons = self._needs()
        self._needed = np.logical_or.reduce(self._reasons[1:-1])
        self._size = self._units.sums(files.bytes)
        self._too_large = self._needed & (self._size > capacity(request.policy)) & (not self._forced)

    def _needs(self) -> list[Mask]:
        """The masks of units that have each of REASONS."""
        files, units = self._files, self._units
        below, large = self._by_size()
        return [
            self._cold[units.keys],
            units.any(self._unsorted),
            units.depth > self._request.policy.max_overlap_depth,
            units.any(files.delete_heavy),
            units.any(large),
            units.any(below),
        ]

    def _by_size(self) -> tuple[Mask, Mask]:
        """The masks of files that are too small, and too large, for their partition."""
        files = self._files
        cold = self._cold[files.packing_key]
        below = files.bytes < np.where(cold, self._cold_sizes.min, self._sizes.min)
        large = np.where(cold, files.large(self._cold_sizes), files.large(self._sizes))
        return below, large

    def pieces(self) -> Pieces:
        units, files = self._units, self._files
        active = (self._needed | self._reasons[-1]) & ~self._too_large
        if self._forced:
            active = np.ones(len(units.keys), np.bool_)
        chosen = np.flatnonzero(active)
        begins = np.append(True, (np.diff(chosen) > 1) | (np.diff(units.keys[chosen]) != 0))[: len(chosen)]
        most = (capacity(self._request.policy), len(files.rows) + 1)
        starts = packing.next_fit(self._size[chosen], np.flatnonzero(begins), most)
        piece_of_unit = np.full(len(units.keys), -1)
        piece_of_unit[chosen] = np.cumsum(np.isin(np.arange(len(chosen)), starts)) - 1
        piece_of = np.full(len(files.rows), -1)
        piece_of[units.positions] = piece_of_unit[units.unit_of]
        return self._judged(piece_of, chosen, starts)

    def _judged(self, piece_of: Ints, chosen: Ints, starts: Ints) -> Pieces:
        """Pieces that have a reason by themselves are rewritten; small files must be enough, and become fewer."""
        files, count = self._files, len(starts)
        members = np.bincount(piece_of[piece_of >= 0], minlength=count)
        total, live = np.zeros((2, count), np.int64)
        inside = piece_of >= 0
        np.add.at(total, piece_of[inside], files.bytes[inside])
        np.add.at(live, piece_of[inside], files.live[inside])
        has = [
            np.logical_or.reduceat(mask[chosen], starts) if count else np.zeros(0, np.bool_) for mask in self._reasons
        ]
        cold = has[0]
        target = np.where(cold, self._cold_sizes.target, self._sizes.target)
        outputs = np.where(
            cold, output_counts.output_counts(live, self._cold_sizes), output_counts.output_counts(live, self._sizes)
        )
        enough = (members >= 2) & ((members >= self._request.policy.min_input_files) | (total > target))
        by_itself = np.logical_or.reduce(has[1:-1])
        merged = has[-1] & enough & (outputs < members)
        rewritten = by_itself | merged | self._forced
        few, no_gain = ~rewritten & (members > 1) & ~enough, ~rewritten & enough
        return Pieces(
            files=files,
            piece_of=piece_of,
            reason=np.where(rewritten, np.argmax([*has[:-1], np.ones(count, np.bool_)], axis=0), -1),
            left_out=self._left_out(piece_of, few, no_gain, rewritten),
        )

    def _left_out(self, piece_of: Ints, few: Mask, no_gain: Mask, rewritten: Mask) -> dict[LeftOutReason, Mask]:
        too_large = np.zeros(len(piece_of), np.bool_)
        too_large[self._units.positions] = self._too_large[self._units.unit_of]
        kept, lonely, vain = (_of_files(piece_of, mask) for mask in (rewritten, few, no_gain))
        return {
            LeftOutReason.TOO_LARGE_TO_SORT: too_large & ~kept,
            LeftOutReason.TOO_FEW_FILES: lonely & ~too_large,
            LeftOutReason.NO_GAIN: vain & ~too_large,
            LeftOutReason.IN_ORDER: ~(kept | too_large | lonely | vain),
        }


def _of_files(piece_of: Ints, mask: Mask) -> Mask:
    """A mask of pieces as a mask of files."""
    return np.append(mask, False)[piece_of]  # -1 is the last


def choose(files: CandidateFiles, request: PlanRequest) -> Choice:
    return choice(pieces(files, request))


def choice(every: Pieces) -> Choice:
    """The files of all pieces that are rewritten."""
    return rewrite_strategy.Choice(candidates=_of_files(every.piece_of, every.reason >= 0), left_out=every.left_out)


def group(_files: CandidateFiles, request: PlanRequest) -> Packing:
    return packed(pieces(considered(request), request), request)


def considered(request: PlanRequest) -> CandidateFiles:
    """All files that may be sorted. A group must not have others: triggers or the read-side guard may forbid them."""
    return candidates.data_files(request)[0] if request.considered is None else request.considered


def packed(every: Pieces, request: PlanRequest) -> Packing:
    """The pieces that are rewritten, as bins. They are found among all files once more: which units are neighbours
    depends on the files between them, candidates or not."""
    mask = _of_files(every.piece_of, every.reason >= 0)
    files = every.files.take(mask)
    numbers, bin_of = np.unique(every.piece_of[mask], return_inverse=True)
    keys = np.zeros(len(numbers), np.int64)
    keys[bin_of] = files.packing_key
    bins = packing.measure(files, bin_of, keys, request.sizes)
    order = candidates.ReadingOrder(request.view, files)
    return packing.Packing(files=files, order=order, bin_of=bin_of, bins=replace(bins, reason=every.reason[numbers]))


def judge(bins: Bins, _request: PlanRequest) -> Verdict:
    reason = np.zeros(len(bins), np.int64) if bins.reason is None else bins.reason
    rewritten = {each: reason == code for code, each in enumerate(REASONS)}
    return rewrite_strategy.Verdict(rewritten=rewritten, left_out={})


def gains(bins: Bins) -> Mask:
    """A part of a group is never sorted alone: it would overlap the rest, and be sorted again by every run."""
    return np.zeros(len(bins), np.bool_)


def explain(reason: LeftOutReason, count: int, request: PlanRequest) -> str:
    """As `RewriteStrategy.explain`, for the reasons above."""
    be, order = plurals.form(count, "is", "are"), row_order_terms.text(request.layout.sort_terms)
    if reason is LeftOutReason.IN_ORDER:
        return f"{be} in order by {order}, and {plurals.form(count, 'its range does', 'their ranges do')} not overlap"
    if reason is LeftOutReason.TOO_LARGE_TO_SORT:
        most = byte_size.format_size(capacity(request.policy))
        return (
            f"{be} not in order by {order}, but with the files that overlap {plurals.form(count, 'it', 'them')} more "
            f"than one task sorts ({most}, by max-sort-bytes)"
        )
    return group_filter.explain(reason, count, request)


def measured(terms: row_order_terms.Terms, constant: set[tuple[str, str]]) -> str | None:
    """The column whose bounds tell the ranges of files: that of the first term that is not `constant` in a partition.
    None: its bounds do not tell, as of bucket(16, id)."""
    varying = [
        term
        for term in terms
        if (term.column, "identity") not in constant and (term.column, term.transform) not in constant
    ]
    return varying[0].column if varying and varying[0].transform == "identity" else None
