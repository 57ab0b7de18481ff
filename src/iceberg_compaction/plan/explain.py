"""One sentence with figures for every reason to leave files alone. Figures come in, words go out; sentences have no
full stop, because they are also joined into longer ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from typing_extensions import assert_never

from iceberg_compaction.model import byte_size, policies
from iceberg_compaction.model.rewrite_plan import LeftOutReason

if TYPE_CHECKING:
    from collections.abc import Iterator

    from iceberg_compaction.model.policies import Policy, Sizes


def left_out(reason: LeftOutReason, count: int, total: int, policy: Policy, sizes: Sizes) -> str:
    """Why `count` files of `total` bytes are left alone."""
    files = f"{count} {'file' if count == 1 else 'files'} ({byte_size.format_size(total)})"
    be = "is" if count == 1 else "are"
    match reason:
        case LeftOutReason.WELL_SIZED:
            low, high = byte_size.format_size(sizes.min), byte_size.format_size(sizes.max)
            return f"{files} {be} well sized for a range of {low} to {high}"
        case LeftOutReason.TOO_FEW_FILES:
            few, target = max(2, policy.min_input_files), byte_size.format_size(sizes.target)
            return f"{files} {be} small but no group of {few} in one partition, nor more than {target} together"
        case LeftOutReason.FEW_DELETES:
            return f"{files} {'has' if count == 1 else 'have'} {_few_deletes(policy)}"
        case LeftOutReason.NO_GAIN:
            return f"{files} would become as many files again"
        case LeftOutReason.NOT_SELECTED:
            return f"{files} cannot hold rows that match the filter" + (f" {policy.where}" if policy.where else "")
        case LeftOutReason.CLAIMED:
            return f"{files} {be} in partitions that another run is at work on"
        case LeftOutReason.OVER_BUDGET:
            return f"{files} wait for another run, because {' and '.join(_budgets(policy))}"
        case LeftOutReason.NO_DATA:
            return "The table has no data files"
        case LeftOutReason.UNSUPPORTED:
            return f"{files} {be} not touched, because the table is not supported"
        case _:
            assert_never(reason)


def _few_deletes(policy: Policy) -> str:
    thresholds = policies.resolve_thresholds(policy)
    if thresholds.files == 1:
        return "no deletes"
    share = f"less than {thresholds.ratio:.0%} of rows deleted"
    return share if thresholds.files is None else f"fewer than {thresholds.files} delete files and {share}"


def _budgets(policy: Policy) -> Iterator[str]:
    if policy.max_files_to_rewrite is not None:
        yield f"max-files-to-rewrite is {policy.max_files_to_rewrite}"
    if policy.max_bytes_to_rewrite is not None:
        yield f"max-bytes-to-rewrite is {byte_size.format_size(policy.max_bytes_to_rewrite)}"
