"""One sentence with figures for every group and for every reason to leave files alone. Figures come in, words go out;
sentences have no full stop, because they are also joined into longer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import partition, size
from iceberg_compaction.model.plan import LeftOutReason, Reason

if TYPE_CHECKING:
    from iceberg_compaction.model.policy import Policy, Sizes


class GroupWords:
    """Words for the groups of one plan; what all of them share is formatted once."""

    def __init__(self, sizes: Sizes) -> None:
        self._low = size.format_size(sizes.min)
        self._high = size.format_size(sizes.max)

    def sentence(self, where: str, reason: Reason, count: int, total: int, figures: tuple[int, int, int]) -> str:
        """`figures` are files below the minimum, files above the maximum, and expected outputs."""
        below, above, outputs = figures
        mean = size.format_size(total / count)
        what = f"1 file of {mean}" if count == 1 else f"{count} files of {mean} on average"
        place = partition.text(where)
        return f"{place}: {what}{self._rest(reason, count, below, above, outputs)}".removeprefix(": ")

    def _rest(self, reason: Reason, count: int, below: int, above: int, outputs: int) -> str:
        become = "becomes" if count == 1 else "become"
        match reason:
            case Reason.REWRITE_ALL:
                return f", rewritten as asked, {become} {outputs}"
            case Reason.LARGE_FILES:
                which = "above" if above == count else f"{above} of them above"
                return f", {which} {self._high}, {become} {outputs}"
            case Reason.SMALL_FILES | Reason.NOT_OPTIMAL:
                if below == count:
                    return f", all below {self._low}, fit into {outputs}"
                large = f" and {above} above {self._high}" if above else ""
                return f", {below} of them below {self._low}{large}, {become} {outputs}"
            case _:
                assert_never(reason)


def left_out(reason: LeftOutReason, count: int, total: int, policy: Policy, sizes: Sizes) -> str:
    """Why `count` files of `total` bytes are left alone."""
    files = f"{count} {'file' if count == 1 else 'files'} ({size.format_size(total)})"
    be = "is" if count == 1 else "are"
    match reason:
        case LeftOutReason.WELL_SIZED:
            low, high = size.format_size(sizes.min), size.format_size(sizes.max)
            return f"{files} {be} well sized for a range of {low} to {high}"
        case LeftOutReason.TOO_FEW_FILES:
            few, target = max(2, policy.min_input_files), size.format_size(sizes.target)
            return f"{files} {be} small but no group of {few} in one partition, nor more than {target} together"
        case LeftOutReason.NO_GAIN:
            return f"{files} would become as many files again"
        case LeftOutReason.NOT_SELECTED:
            return f"{files} cannot hold rows that match the filter" + (f" {policy.where}" if policy.where else "")
        case LeftOutReason.OVER_BUDGET:
            return f"{files} wait for another run, because max-files-to-rewrite is {policy.max_files_to_rewrite}"
        case LeftOutReason.NO_DATA:
            return "The table has no data files"
        case LeftOutReason.UNSUPPORTED:
            return f"{files} {be} not touched, because the table is not supported"
        case _:
            assert_never(reason)
