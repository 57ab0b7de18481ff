"""How many files some bytes become and where the writer closes each of them. The planner predicts with it and the
worker writes with it, so it lives in the vocabulary that both share. Bytes come in, a count or a size goes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from iceberg_compaction.model.policy import Sizes

# How far a written file may end up from its estimate without leaving the range min ... max.
MARGIN = 1.1
# All files but the last should be within 10 % of the target, and the writer may miss what it aims at.
NEAR_TARGET = (0.95, 1.05)
FAR_FROM_TARGET = 0.9
LEAST_MARGIN = 1.06  # of the last files over the minimum, of which the estimate is good by then


def output_count(total: int, sizes: Sizes) -> int:
    """Iceberg's expected output files: round up, unless the rest is too small for a file of its own and spreading it
    over the others makes them at most 10 % larger than the target."""
    if total < sizes.target:
        return 1
    whole, rest = divmod(total, sizes.target)
    spread = rest <= sizes.min and total // whole < min(1.1 * sizes.target, sizes.write_max)
    return whole if spread or not rest else whole + 1


def file_count(total: int, sizes: Sizes) -> int:
    """Output files that the writer aims for: Iceberg's count, or one fewer where that many equal files would lie below
    or just above the minimum size. Without this a rewrite makes the small files that the next run finds."""
    count = output_count(total, sizes)
    too_small = total < MARGIN * sizes.min * count
    if count > 1 and too_small and total * MARGIN <= sizes.max * (count - 1):
        return count - 1
    return count


def takes_all(held: int, to_come: int, sizes: Sizes) -> bool:
    """Whether an open file should take all that is to come: it is the only one for so many bytes; or estimates have
    changed, it has outgrown its share, and what it would leave makes a small file."""
    total = held + to_come
    count = file_count(total, sizes)
    rest = total - max(held, -(-total // count))
    return count == 1 or (rest < LEAST_MARGIN * sizes.min and total <= sizes.max)


def roll_size(remaining: int, sizes: Sizes, held: int = 0) -> int:
    """Where to close an output file that holds `held` bytes, given the estimated output bytes from its beginning to the
    end of the task.

    Equal shares leave no small tail, and the last file gets room for what the estimate missed. The writer asks
    as a file grows and the estimate gets better, with what the file holds so far plus what is still to come. One that
    asked only when a file begins would cut the first by a mere guess at how the input compresses, and a second plan
    could find it small.
    """
    count = file_count(remaining, sizes)
    if takes_all(held, remaining - held, sizes):
        return min(max(sizes.write_max, int(remaining * MARGIN)), sizes.max)
    return _near_target(-(-remaining // count), remaining, count, sizes)


def _near_target(share: int, remaining: int, count: int, sizes: Sizes) -> int:
    """An equal share moved towards the target, as far as the last file can make up for it. Where the files would be
    too small for that, one fewer takes its part, and the last is large."""
    low, high = int(NEAR_TARGET[0] * sizes.target), min(int(NEAR_TARGET[1] * sizes.target), sizes.max)
    if share > high:
        return min(share, max(high, remaining - int(sizes.max / MARGIN) * (count - 1)))
    if share >= low:
        return share
    many = max(share, min(low, (remaining - int(LEAST_MARGIN * sizes.min)) // (count - 1)))
    last_of_many, last_of_few = remaining - many * (count - 1), remaining - high * (count - 2)
    few_are_better = many < FAR_FROM_TARGET * sizes.target or last_of_few - sizes.target < sizes.target - last_of_many
    return high if few_are_better and last_of_few * MARGIN <= sizes.max else many
