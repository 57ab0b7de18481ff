"""How many files some bytes become and where the writer closes each of them. The planner predicts with it and the
worker writes with it, so it lives in the vocabulary that both share. Bytes come in, a count or a size goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.model.policies import Sizes

# How far a written file may end up from its estimate without leaving the range min ... max.
MARGIN = 1.1
STAYS = 1.15  # times the target, up to which equal files may grow before there is one more of them
LEAST_MARGIN = 1.06  # of the last files over the minimum, of which the estimate is good by then


def output_count(total: int, sizes: Sizes) -> int:
    """Iceberg's expected output files: round up, unless the rest is too small for a file of its own and spreading it
    over the others makes them at most 10 % larger than the target."""
    if total < sizes.target:
        return 1
    whole, rest = divmod(total, sizes.target)
    spread = rest <= sizes.min and total // whole < min(1.1 * sizes.target, sizes.write_max)
    return whole if spread or not rest else whole + 1


def file_count(total: int, sizes: Sizes, aimed: int | None = None) -> int:
    """Output files that the writer aims for: Iceberg's count, or one fewer where that many equal files would lie below
    or just above the minimum size, or further from the target than fewer would. Without this a rewrite makes the small
    files that the next run finds. `aimed`: how many it was so far, which stays as long as that is no bad choice, as
    estimates go up and down."""
    if aimed and MARGIN * sizes.min * aimed <= total <= STAYS * sizes.target * aimed:
        return aimed
    count = output_count(total, sizes)
    if count == 1 or total * MARGIN > sizes.max * (count - 1):
        return count
    too_small = total < MARGIN * sizes.min * count
    fewer_are_nearer = float(total) * (2 * count - 1) < 2.0 * sizes.target * count * (count - 1)
    return count - 1 if too_small or fewer_are_nearer else count


def takes_all(held: int, to_come: int, sizes: Sizes, aimed: int | None = None) -> bool:
    """Whether an open file should take all that is to come: it is the only one for so many bytes; or estimates have
    changed, it has outgrown its share, and what it would leave makes a small file."""
    total = held + to_come
    count = file_count(total, sizes, aimed)
    rest = total - max(held, -(-total // count))
    return count == 1 or (rest < LEAST_MARGIN * sizes.min and total <= sizes.max)


def roll_size(remaining: int, sizes: Sizes, held: int = 0, aimed: int | None = None) -> int:
    """Where to close an output file that holds `held` bytes, given the estimated output bytes from its beginning to the
    end of the task.

    Equal shares leave no small tail, and the last file gets room for what the estimate missed. The writer asks
    as a file grows and the estimate gets better, with what the file holds so far plus what is still to come. One that
    asked only when a file begins would cut the first by a mere guess at how the input compresses, and a second plan
    could find it small.
    """
    if takes_all(held, remaining - held, sizes, aimed):
        return min(max(sizes.write_max, int(remaining * MARGIN)), sizes.max)
    return -(-remaining // file_count(remaining, sizes, aimed))


def alone_size(sizes: Sizes) -> float:
    """From here on a row is a file of its own. A file that is too small could not take it without being too large, and
    so would stay as it is; every smaller row fits, with room for what its estimate missed."""
    return max(0.9 * (sizes.max - sizes.min), sizes.min)
