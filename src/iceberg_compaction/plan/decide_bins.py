"""Which files belong together and which of these bins are worth rewriting: the part of planning that `build` and
`needs_work` share. An inventory and a policy come in, a decision about every bin goes out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import assert_never

from iceberg_compaction import errors
from iceberg_compaction.model import policies
from iceberg_compaction.model.policies import Policy, Sizes, Strategy
from iceberg_compaction.model.rewrite_plan import LeftOutReason
from iceberg_compaction.plan import candidates, packing, respec
from iceberg_compaction.plan.strategies import delete_files, full, small_files, verdict

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from iceberg_compaction.model.table_view import TableView

    Tally = dict[LeftOutReason, tuple[int, int]]  # files and bytes left out, by reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Candidates in bins, what is thought of each bin, and what is no candidate at all."""

    files: candidates.DataFiles
    order: candidates.ReadingOrder
    numbers: NDArray[np.int64]  # the bin of every file
    bins: packing.Bins
    verdict: verdict.Verdict
    left: Tally


def decide(view: TableView, policy: Policy, sizes: Sizes) -> Decision:
    selected, ruled_out = _data_files(view, policy)
    wanted = np.ones(len(selected.rows), np.bool_) if policy.rewrite_all else _candidates(selected, policy, sizes)
    files = selected.take(wanted)
    if policy.strategy is not Strategy.DELETE_FILES:
        files = respec.with_neighbours(view, files, policy, sizes)
    order = candidates.ReadingOrder(view, files)
    numbers, bins = packing.pack(files, order, policy, sizes)
    decided = verdict.everything(bins) if policy.rewrite_all else _judge(bins, policy, sizes)
    by_deletes = policy.strategy is Strategy.DELETE_FILES
    left: Tally = {
        LeftOutReason.FEW_DELETES if by_deletes else LeftOutReason.WELL_SIZED: _tally(selected.bytes[~wanted]),
        **ruled_out,
    }
    for reason, mask in decided.left_out.items():
        count, total = left.get(reason, (0, 0))
        left[reason] = (count + int(bins.count[mask].sum()), total + int(bins.bytes[mask].sum()))
    return Decision(files=files, order=order, numbers=numbers, bins=bins, verdict=decided, left=left)


def untouched(view: TableView, policy: Policy) -> Tally:
    """What is left out of a table that must not be rewritten."""
    selected, ruled_out = _data_files(view, policy)
    return {LeftOutReason.UNSUPPORTED: _tally(selected.bytes), **ruled_out}


def _data_files(view: TableView, policy: Policy) -> tuple[candidates.DataFiles, Tally]:
    selected, ruled_out = candidates.data_files(view, policy)
    return selected, {reason: _tally(sizes) for reason, sizes in ruled_out.items()}


def resolve_sizes(view: TableView, policy: Policy) -> Sizes:
    """The sizes in force for a table."""
    try:
        return policies.resolve_sizes(policy, view.properties)
    except ValueError as error:
        raise errors.ConfigError(f"The file sizes for table {view.table} make no sense: {error}.") from error


def _tally(sizes: NDArray[np.int64]) -> tuple[int, int]:
    return len(sizes), int(sizes.sum())


def _candidates(files: candidates.DataFiles, policy: Policy, sizes: Sizes) -> NDArray[np.bool_]:
    match policy.strategy:
        case Strategy.SMALL_FILES:
            return small_files.candidates(files, sizes)
        case Strategy.FULL:
            return full.candidates(files, sizes)
        case Strategy.DELETE_FILES:
            return delete_files.candidates(files, sizes)
        case _:
            assert_never(policy.strategy)


def _judge(bins: packing.Bins, policy: Policy, sizes: Sizes) -> verdict.Verdict:
    match policy.strategy:
        case Strategy.SMALL_FILES:
            return small_files.judge(bins, policy, sizes)
        case Strategy.FULL:
            return full.judge(bins, policy, sizes)
        case Strategy.DELETE_FILES:
            return delete_files.judge(bins, policy, sizes)
        case _:
            assert_never(policy.strategy)
