"""The number of output files for a number of bytes, and the size at which the writer closes each. The planner predicts
with it and the worker writes with it. Bytes come in, a count or a size goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Sizes

MARGIN = 1.1  # factor between a written file and its estimate that stays within the range min ... max
STAYS = 1.15  # times the target, up to which equal files may grow before there is one more of them
LEAST_MARGIN = 1.06  # times the minimum, for the last files, whose estimates are good


def output_count(total: int, sizes: Sizes) -> int:
    """Iceberg's expected output files: round up, unless the rest is too small for a file of its own and spreading it
    over the others makes them at most 10 % larger than the target."""
    if total < sizes.target:
        return 1
    whole, rest = divmod(total, sizes.target)
    spread = rest <= sizes.min and total // whole < min(1.1 * sizes.target, sizes.write_max)
    return whole if spread or not rest else whole + 1


def file_count(total: int, sizes: Sizes, aimed: int | None = None) -> int:
    """The number of output files that the writer aims for: Iceberg's count, or one fewer if that many equal files would
    lie below or just above the minimum size, or further from the target than fewer would. Else a rewrite would make
    small files for the next run. `aimed`: the number so far, which stays while it is acceptable, as estimates go up and
    down."""
    if aimed and MARGIN * sizes.min * aimed <= total <= STAYS * sizes.target * aimed:
        return aimed
    count = output_count(total, sizes)
    if count == 1 or total * MARGIN > sizes.max * (count - 1):
        return count
    too_small = total < MARGIN * sizes.min * count
    fewer_are_nearer = float(total) * (2 * count - 1) < 2.0 * sizes.target * count * (count - 1)
    return count - 1 if too_small or fewer_are_nearer else count


def takes_all(held: int, to_come: int, sizes: Sizes, aimed: int | None = None) -> bool:
    """Whether an open file should take all remaining bytes: it is the only file for so many bytes; or estimates have
    changed, the file has outgrown its share, and the rest would make a small file."""
    total = held + to_come
    count = file_count(total, sizes, aimed)
    rest = total - max(held, -(-total // count))
    return count == 1 or (rest < LEAST_MARGIN * sizes.min and total <= sizes.max)


def roll_size(remaining: int, sizes: Sizes, held: int = 0, aimed: int | None = None) -> int:
    """The size at which to close an output file that holds `held` bytes. `remaining`: the estimated output bytes from
    the beginning of the file to the end of the task.

    Equal shares leave no small tail, and the last file gets room for the error of the estimate. The writer asks again
    as a file grows and the estimate gets better. An answer at the beginning of a file alone would size the first file
    by a guess at the compression, and a second plan could find it small.
    """
    if takes_all(held, remaining - held, sizes, aimed):
        return min(max(sizes.write_max, int(remaining * MARGIN)), sizes.max)
    return -(-remaining // file_count(remaining, sizes, aimed))


def alone_size(sizes: Sizes) -> float:
    """The size from which on a row is a file of its own. A small file could not take it without being too large, and so
    would stay small; every smaller row fits, with room for the error of its estimate."""
    return max(0.9 * (sizes.max - sizes.min), sizes.min)
